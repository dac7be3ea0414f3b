"""What every release does with one workload, packed: a head that is read alone, and all reports as one body.

The head has what is asked of many workloads at once: which operator has which verdict in which releases, and where the
workload fits. The body is lines of JSON. Two reports differ in few places, so what stands in several (an operator, a
figure) is one line, and a report is a line with the numbers of its parts. All of it is compressed together, with LZMA.
Neither torch nor pydantic is needed to read them.

A release that comes later is a segment of its own, behind those that are there: its head and body, in which a number
may be that of a line of an earlier segment. So what was packed before stays as it is, byte for byte.

The bytes of a segment: the lengths of its head and of its body (four each, big-endian), the head (JSON, zlib),
``PACKED`` or ``PLAIN``, the body.
"""

from __future__ import annotations

import functools
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from mpsprobe.errors import ReportError

FORMAT = 3
PACKED, PLAIN = b"\x00", b"\x01"
LENGTHS = struct.Struct(">II")
NATIVE = b'"verdict":"native"'  # in a line of JSON: in a text of it, quotation marks have backslashes
DAMAGED = "Sweep that workload again into another file."
WRONG = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError)
"""What reading JSON raises that has another form."""
LARGEST_HEAD, LARGEST_BODY = 2**24, 2**28
"""Bytes that one may unpack to, a hundred times what a real one has: of a file from elsewhere it may be without end."""
Filters = list[dict[str, int]]
LZMA2, EXTREME = 0x21, 1 << 31
"""As ``lzma`` has them, which is imported where something is packed or unpacked: to list what there is, nothing is."""
FAST: Filters = [{"id": LZMA2, "preset": 1, "dict_size": 2**24}]
SMALL: Filters = [  # what suits text takes a seventh less
    {"id": LZMA2, "preset": 9 | EXTREME, "dict_size": 2**26, "lc": 4, "lp": 0, "pb": 0}
]


class OperatorAnswer(NamedTuple):
    """One verdict of one operator, and the releases in which it has it, oldest first."""

    operator: str
    verdict: str
    releases: tuple[str, ...]


def pack(
    reports: Mapping[str, Mapping[str, Any]], fits: Mapping[str, Mapping[Any, str]], earlier: Answers | None = None
) -> bytes:
    """Reports by release, oldest first, as a segment.

    Args:
        reports: documents of ``CoverageReport``.
        fits: release → bytes of memory → the answer of ``mpsprobe fit`` for a Mac with it.
        earlier: the answers of older releases that the segment is put behind.
    """
    parts = {line: number for number, line in enumerate(earlier.parts() if earlier else ())}
    known = len(parts)
    shapes = [_json(_numbered(report, parts)) for report in reports.values()]
    body = b"\n".join((*shapes, *[*parts][known:]))
    releases_of: dict[tuple[str, str], list[int]] = {}
    for number, report in enumerate(reports.values()):
        for verdict in dict.fromkeys(
            (finding["operator"], finding["verdict"]) for finding in report.get("operators", ())
        ):
            releases_of.setdefault(verdict, []).append(number)
    head = {
        "format": FORMAT,
        "releases": [*reports],
        "length": len(body),
        "operators": [[*verdict, numbers] for verdict, numbers in releases_of.items()],
        "stopped": [number for number, report in enumerate(reports.values()) if report.get("failure") is not None],
        "fits": {release: fits[release] for release in reports if release in fits},
    }
    return joined(_json(head), compressed([body], FAST), PACKED)


def joined(head: bytes, body: bytes, kind: bytes = PLAIN) -> bytes:
    """A segment, of its head as JSON."""
    packed = zlib.compress(head, 9 if kind == PACKED else 1)
    return LENGTHS.pack(len(packed), len(body)) + packed + kind + body


def compressed(texts: Iterable[bytes], filters: Filters = SMALL) -> bytes:
    import lzma

    return lzma.compress(b"".join(texts), lzma.FORMAT_RAW, filters=filters)


