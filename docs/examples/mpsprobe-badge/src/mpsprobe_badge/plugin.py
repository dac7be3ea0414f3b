"""What mpsprobe reads at each start: one declaration."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import ExporterDeclaration


@hookimpl
def mpsprobe_exporters() -> list[ExporterDeclaration]:
    """The badge; ``-o NAME.svg`` finds it by its extension."""
    return [
        ExporterDeclaration(
            name="badge",
            target="mpsprobe_badge.exporter:BadgeExporter",
            summary="An SVG badge for a README",
            extension=".svg",
            kinds=("coverage", "coverage-matrix", "profile"),
        )
    ]
