"""What an exporter has to keep to, whatever the report."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import unicodedata
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from functools import cached_property, partial
from html.parser import HTMLParser
from pathlib import PurePosixPath
from typing import Any, NoReturn
from unittest import mock
from xml.etree import ElementTree

from mpsprobe.errors import MpsprobeError
from mpsprobe.output import as_bytes
from mpsprobe.schemas import Report, UnknownReport
from mpsprobe.schemas.report import KINDS
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.contracts.clauses import Broken, Contract, described, doing, listed, want
from mpsprobe_devkit.testing.mutations import (
    HOSTILE_TEXTS,
    MARKED_ELEMENT,
    MARKED_FORMULA,
    MARKED_SCRIPT,
    emptied,
    with_number,
    with_text,
)
from mpsprobe_devkit.testing.samples import sample_coverage_comparison, sample_reports


def want_well_formed(path: str, content: str | bytes, what: str) -> None:
    """What ``path`` is by its extension, ``content`` has to be; an extension that says nothing here is left alone.

    Raises:
        Broken: it cannot be parsed, or text of the report became markup or a formula in it.
    """
    data, name = as_bytes(content), path.lower()
    try:
        if name.endswith(".gz"):
            data, name = gzip.decompress(data), name.removesuffix(".gz")
        if (parse := PARSERS.get(PurePosixPath(name).suffix)) is not None:
            parse(data.decode("utf-8"))
    except Broken as broken:
        raise Broken(f"{what}, rendered: {broken}") from broken.__cause__
    except (ValueError, OSError, EOFError, csv.Error, ElementTree.ParseError) as error:
        suffix = PurePosixPath(name).suffix[1:].upper()
        raise Broken(f"{what}, rendered, is not valid {suffix}: {described(error)}") from error


def want_no_control_characters(text: str, what: str, *, returns: bool = True) -> None:
    """``text`` has no control character but tabs and line ends; raises ``Broken``, which names it.

    Args:
        returns: a carriage return without a line feed is one of them; CSV may have it in a quoted field.
    """
    for character in text.replace("\r\n", "\n"):
        if unicodedata.category(character) == "Cc" and character not in ("\t\n" if returns else "\t\n\r"):
            near = text[max(0, text.index(character) - 20) :][:60]
            raise Broken(f"{what} has the control character U+{ord(character):04X}: {near!r}; {CLEANED}")


CLEANED = "mpsprobe.suggestions.printable(text) replaces them"


def first_difference(old: bytes, new: bytes) -> str:
    """Where two outputs differ first, as the end of a sentence."""
    for number, (here, there) in enumerate(zip(old.splitlines(), new.splitlines(), strict=False), 1):
        if here != there:
            start = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), 0)
            first, second = (line[max(0, start - 20) :][:60] for line in (here, there))
            return f": line {number} was {first!r}, then {second!r}"
    return f": {len(old)} bytes, then {len(new)}"


def _refuse_constant(constant: str) -> NoReturn:
    raise Broken(f"{constant} is not JSON: write null, or leave the key out")


_json = partial(json.loads, parse_constant=_refuse_constant)


class _Elements(HTMLParser):
    """Looks for an element, or an address, that was text in the report."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Of each element: its name and its addresses."""
        want(tag != MARKED_ELEMENT, "text of the report became an HTML element: escape it")
        for name, value in attrs:
            if name in ("href", "src", "action", "formaction") and (value or "").strip().startswith(MARKED_SCRIPT):
                raise Broken(f"text of the report became a script in the attribute {name}: allow known schemes only")


def _xml(text: str) -> None:
    tags = [str(element.tag) for element in ElementTree.fromstring(text.encode("utf-8")).iter()]
    marked = any(tag.rpartition("}")[2] == MARKED_ELEMENT for tag in tags)
    want(not marked, "text of the report became an XML element: escape it")


def _separated(text: str, delimiter: str = ",") -> None:
    for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
        if any(cell.lstrip().startswith(MARKED_FORMULA) for cell in row):
            raise Broken("text of the report became a formula, which spreadsheets run: put ' before =, +, - and @")


PARSERS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys((".json", ".ipynb"), _json),
    ".jsonl": lambda text: [_json(line) for line in text.split("\n") if line.strip()],
    **dict.fromkeys((".html", ".htm"), lambda text: _Elements().feed(text)),
    **dict.fromkeys((".xml", ".svg", ".xhtml"), _xml),
    ".csv": _separated,
    ".tsv": partial(_separated, delimiter="\t"),
}


