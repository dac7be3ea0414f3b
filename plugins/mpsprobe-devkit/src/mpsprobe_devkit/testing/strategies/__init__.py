"""Hypothesis strategies: reports of every kind, declarations, names, options, traces. Needs Hypothesis.

hypothesis comes with mpsprobe-devkit; mpsprobe itself does not depend on it. In a test::

    @given(coverage_reports())
    def test_it_renders(report): ...
"""

from mpsprobe_devkit.testing.strategies.declarations import (
    declarations,
    exporter_declarations,
    plugin_names,
    run_options,
    workload_declarations,
)
from mpsprobe_devkit.testing.strategies.reports import (
    checkpoint_reports,
    comparison_reports,
    coverage_reports,
    fit_reports,
    matrix_reports,
    profile_reports,
    ranking_reports,
    reports,
    reports_of,
    several_reports,
    traces,
    unknown_reports,
    upgrade_reports,
)
from mpsprobe_devkit.testing.strategies.schemas import records
from mpsprobe_devkit.testing.strategies.texts import hostile_texts, operator_names, releases, texts

__all__ = [
    "checkpoint_reports",
    "comparison_reports",
    "coverage_reports",
    "declarations",
    "exporter_declarations",
    "fit_reports",
    "hostile_texts",
    "matrix_reports",
    "operator_names",
    "plugin_names",
    "profile_reports",
    "ranking_reports",
    "records",
    "releases",
    "reports",
    "reports_of",
    "run_options",
    "several_reports",
    "texts",
    "traces",
    "unknown_reports",
    "upgrade_reports",
    "workload_declarations",
]
