"""What every release does with one workload, packed: a head that is read alone, and all reports as one body.

The head has what is asked of many workloads at once: which operator has which verdict in which releases, and where the
workload fits. The body is lines of JSON. Two reports differ in few places, so what stands in several (an operator, a
figure) is one line, and a report is a line with the numbers of its parts. All of it is compressed together, with LZMA.
Neither torch nor pydantic is needed to read them.

The bytes: the length of the head (four, big-endian), the head (JSON, zlib), ``PACKED`` or ``PLAIN``, the body.
"""

from __future__ import annotations

import functools
import json
import lzma
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mpsprobe.errors import ReportError

FORMAT = 2
PACKED, PLAIN = b"\x00", b"\x01"
LENGTH = struct.Struct(">I")
DAMAGED = "Sweep that workload again into another file."
Filters = list[dict[str, int]]
FAST: Filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 2**24}]
SMALL: Filters = [  # what suits text takes a seventh less
    {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 2**26, "lc": 4, "lp": 0, "pb": 0}
]


class OperatorAnswer(NamedTuple):
    """One verdict of one operator, and the releases in which it has it, oldest first."""

    operator: str
    verdict: str
    releases: tuple[str, ...]


def pack(reports: Mapping[str, Mapping[str, Any]], fits: Mapping[str, Mapping[str, str]]) -> bytes:
    """Reports by release, oldest first, as bytes.

    Args:
        reports: documents of ``CoverageReport``.
        fits: release → bytes of memory, as text → the answer of ``mpsprobe fit`` for a Mac with it.
    """
    parts: dict[bytes, int] = {}
    shapes = [_json(_numbered(report, parts)) for report in reports.values()]
    body = b"\n".join((*shapes, *parts))
    releases_of: dict[tuple[str, str], list[int]] = {}
    for number, report in enumerate(reports.values()):
        for verdict in dict.fromkeys((one["operator"], one["verdict"]) for one in report.get("operators", ())):
            releases_of.setdefault(verdict, []).append(number)
    head = {
        "format": FORMAT,
        "releases": [*reports],
        "length": len(body),
        "operators": [[*verdict, numbers] for verdict, numbers in releases_of.items()],
        "stopped": [number for number, report in enumerate(reports.values()) if report.get("failure") is not None],
        "fits": {release: dict(answers) for release, answers in fits.items()},
    }
    return joined(zlib.compress(_json(head), 9), compressed([body], FAST), PACKED)


def joined(head: bytes, body: bytes, kind: bytes = PLAIN) -> bytes:
    """What ``unpack`` reads."""
    return LENGTH.pack(len(head)) + head + kind + body


def compressed(texts: Iterable[bytes], filters: Filters = SMALL) -> bytes:
    return lzma.compress(b"".join(texts), lzma.FORMAT_RAW, filters=filters)


def decompressed(body: bytes, most: int = -1) -> bytes:
    """What ``compressed`` was given, one after the other; the first ``most`` bytes of it."""
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=SMALL).decompress(body, most)


def _numbered(value: Any, parts: dict[bytes, int], depth: int = 2) -> Any:
    """``value`` with the numbers of its parts in ``parts``, which are its keys' values, or what is in these."""
    if depth and isinstance(value, Mapping):
        return {key: _numbered(one, parts, depth - 1) for key, one in value.items()}
    if depth and isinstance(value, list):
        return [_numbered(one, parts, depth - 1) for one in value]
    return parts.setdefault(_json(value), len(parts))


def _filled(shape: Any, parts: Sequence[bytes]) -> Any:
    if isinstance(shape, dict):
        return {key: _filled(one, parts) for key, one in shape.items()}
    if isinstance(shape, list):
        return [_filled(one, parts) for one in shape]
    return json.loads(parts[shape])


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


class Answers:
    def __init__(self, data: bytes) -> None:
        (length,) = LENGTH.unpack_from(data)
        start = LENGTH.size + length
        self.head, self._kind, self._body = data[LENGTH.size : start], data[start : start + 1], data[start + 1 :]
        document = json.loads(zlib.decompress(self.head))
        if document["format"] > FORMAT:
            raise ReportError("an answer of the atlas was written by a newer mpsprobe-atlas", "Update mpsprobe-atlas.")
        self.releases: tuple[str, ...] = tuple(document["releases"])  # those with a report, oldest first
        self.stopped = frozenset(self.releases[number] for number in document["stopped"])  # before the end of their run
        self.length: int = document["length"]  # of the body, when it is not compressed
        # Release → bytes of memory → fits, pressure, raises or unclear.
        self.fits: dict[str, dict[int, str]] = {
            release: {int(memory): answer for memory, answer in answers.items()}
            for release, answers in document["fits"].items()
        }
        self._operators: list[tuple[str, str, list[int]]] = document["operators"]

    @functools.cached_property
    def body(self) -> bytes:
        try:
            text = decompressed(self._body) if self._kind == PACKED else self._body
        except lzma.LZMAError as error:
            raise ReportError("an answer of the atlas is damaged", DAMAGED) from error
        if len(text) != self.length:
            raise ReportError("an answer of the atlas is damaged: its reports are not as long as it says", DAMAGED)
        return text

    def report(self, release: str) -> dict[str, Any]:
        """The document of a ``CoverageReport``; a new one at each call."""
        if release not in self.releases:
            raise KeyError(release)
        lines = self.body.split(b"\n")
        try:
            shape = json.loads(lines[self.releases.index(release)])
            return dict(_filled(shape, lines[len(self.releases) :]))
        except (ValueError, TypeError, IndexError, RecursionError) as error:
            raise ReportError(f"the answer of the atlas for torch {release} is damaged", DAMAGED) from error

    def findings(self) -> list[OperatorAnswer]:
        """Every operator with each of its verdicts, and in which releases it has that."""
        return [
            OperatorAnswer(operator, verdict, tuple(self.releases[number] for number in numbers))
            for operator, verdict, numbers in self._operators
        ]


def for_shipping(answers: Answers) -> Answers:
    """The same without the curves of memory over the run, but that of the newest release: a third of all bytes."""
    reports = {release: answers.report(release) for release in answers.releases}
    for release in answers.releases[:-1]:
        if reports[release].get("memory"):
            reports[release]["memory"]["curve"] = []
    fits = {release: {str(memory): answer for memory, answer in one.items()} for release, one in answers.fits.items()}
    return Answers(pack(reports, fits))


def unpack(data: bytes) -> Answers:
    """What ``pack`` has packed.

    Raises:
        ReportError: it is damaged, or of a newer version.
    """
    try:
        return Answers(data)
    except (struct.error, zlib.error, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ReportError("an answer of the atlas is damaged", DAMAGED) from error
