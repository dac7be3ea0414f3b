"""The report: what everything before produces and everything after reads. Opens without torch."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import get_args

from pydantic import Field, ValidationError

from mpsprobe.errors import ReportError
from mpsprobe.schemas.checkpoint import CheckpointReport
from mpsprobe.schemas.comparison import ComparisonReport
from mpsprobe.schemas.coverage import CoverageReport, MatrixReport, SeveralReport
from mpsprobe.schemas.fit import FitReport
from mpsprobe.schemas.profile import ProfileReport
from mpsprobe.schemas.record import Exportable
from mpsprobe.schemas.releases import RankingReport, UpgradeReport
from mpsprobe.schemas.verification import PrecisionReport, VerificationReport
from mpsprobe.suggestions import printable


class UnknownReport(Exportable):
    """A report of a kind that no schema here describes: kept verbatim."""

    kind: str = Field(description="Of a newer version, or of a plugin.")
    schema_version: int = Field(description="Of that kind.")  # type: ignore[assignment]  # any, where known kinds have one


JudgedReport = CoverageReport | MatrixReport | SeveralReport
"""What ``coverage`` writes."""
AboutReleases = UpgradeReport | RankingReport
"""What is about releases of torch more than about a workload."""
AboutNumbers = VerificationReport | PrecisionReport
"""What ``verify`` writes."""
KnownReport = (
    JudgedReport | ProfileReport | ComparisonReport | CheckpointReport | FitReport | AboutReleases | AboutNumbers
)
"""A report whose kind this version has a schema for."""
Report = KnownReport | UnknownReport
"""What everything before produces and everything after reads."""

KINDS: dict[str, type[KnownReport]] = {
    argument.model_fields["kind"].default: argument for argument in get_args(KnownReport)
}
"""The schema of each kind, by the ``kind`` in the document."""
HOW_MADE = "A report is what '--format json' or '-o' wrote."
"""What errors say to somebody who gave another file."""
_LARGEST = 2**63 - 1
_LONGEST = 20  # characters, with a sign


def parse_report(text: str | bytes, source: str = "report") -> Report:
    """A report from its JSON text; ``source`` names it in errors.

    Raises:
        ReportError: it is not JSON, not a report, breaks its schema, or has a number of more than 64 bits.
    """
    try:
        data = json.loads(text, parse_int=partial(_whole, source))
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{source} is not JSON: {printable(str(error))}", HOW_MADE) from error
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        raise ReportError(f"{source} is not a report: it has no 'kind'", HOW_MADE)
    known = KINDS.get(data["kind"]) if data.get("schema_version") == 1 else None
    try:
        return (known or UnknownReport).model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        # Within a union, pydantic names the class that it tried (``target.Target.torch``); fields are in lower case.
        where = ".".join(str(part) for part in first["loc"] if not str(part)[:1].isupper())
        raise ReportError(f"{source} is damaged at '{printable(where)}': {first['msg']}", "Make it again.") from error


def _whole(source: str, digits: str) -> int:
    """A whole number of 64 bits; others can be neither a time nor a size, and no double or column holds them."""
    number = int(digits) if len(digits) <= _LONGEST else _LARGEST + 1
    if abs(number) > _LARGEST:
        raise ReportError(f"{source} is damaged: the number {printable(digits)} is too large", "Make it again.")
    return number


def read_report(path: str | Path) -> Report:
    """The report in the file ``path``; on standard input for ``-``.

    Raises:
        ReportError: it cannot be read, or is not a report.
    """
    if path == "-":
        if sys.stdin is None:  # `<&-`, a windowed Python
            raise ReportError("standard input is closed", "Name a file, or send the report through a pipe.")
        return parse_report(sys.stdin.buffer.read(), "standard input")
    shown = printable(str(path))
    try:
        if Path(path).is_char_device():  # which may never end
            raise ReportError(f"{shown} is a device, not a file", HOW_MADE)
        text = Path(path).read_bytes()
    except OSError as error:
        raise ReportError(f"cannot read {shown}: {error.strerror}") from error
    return parse_report(text, shown)
