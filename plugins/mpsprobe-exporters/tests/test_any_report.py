"""Whatever is in a report that its schema allows, each exporter renders it, or says in words why it does not."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpsprobe.declarations import ExporterDeclaration, resolve
from mpsprobe.errors import ReportError
from mpsprobe_devkit.testing.strategies import reports_of
from mpsprobe_exporters.plugin import mpsprobe_exporters

PAIRS = [(one, kind) for one in mpsprobe_exporters() for kind in one.kinds]


@pytest.mark.parametrize(("declaration", "kind"), PAIRS, ids=lambda one: getattr(one, "name", one))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_any_report_is_rendered(declaration: ExporterDeclaration, kind: str, data: st.DataObject) -> None:
    report = data.draw(reports_of(kind))
    exporter = resolve(declaration.target)()
    try:
        if declaration.folder:
            for _, content in exporter.files(report):
                assert b"".join(content)
        else:
            assert exporter.render(report)
    except ReportError as refusal:
        assert refusal.message
