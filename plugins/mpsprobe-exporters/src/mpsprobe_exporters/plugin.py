"""What this plugin offers. Thin: it imports neither rich nor pydantic."""

from __future__ import annotations

from collections.abc import Iterable

from mpsprobe import hookimpl
from mpsprobe.declarations import ExporterDeclaration

COVERAGE = ("coverage", "coverage-matrix", "coverage-several")
ALL_KINDS = (*COVERAGE, "profile", "comparison")
READ = (*ALL_KINDS, "checkpoint", "fit", "upgrade", "ranking")
PROFILE = ("profile",)
MARKDOWN = "GitHub-flavoured Markdown, for issues and pull requests"
PROMETHEUS = "Gauges in Prometheus' text format, for dashboards over time"
CSV = "One row for each thing measured or judged (RFC 4180), for spreadsheets"
HTML = "One self-contained page: charts, operators, modules, memory, time line, what to do"
CHROME = "A time line for Perfetto and chrome://tracing (trace event format)"
JUNIT = "JUnit XML, which CI systems show as tests; regressions and findings fail"
MEMORY_VIZ = "Every allocation of the step, for PyTorch's page pytorch.org/memory_viz (a snapshot)"
PARQUET = "Every sample as a row with typed columns, for pandas and DuckDB (needs pyarrow)"
SARIF = "SARIF 2.1.0, for GitHub's code scanning and editors: each finding at its line of the repository"
ANNOTATIONS = "Workflow commands, which GitHub Actions shows as annotations on the lines of the repository"
TENSORBOARD = "traces.tensorboard:TensorboardExporter"


@hookimpl
def mpsprobe_exporters() -> Iterable[ExporterDeclaration]:
    """The formats that reports are read in."""
    return [
        _made("table", ".txt", "table:TableExporter", "For the terminal: the short answer, what to do, and why", READ),
        _made(
            "json", ".json", "json_document:JsonExporter", "The whole report, as 'mpsprobe export' reads it back", READ
        ),
        _made("markdown", ".md", "markdown:MarkdownExporter", MARKDOWN, READ),
        _made("csv", ".csv", "csv_rows:CsvExporter", CSV, READ),
        _made("html", ".html", "html.exporter:HtmlExporter", HTML, READ),
        _made("chrome", ".trace.json", "traces.chrome:ChromeExporter", CHROME, PROFILE),
        _made("tensorboard", "", TENSORBOARD, "A logdir for TensorBoard with torch-tb-profiler", PROFILE, folder=True),
        _made("junit", ".xml", "junit:JunitExporter", JUNIT),
        _made("sarif", ".sarif", "sarif:SarifExporter", SARIF, COVERAGE),
        _made("annotations", ".annotations", "annotations:AnnotationsExporter", ANNOTATIONS, COVERAGE),
        _made("prometheus", ".prom", "prometheus:PrometheusExporter", PROMETHEUS),
        _made(
            "memory-viz",
            ".pickle",
            "memory_viz:MemoryVizExporter",
            MEMORY_VIZ,
            COVERAGE[:1],
            ("allocations",),
            binary=True,
        ),
        _made("parquet", ".parquet", "parquet:ParquetExporter", PARQUET, PROFILE, binary=True),
    ]


def _made(
    name: str,
    extension: str,
    target: str,
    summary: str,
    kinds: tuple[str, ...] = ALL_KINDS,
    asks: tuple[str, ...] = (),
    **how: bool,
) -> ExporterDeclaration:
    target = f"mpsprobe_exporters.{target}"
    return ExporterDeclaration(name, target, summary, extension=extension, kinds=kinds, asks=asks, **how)
