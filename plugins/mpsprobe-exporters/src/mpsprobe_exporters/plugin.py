"""What this plugin offers. Thin: it imports neither rich nor pydantic."""

from __future__ import annotations

from collections.abc import Iterable

from mpsprobe import hookimpl
from mpsprobe.declarations import ExporterDeclaration

ALL_KINDS = ("coverage", "coverage-matrix", "profile", "comparison")


@hookimpl
def mpsprobe_exporters() -> Iterable[ExporterDeclaration]:
    """The formats that reports are read in."""
    return [
        ExporterDeclaration(
            name="table",
            target="mpsprobe_exporters.table:TableExporter",
            summary="For the terminal: the short answer, what to do, what it follows from",
            extension=".txt",
            kinds=ALL_KINDS,
        ),
        ExporterDeclaration(
            name="json",
            target="mpsprobe_exporters.json_document:JsonExporter",
            summary="The whole report, as 'mpsprobe export' reads it back",
            extension=".json",
            kinds=ALL_KINDS,
        ),
        ExporterDeclaration(
            name="markdown",
            target="mpsprobe_exporters.markdown:MarkdownExporter",
            summary="GitHub-flavoured Markdown, for issues and pull requests",
            extension=".md",
            kinds=ALL_KINDS,
        ),
        ExporterDeclaration(
            name="csv",
            target="mpsprobe_exporters.csv_rows:CsvExporter",
            summary="One row for each thing measured or judged (RFC 4180), for spreadsheets",
            extension=".csv",
            kinds=ALL_KINDS,
        ),
        ExporterDeclaration(
            name="html",
            target="mpsprobe_exporters.html.exporter:HtmlExporter",
            summary="One self-contained page: charts, operators, modules, memory, time line, what to do",
            extension=".html",
            kinds=ALL_KINDS,
        ),
        ExporterDeclaration(
            name="chrome",
            target="mpsprobe_exporters.traces.chrome:ChromeExporter",
            summary="A time line for Perfetto and chrome://tracing (trace event format)",
            extension=".trace.json",
            kinds=("profile",),
        ),
        ExporterDeclaration(
            name="tensorboard",
            target="mpsprobe_exporters.traces.tensorboard:TensorboardExporter",
            summary="A logdir for TensorBoard with torch-tb-profiler",
            extension="",
            kinds=("profile",),
            folder=True,
        ),
        ExporterDeclaration(
            name="junit",
            target="mpsprobe_exporters.junit:JunitExporter",
            summary="JUnit XML, which CI systems show as tests; regressions and findings fail",
            extension=".xml",
            kinds=ALL_KINDS,
        ),
        ExporterDeclaration(
            name="prometheus",
            target="mpsprobe_exporters.prometheus:PrometheusExporter",
            summary="Gauges in Prometheus' text format, for dashboards over time",
            extension=".prom",
            kinds=ALL_KINDS,
        ),
        ExporterDeclaration(
            name="parquet",
            target="mpsprobe_exporters.parquet:ParquetExporter",
            summary="Every sample as a row with typed columns, for pandas and DuckDB (needs pyarrow)",
            extension=".parquet",
            binary=True,
            kinds=("profile",),
        ),
    ]
