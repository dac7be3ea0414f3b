"""Each kind of report as a document: all words of the reports are here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpsprobe_exporters.document import Document
    from mpsprobe_exporters.supported import SupportedReport

HOMES = {
    "coverage": "coverage", "coverage-matrix": "matrix", "coverage-several": "several", "profile": "profile",
    "comparison": "comparison", "checkpoint": "checkpoint", "fit": "largest_size", "upgrade": "upgrade",
    "ranking": "ranking", "verification": "verification", "precision": "precision",
}  # fmt: skip
"""The module for each kind; those of other kinds are not imported for it."""


def document_of(report: SupportedReport) -> Document:
    made: Document = importlib.import_module(f"{__name__}.{HOMES[report.kind]}").document(report)
    return made
