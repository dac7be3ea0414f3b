"""What this plugin offers. Thin: it imports neither rich nor pydantic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mpsprobe import hookimpl
from mpsprobe.declarations import ExporterDeclaration

COVERAGE = ("coverage", "coverage-matrix", "coverage-several")
ALL_KINDS = (*COVERAGE, "profile", "comparison")
READ = (*ALL_KINDS, "checkpoint", "fit", "upgrade", "ranking", "verification", "precision")
PROFILE = ("profile",)
ABOUT = {
    "table": "For the terminal: the short answer, what to do, and why",
    "json": "The whole report, as 'mpsprobe export' reads it back",
    "markdown": "GitHub-flavoured Markdown, for issues and pull requests",
    "csv": "One row for each thing measured or judged (RFC 4180), for spreadsheets",
    "html": "One self-contained page: charts, operators, modules, memory, time line, what to do",
    "chrome": "A time line for Perfetto and chrome://tracing (trace event format)",
    "tensorboard": "A logdir for TensorBoard with torch-tb-profiler",
    "junit": "JUnit XML, which CI systems show as tests; regressions and findings fail",
    "sarif": "SARIF 2.1.0, for GitHub's code scanning and editors: each finding at its line of the repository",
    "annotations": "Workflow commands, which GitHub Actions shows as annotations on the lines of the repository",
    "prometheus": "Gauges in Prometheus' text format, for dashboards over time",
    "memory-viz": "Every allocation of the step, for PyTorch's page pytorch.org/memory_viz (a snapshot)",
    "card": "A picture of 1200 x 630 for links and slides: will it run on that Mac? (SVG)",
    "card-markdown": "The card in words, for an issue or a README",
    "card-png": "The same as PNG (needs resvg-py)",
    "card-png-dark": "The same as PNG, dark",
    "card-badge": "A line for a README: what runs on which Mac (SVG)",
    "parquet": "Every sample as a row with typed columns, for pandas and DuckDB (needs pyarrow)",
}


@hookimpl
def mpsprobe_exporters() -> Iterable[ExporterDeclaration]:
    """The formats that reports are read in."""
    snapshot: dict[str, Any] = {"asks": ("allocations",), "binary": True}
    return [
        _declared("table", ".txt", READ, "table:TableExporter"),
        _declared("json", ".json", READ, "formats.json_document:JsonExporter"),
        _declared("markdown", ".md", READ, "markdown:MarkdownExporter"),
        _declared("csv", ".csv", READ, "formats.csv_rows:CsvExporter"),
        _declared("html", ".html", READ, "html.exporter:HtmlExporter"),
        _declared("chrome", ".trace.json", PROFILE, "traces.chrome:ChromeExporter"),
        _declared("tensorboard", "", PROFILE, "traces.tensorboard:TensorboardExporter", folder=True),
        _declared("junit", ".xml", ALL_KINDS, "formats.junit:JunitExporter"),
        _declared("sarif", ".sarif", COVERAGE, "formats.sarif:SarifExporter"),
        _declared("annotations", ".annotations", COVERAGE, "formats.results:AnnotationsExporter"),
        _declared("prometheus", ".prom", ALL_KINDS, "formats.prometheus:PrometheusExporter"),
        _declared("memory-viz", ".pickle", COVERAGE[:1], "formats.memory_viz:MemoryVizExporter", **snapshot),
        _declared("card", ".card.svg", COVERAGE[:1], "card:CardExporter"),
        _declared("card-markdown", ".card.md", COVERAGE[:1], "card:MarkdownCardExporter"),
        _declared("card-png", ".card.png", COVERAGE[:1], "card:PngExporter", binary=True),
        _declared("card-png-dark", ".card.dark.png", COVERAGE[:1], "card:DarkPngExporter", binary=True),
        _declared("card-badge", ".card.badge.svg", COVERAGE[:1], "card:BadgeExporter"),
        _declared("parquet", ".parquet", PROFILE, "formats.profile_rows:ParquetExporter", binary=True),
    ]


def _declared(name: str, extension: str, kinds: tuple[str, ...], target: str, **more: Any) -> ExporterDeclaration:
    target = f"mpsprobe_exporters.{target}"
    return ExporterDeclaration(name, target, ABOUT[name], extension=extension, kinds=kinds, **more)
