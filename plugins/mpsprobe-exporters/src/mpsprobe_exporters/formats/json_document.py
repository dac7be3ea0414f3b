"""The report as JSON: every key, in the order of the schema, with keys that this version does not know."""

from __future__ import annotations

import json
import math
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mpsprobe.schemas.report import Report

PARTS = 100_000  # numbers and brackets of one piece
PLAIN = frozenset((int, str))


class JsonExporter:
    """Writes what ``mpsprobe.schemas.read_report`` reads back as an equal report, of any kind.

    The text is ASCII: it passes through any terminal or code page, and no name in it can draw on one.
    """

    def render(self, report: Report) -> str:
        return "".join(self.stream(report))

    def stream(self, report: Report) -> Iterator[str]:
        """In pieces: the text of a trace of a million events is never whole in memory."""
        # Not pydantic's own JSON mode: it refuses strings with lone surrogates, which JSON may hold.
        document = _finite(report.model_dump(mode="python"))
        parts = json.JSONEncoder(indent=2, allow_nan=False).iterencode(document)
        while piece := "".join(islice(parts, PARTS)):
            yield piece
        yield "\n"


def _finite(value: Any) -> Any:
    """``null`` for NaN and the infinities, which JSON does not have; only keys that no schema here knows hold them."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return value if PLAIN.issuperset(map(type, value)) else [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
