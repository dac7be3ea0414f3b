"""What this plugin offers. Thin: it imports neither rich nor pydantic."""

from __future__ import annotations

from collections.abc import Iterable

from mpsprobe import hookimpl
from mpsprobe.declarations import ExporterDeclaration

KINDS = ("coverage", "coverage-matrix", "profile")


@hookimpl
def mpsprobe_exporters() -> Iterable[ExporterDeclaration]:
    """The four formats that reports are read in."""
    return [
        ExporterDeclaration(
            name="table",
            target="mpsprobe_exporters.table:TableExporter",
            summary="For the terminal: the short answer, the operators, what to do",
            extension=".txt",
            kinds=KINDS,
        ),
        ExporterDeclaration(
            name="json",
            target="mpsprobe_exporters.json_document:JsonExporter",
            summary="The whole report, as 'mpsprobe export' reads it back",
            extension=".json",
            kinds=KINDS,
        ),
        ExporterDeclaration(
            name="markdown",
            target="mpsprobe_exporters.markdown:MarkdownExporter",
            summary="GitHub-flavoured Markdown, for issues and pull requests",
            extension=".md",
            kinds=KINDS,
        ),
        ExporterDeclaration(
            name="csv",
            target="mpsprobe_exporters.csv_rows:CsvExporter",
            summary="One row for each operator (RFC 4180), for spreadsheets",
            extension=".csv",
            kinds=KINDS,
        ),
    ]