LARGEST = 2**53
TERMINALS = {
    "narrow": {"COLUMNS": "40", "NO_COLOR": "1", "TERM": "dumb"},
    "wide": {"COLUMNS": "200", "FORCE_COLOR": "1"},
}
Files = dict[str, Any]  # text or bytes of a folder by path, or one file under the empty path


def _samples() -> dict[str, Report]:
    samples: dict[str, Report] = {
        f"the sample report of the kind '{k}'": report for k, report in sample_reports().items()
    }
    return {**samples, "the sample comparison of coverage": sample_coverage_comparison()}


__tracebackhide__ = True  # under pytest: a failure shows the plugin's own code


class ExporterContract(Contract):
    """The clauses. ``reports`` are reports in addition to the samples, for its own kinds."""

    kind = "exporter"
    rested_on = ("is_what_it_declares", "renders_what_it_reads")
    reports: tuple[Report, ...]

    @cached_property
    def read(self) -> dict[str, Report]:
        """Reports of the kinds that it reads, by what they are in a sentence."""
        every = {**_samples(), **{f"your report {number}": report for number, report in enumerate(self.reports, 1)}}
        return {what: report for what, report in every.items() if report.kind in self.declaration.kinds}

    @cached_property
    def hostile(self) -> dict[str, Report]:
        """Each of them with each hostile text in every place."""
        return {
            f"{what} with {name} in every place": with_text(report, text)
            for what, report in self.read.items()
            for name, text in HOSTILE_TEXTS.items()
        }

    @cached_property
    def hostile_files(self) -> dict[str, Files]:
        """What it makes of those that it can render."""
        made = {}
        for what, report in self.hostile.items():
            try:
                made[what] = self.rendered(what, report)
            except Broken:  # another clause tells it
                continue
        return made

    def rendered(self, what: str, report: Report, exporter: Any = None) -> Files:
        """What a new exporter (or ``exporter``) makes of ``report``."""
        with doing(f"rendering {what}"):  # a copy: one that changes its report must not spoil the others
            return self._files(exporter or self.made(), report.model_copy(deep=True))

    def _files(self, exporter: Any, report: Report) -> Files:
        if not self.declaration.folder:
            return {"": exporter.render(report)}
        return {path: b"".join(map(as_bytes, content)) for path, content in exporter.files(report)}

    @classmethod
    def unasked(cls) -> Iterable[str]:
        """Only text has line ends."""
        is_text = not cls.declaration.folder and not cls.declaration.binary
        return () if is_text else ("ends_with_one_line_end", "keeps_control_characters_out")

    def test_is_what_it_declares(self) -> None:
        """The target is an exporter, or a class of them made without arguments; a folder exporter has ``files``."""
        method = "files" if self.declaration.folder else "render"
        declared = "declared as one that writes a folder" if self.declaration.folder else "an exporter"
        has = callable(getattr(self.made(), method, None))
        want(has, f"it is {declared} and has no method '{method}(report)'")

    def test_reads_kinds_that_there_are(self) -> None:
        """It declares at least one kind of report, and each is one that mpsprobe knows or a report was given of."""
        unknown = [kind for kind in self.declaration.kinds if kind not in {*KINDS, *(own.kind for own in self.reports)}]
        want(self.declaration.kinds, "it declares no kind of report that it reads")
        own = "of one of your own, exporter_contract wants reports=[…]"
        want(not unknown, f"it declares the kind {listed(unknown)}, and mpsprobe knows {listed([*KINDS])}: {own}")

    def test_declares_an_extension(self) -> None:
        """A file has an extension with its dot, by which ``-o`` finds the exporter; a folder has none."""
        extension = self.declaration.extension
        dotted = len(extension) > 1 and extension[0] == "." and not set(extension) & set("/\\ ")
        wanted = "which only a file has" if self.declaration.folder else "which should be like '.txt'"
        right = not extension if self.declaration.folder else dotted
        want(right, f"it declares the extension {listed([extension])}, {wanted}")

    def test_renders_what_it_reads(self) -> None:
        """Each report of its kinds is rendered: as text, or as bytes where ``binary`` is declared; not as nothing."""
        binary = self.declaration.binary or self.declaration.folder
        declared = "it declares that it is binary" if binary else "it declares that it is not binary"
        for what, report in self.read.items():
            files = self.rendered(what, report)
            want(any(files.values()), f"rendering {what} made nothing at all")
            for content in files.values():
                right = isinstance(content, bytes if binary else str)
                want(right, f"rendering {what} made {an(type(content).__name__)}, and {declared}")

    def test_renders_empty_reports(self) -> None:
        """A report with nothing in it (no operators, no cells) is rendered, or refused with a ``ReportError``."""
        self._renders_or_refuses((f"{what} with nothing in it", emptied(report)) for what, report in self.read.items())

    def test_renders_any_number(self) -> None:
        """Zero everywhere, and 2**53 everywhere, is rendered: a duration of 0 ns divides nothing."""
        for what, report in self.read.items():
            for number in (0, LARGEST):
                self.rendered(f"{what} with {number} in every place", with_number(report, number))

    def test_renders_hostile_text(self) -> None:
        """Any text in any place is rendered: escape sequences, line ends, 5,000 characters, half a surrogate pair."""
        for what, report in self.hostile.items():
            if what not in self.hostile_files:
                self.rendered(what, report)

    def test_says_what_it_cannot_read(self) -> None:
        """A report of another kind is rendered, or refused with a ``ReportError``; no other exception is raised."""
        samples = _samples().items()
        self._renders_or_refuses(
            (what, report) for what, report in samples if report.kind not in self.declaration.kinds
        )

    def test_says_what_is_too_new(self) -> None:
        """A report of its kind in a version that is yet to come is rendered, or refused with a ``ReportError``."""
        later = {kind: UnknownReport(kind=kind, schema_version=99) for kind in self.declaration.kinds}
        self._renders_or_refuses(
            (f"a report of the kind '{kind}' in version 99", report) for kind, report in later.items()
        )

    def test_ends_with_one_line_end(self) -> None:
        r"""Text ends with one ``\n``, so that files and terminals look right."""
        for what, report in self.read.items():
            text = self.rendered(what, report)[""]
            want(
                text.endswith("\n"),
                f"{what}, rendered, does not end with a line end but with {text[-20:]!r}: add '\\n'",
            )
            several = text.endswith(("\n\n", "\n\r\n"))
            want(not several, f"{what}, rendered, ends with more than one line end")

    def test_is_the_same_every_time(self) -> None:
        """The same report is rendered to the same output: a second time, by a new exporter, on any terminal."""
        plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
        for what, report in self.read.items():
            exporter = self.made()
            first = self.rendered(what, report, exporter)
            self._same(what, "rendered a second time", first, self.rendered(what, report, exporter))
            for terminal, variables in TERMINALS.items():
                with mock.patch.dict(os.environ, {**plain, **variables}, clear=True):
                    second = self.rendered(what, report)
                self._same(what, f"rendered by a new exporter on a {terminal} terminal", first, second)

    def test_leaves_all_as_it_is(self) -> None:
        """The report is the same afterwards, as other exporters read it too, and nothing is printed."""
        for what, report in self.read.items():
            own, printed = report.model_copy(deep=True), io.StringIO()
            with redirect_stdout(printed), doing(f"rendering {what}"):
                self._files(self.made(), own)
            want(own == report, f"rendering {what} changed the report itself")
            want(not printed.getvalue(), f"rendering {what} printed {printed.getvalue()[:60]!r}")

    def test_keeps_control_characters_out(self) -> None:
        """No escape sequence of a report reaches the output, which may be shown on a terminal."""
        returns = not self.declaration.extension.endswith((".csv", ".tsv"))
        for what, files in self.hostile_files.items():
            want_no_control_characters(files[""], f"{what}, rendered,", returns=returns)

    def test_stays_well_formed(self) -> None:
        """Output that is JSON, HTML, XML or CSV by its extension is that, and text of the report stays text in it."""
        files = {what: self.rendered(what, report) for what, report in self.read.items()}
        for what, text in {**files, **self.hostile_files}.items():
            self._well_formed(what, text)

    def _renders_or_refuses(self, reports: Iterable[tuple[str, Report]]) -> None:
        for what, report in reports:
            try:
                self._files(self.made(), report)
            except MpsprobeError as refusal:
                want_no_control_characters(str(refusal), f"the refusal of {what}")
            except (Exception, SystemExit) as error:
                wanted = f"{what} should be rendered or refused with a ReportError"
                raise Broken(f"{wanted}; it raised {described(error)}") from error

    def _well_formed(self, what: str, files: Files) -> None:
        for path, content in files.items():
            want_well_formed(path or f"report{self.declaration.extension}", content, what)

    def _same(self, what: str, how: str, first: Files, second: Files) -> None:
        want(set(first) == set(second), f"{what}, {how}, has other files: {listed([*{*first} ^ {*second}][:3])}")
        for path, content in first.items():
            old, new = as_bytes(content), as_bytes(second[path])
            want(old == new, f"{what}, {how}, comes out differently{first_difference(old, new)}")
