"""The report as JSON: every key, in the order of the schema, with keys that this version does not know."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

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
        document = report.model_dump(mode="python")
        try:
            return json.dumps(document, indent=2, allow_nan=False) + "\n"
        except ValueError:  # in a key that no schema here knows: all others refuse what is not finite
            return json.dumps(_finite(document), indent=2) + "\n"


def _finite(value: Any) -> Any:
    """``value`` with ``null`` for NaN and the infinities: JSON has none, and most readers refuse the document."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