def decompressed(body: bytes, most: int = LARGEST_BODY) -> bytes:
    """What ``compressed`` was given, one after the other; the first ``most`` bytes of it."""
    import lzma

    try:
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=SMALL).decompress(body, most)
    except lzma.LZMAError as error:
        raise ReportError("an answer of the atlas is damaged", DAMAGED) from error


def _numbered(value: Any, parts: dict[bytes, int], depth: int = 2) -> Any:
    """``value`` with the numbers of its parts in ``parts``, which are its keys' values, or what is in these."""
    if depth and isinstance(value, Mapping):
        return {key: _numbered(inner, parts, depth - 1) for key, inner in value.items()}
    if depth and isinstance(value, list):
        return [_numbered(part, parts, depth - 1) for part in value]
    return parts.setdefault(_json(value), len(parts))


def _filled(shape: Any, part: Callable[[int], Any]) -> Any:
    if isinstance(shape, dict):
        return {key: _filled(inner, part) for key, inner in shape.items()}
    if isinstance(shape, list):
        return [_filled(inner, part) for inner in shape]
    return part(shape)


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


class Segment:
    """The answers of some releases, as far as they are not lines of the segments before it."""

    def __init__(self, data: bytes, start: int = 0) -> None:
        head, body = LENGTHS.unpack_from(data, start)
        middle = start + LENGTHS.size + head
        self.end = middle + 1 + body  # where the next one begins in ``data``
        self._kind, self._body = data[middle : middle + 1], data[middle + 1 : self.end]
        unpacking = zlib.decompressobj()
        self.head = unpacking.decompress(data[start + LENGTHS.size : middle], LARGEST_HEAD)
        if not unpacking.eof:
            raise ValueError("the head does not end")
        document = json.loads(self.head)
        if document["format"] > FORMAT:
            raise ReportError("an answer of the atlas was written by a newer mpsprobe-atlas", "Update mpsprobe-atlas.")
        self.releases = tuple(str(release) for release in document["releases"])
        self.length = int(document["length"])  # of the body, when it is not compressed
        if self.length not in range(LARGEST_BODY):
            raise ValueError("the body is too large")
        self.stopped = [self.releases[number] for number in document["stopped"]]
        self.fits = {
            release: {int(memory): answer for memory, answer in answers.items()}
            for release, answers in document["fits"].items()
        }
        self.operators = [
            (str(operator), str(verdict), [self.releases[number] for number in numbers])
            for operator, verdict, numbers in document["operators"]
        ]

    @functools.cached_property
    def body(self) -> bytes:
        text = decompressed(self._body, self.length + 1) if self._kind == PACKED else self._body
        if len(text) != self.length:
            raise ReportError("an answer of the atlas is damaged: its reports are not as long as it says", DAMAGED)
        return text


class PackedReport:
    """A report of which as much is read as is asked for; what several of an answer have alike is read once."""

    def __init__(self, release: str, line: bytes, parts: list[bytes], read: dict[int, Any]) -> None:
        self.release = release
        self._parts, self._read = parts, read
        with self._said():
            self._shape = json.loads(line)

    def value(self, *path: str) -> Any:
        """What stands at the keys ``path``: a new document of parts that reports share; ``None`` below a null."""
        with self._said():
            shape = self._shape
            for key in path:
                if not isinstance(shape, dict):
                    return None
                shape = shape[key]
            return _filled(shape, self._part)

    def operators(self, *, native: bool) -> list[Mapping[str, Any]]:
        """Those of the report, without those that are ``native`` where these are not asked for: most, and large."""
        with self._said():
            return [
                self._part(finding)
                for finding in self._shape["operators"]
                if native or NATIVE not in self._parts[finding]
            ]

    def _part(self, number: int) -> Any:
        if number not in self._read:
            self._read[number] = json.loads(self._parts[number])
        return self._read[number]

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except WRONG as error:
            raise ReportError(f"the answer of the atlas for torch {self.release} is damaged", DAMAGED) from error


