"""The report as JSON: every key, in the order of the schema, with keys that this version does not know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report


class JsonExporter:
    """Writes what ``mpsprobe.schemas.read_report`` reads back as an equal report, of any kind.

    The text is ASCII: escapes stand for everything else, so that it passes through any terminal
    or code page, and no name in it can draw on one.
    """

    def render(self, report: Report) -> str:
        """The document, indented by two spaces, with a line end after it."""
        # Not pydantic's own JSON mode: it refuses strings with lone surrogates, which JSON may hold.
        return json.dumps(report.model_dump(mode="python"), indent=2) + "\n"