class Answers:
    def __init__(self, data: bytes) -> None:
        self.segments = [Segment(data)]
        while self.segments[-1].end < len(data):
            self.segments.append(Segment(data, self.segments[-1].end))
        self.releases = tuple(release for segment in self.segments for release in segment.releases)  # oldest first
        self.stopped = frozenset(
            release for segment in self.segments for release in segment.stopped
        )  # before their end
        # Release → bytes of memory → fits, pressure, raises or unclear.
        self.fits: dict[str, dict[int, str]] = {
            key: of for segment in self.segments for key, of in segment.fits.items()
        }

    def parts(self) -> Iterator[bytes]:
        """The lines that shapes of reports name by their numbers."""
        for segment in self.segments:
            yield from segment.body.split(b"\n")[len(segment.releases) :]

    def report(self, release: str) -> dict[str, Any]:
        """The document of a ``CoverageReport``; a new one at each call."""
        for one in self.reports():
            if one.release == release:
                return dict(one.value())
        raise KeyError(release)

    def reports(self) -> Iterator[PackedReport]:
        """That of every release, oldest first."""
        parts: list[bytes] = []
        read: dict[int, Any] = {}
        for segment in self.segments:
            lines = segment.body.split(b"\n")
            parts += lines[len(segment.releases) :]
            yield from (PackedReport(*of, parts, read) for of in zip(segment.releases, lines, strict=False))

    def findings(self) -> list[OperatorAnswer]:
        """Every operator with each of its verdicts, and in which releases it has that."""
        releases: dict[tuple[str, str], list[str]] = {}
        for segment in self.segments:
            for operator, verdict, named in segment.operators:
                releases.setdefault((operator, verdict), []).extend(named)
        return [OperatorAnswer(*verdict, tuple(release)) for verdict, release in releases.items()]

    def operators(self) -> frozenset[str]:
        """What the workload calls on any release."""
        return frozenset(operator for segment in self.segments for operator, _, _ in segment.operators)


def with_releases(earlier: bytes, reports: Mapping[str, Any], fits: Mapping[str, Mapping[int, str]]) -> bytes:
    """``earlier`` with the answers of further releases, or other ones of the same; behind it where these are newer."""
    known = unpack(earlier)
    if min(map(release_key, reports)) > max(map(release_key, known.releases)):
        return earlier + pack(reports, fits, known)
    every = {**{release: known.report(release) for release in known.releases}, **reports}
    return pack({release: every[release] for release in sorted(every, key=release_key)}, {**known.fits, **fits})


def release_key(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdecimal())


def for_shipping(answers: Answers, earlier: Answers | None = None) -> Answers:
    """The same without the curves of memory over the run, but that of the newest release: a third of all bytes.

    ``earlier``: what was shipped before. It stays as it is where its releases still have the same answers.
    """
    plain = {release: _without_curve(answers.report(release)) for release in answers.releases}
    reports = {**plain, **{release: answers.report(release) for release in answers.releases[-1:]}}
    known = earlier.releases if earlier is not None else ()
    further = {release: report for release, report in reports.items() if release not in known}
    if earlier is None or any(
        (plain.get(release), answers.fits.get(release))
        != (_without_curve(earlier.report(release)), earlier.fits.get(release))
        for release in known
    ):
        return Answers(pack(reports, answers.fits))
    if not further:
        return earlier
    if min(map(release_key, further)) < max(map(release_key, known)):
        return Answers(pack(reports, answers.fits))
    return Answers(packed(earlier) + pack(further, answers.fits, earlier))


def _without_curve(report: dict[str, Any]) -> dict[str, Any]:
    if report.get("memory"):
        report["memory"]["curve"] = []
    return report


def packed(answers: Answers) -> bytes:
    """What ``unpack`` reads, not compressed."""
    return b"".join(joined(segment.head, segment.body) for segment in answers.segments)


def unpack(data: bytes) -> Answers:
    """What ``pack`` has packed.

    Raises:
        ReportError: it is damaged, or of a newer version.
    """
    try:
        return Answers(data)
    except (struct.error, zlib.error, *WRONG) as error:
        raise ReportError("an answer of the atlas is damaged", DAMAGED) from error
