"""What an exporter has to keep to, whatever the report."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unittest import mock

from mpsprobe.declarations import ExporterDeclaration
from mpsprobe.errors import MpsprobeError
from mpsprobe.output import as_bytes
from mpsprobe.schemas import Report, UnknownReport
from mpsprobe.schemas.report import KINDS
from mpsprobe.suggestions import an
from mpsprobe_devkit.testing.comparisons import sample_coverage_comparison
from mpsprobe_devkit.testing.contracts import formats
from mpsprobe_devkit.testing.contracts.clauses import Broken, Contract, described, doing, listed
from mpsprobe_devkit.testing.contracts.fresh_process import FreshRun, render_in_fresh_process
from mpsprobe_devkit.testing.contracts.subjects import Made
from mpsprobe_devkit.testing.mutations import HOSTILE_TEXTS, emptied, with_number, with_text, with_unknown_keys
from mpsprobe_devkit.testing.samples import sample_reports

LARGEST = 2**53
TERMINALS = ({"COLUMNS": "40", "NO_COLOR": "1", "TERM": "dumb"}, {"COLUMNS": "200", "FORCE_COLOR": "1"})
Files = dict[str, str | bytes]  # of a folder by path, or one file under the empty path


@dataclass
class ExporterSubject:
    """An exporter under test.

    Attributes:
        declaration: what it declares.
        made: makes it, or gives the one that there is.
        given: reports in addition to the samples, for its own kinds.
    """

    declaration: ExporterDeclaration
    made: Made
    given: tuple[Report, ...] = ()

    @cached_property
    def reports(self) -> dict[str, Report]:
        """Reports of the kinds that it reads, by what they are in a sentence."""
        every = {**_samples(), **{f"your report {number}": one for number, one in enumerate(self.given, 1)}}
        return {what: report for what, report in every.items() if report.kind in self.declaration.kinds}

    @cached_property
    def hostile(self) -> dict[str, Files | Broken]:
        """What it makes of each report with each hostile text in every place, or how that failed."""
        made: dict[str, Files | Broken] = {}
        for what, report in _hostile(self):
            try:
                made[what] = self.rendered(report, what)
            except Broken as broken:
                made[what] = broken
        return made

    @cached_property
    def fresh_run(self) -> FreshRun:
        """What it did in a process of its own, which is started once."""
        return render_in_fresh_process(self.declaration, self.reports)

    def render(self, report: Report, exporter: Any = None) -> Files:
        """What a new exporter (or ``exporter``) makes of ``report``; a broken folder or type is not reported here."""
        exporter = self.made() if exporter is None else exporter
        report = report.model_copy(deep=True)  # one that changes its report must not spoil the others
        if not self.declaration.folder:
            return {"": exporter.render(report)}
        return {path: b"".join(map(as_bytes, content)) for path, content in exporter.files(report)}

    def rendered(self, report: Report, what: str) -> Files:
        """The same, where an exception is a broken clause reported with ``what``."""
        with doing(f"rendering {what}"):
            return self.render(report)


EXPORTER: Contract[ExporterSubject] = Contract("exporter")


def _samples() -> dict[str, Report]:
    samples: dict[str, Report] = {f"the sample report of the kind '{k}'": one for k, one in sample_reports().items()}
    return {**samples, "the sample comparison of coverage": sample_coverage_comparison()}


def _one_file(subject: ExporterSubject) -> bool:
    return not subject.declaration.folder


def _text(subject: ExporterSubject) -> bool:
    return not subject.declaration.folder and not subject.declaration.binary


def _folder(subject: ExporterSubject) -> bool:
    return subject.declaration.folder


def _importable(subject: ExporterSubject) -> bool:
    return subject.made.importable


@EXPORTER.clause(rested_on=True)
def is_what_it_declares(subject: ExporterSubject) -> None:
    """The target is an exporter, or a class of them that is made without arguments; a folder exporter has ``files``."""
    exporter = subject.made()
    method = "files" if subject.declaration.folder else "render"
    if not callable(getattr(exporter, method, None)):
        declared = "declared as one that writes a folder" if subject.declaration.folder else "an exporter"
        raise Broken(f"it is {declared} and has no method '{method}(report)'")


@EXPORTER.clause()
def reads_kinds_that_there_are(subject: ExporterSubject) -> None:
    """It declares at least one kind of report, and each is one that mpsprobe knows or a report was given of."""
    known = {*KINDS, *(one.kind for one in subject.given)}
    if not subject.declaration.kinds:
        raise Broken("it declares no kind of report that it reads")
    for kind in subject.declaration.kinds:
        if kind not in known:
            raise Broken(
                f"it declares the kind {listed([kind])}, and mpsprobe knows {listed(sorted(known))}: "
                "misspelt, or a kind of your own, of which exporter_contract(…, reports=[…]) wants a report"
            )


@EXPORTER.clause()
def declares_an_extension(subject: ExporterSubject) -> None:
    """A file has an extension with its dot, by which ``-o`` finds the exporter; a folder has none."""
    extension = subject.declaration.extension
    if subject.declaration.folder and extension:
        raise Broken(f"it writes a folder and declares the extension {listed([extension])}")
    if not subject.declaration.folder and (len(extension) < 2 or extension[0] != "." or set(extension) & set("/\\ ")):
        raise Broken(f"it declares the extension {listed([extension])}, which is not a dot and what follows it")


@EXPORTER.clause(rested_on=True)
def renders_what_it_reads(subject: ExporterSubject) -> None:
    """Each report of its kinds is rendered: as text, or as bytes where ``binary`` is declared, and not as nothing."""
    for what, report in subject.reports.items():
        files = subject.rendered(report, what)
        if not files:
            raise Broken(f"rendering {what} made no file")
        if subject.declaration.folder:
            continue
        expected = bytes if subject.declaration.binary else str
        if not isinstance(files[""], expected):
            made, declared = an(type(files[""]).__name__), "binary" if subject.declaration.binary else "not binary"
            raise Broken(f"rendering {what} made {made}, and it declares that it is {declared}")
        if not files[""]:
            raise Broken(f"rendering {what} made nothing at all")


@EXPORTER.clause()
def renders_empty_reports(subject: ExporterSubject) -> None:
    """A report with nothing in it (no operators, no cells) is rendered, or refused with a ``ReportError``."""
    _renders_or_refuses(subject, {f"{what} with nothing in it": emptied(one) for what, one in subject.reports.items()})


@EXPORTER.clause()
def renders_any_number(subject: ExporterSubject) -> None:
    """Zero everywhere, and 2**53 everywhere, is rendered: a duration of 0 ns divides nothing."""
    for what, report in subject.reports.items():
        for number in (0, LARGEST):
            subject.rendered(with_number(report, number), f"{what} with {number} in every place")


@EXPORTER.clause()
def renders_unknown_keys(subject: ExporterSubject) -> None:
    """Keys that a newer version added to a report are no trouble."""
    for what, report in subject.reports.items():
        files = subject.rendered(with_unknown_keys(report), f"{what} with keys that no schema knows")
        _well_formed(subject, files, f"{what} with keys that no schema knows")


@EXPORTER.clause()
def renders_hostile_text(subject: ExporterSubject) -> None:
    """Any text in any place is rendered: escape sequences, line ends, 5,000 characters, half a surrogate pair."""
    for made in subject.hostile.values():
        if isinstance(made, Broken):
            raise made


@EXPORTER.clause()
def says_what_it_cannot_read(subject: ExporterSubject) -> None:
    """A report of another kind is rendered, or refused with a ``ReportError``; never an exception of another type."""
    _renders_or_refuses(
        subject, {what: one for what, one in _samples().items() if one.kind not in subject.declaration.kinds}
    )


@EXPORTER.clause()
def says_what_is_too_new(subject: ExporterSubject) -> None:
    """A report of its kind in a version that is yet to come is rendered, or refused with a ``ReportError``."""
    later = {
        f"a report of the kind '{kind}' in version 99": UnknownReport(kind=kind, schema_version=99)
        for kind in subject.declaration.kinds
    }
    _renders_or_refuses(subject, later)


@EXPORTER.clause(when=_text)
def ends_with_one_line_end(subject: ExporterSubject) -> None:
    r"""Text ends with one ``\n``, so that files and terminals look right."""
    for what, report in subject.reports.items():
        text = subject.rendered(report, what)[""]
        if not isinstance(text, str):
            continue  # another clause tells it
        if not text.endswith("\n"):
            raise Broken(f"{what}, rendered, does not end with a line end but with {text[-20:]!r}")
        if text.endswith(("\n\n", "\n\r\n")):
            raise Broken(f"{what}, rendered, ends with more than one line end")


@EXPORTER.clause()
def is_the_same_every_time(subject: ExporterSubject) -> None:
    """The same report is rendered to the same output, by the same exporter and by a new one."""
    for what, report in subject.reports.items():
        with doing(f"rendering {what} twice"):
            exporter = subject.made()
            first, second, third = (subject.render(report, one) for one in (exporter, exporter, subject.made()))
        _same(what, "rendered a second time", first, second)
        _same(what, "rendered by a new exporter", first, third)


@EXPORTER.clause()
def does_not_look_at_the_terminal(subject: ExporterSubject) -> None:
    """``render`` gives the same on a narrow terminal, a wide one and with colours: only the report decides."""
    for what, report in subject.reports.items():
        outputs = []
        for terminal in TERMINALS:
            with mock.patch.dict(os.environ, terminal):
                for name in {"NO_COLOR", "FORCE_COLOR"} - set(terminal):
                    os.environ.pop(name, None)
                outputs.append(subject.rendered(report, what))
        _same(what, "on a terminal of another width and with colours", *outputs)


@EXPORTER.clause(when=_importable)
def is_the_same_in_another_process(subject: ExporterSubject) -> None:
    """Another process gives the same: on another day, in another folder, language and time zone, with other hashes."""
    for what, files in subject.fresh_run.rendered.items():
        if isinstance(files, str):
            raise Broken(f"rendering {what} in a new process raised {files}")
        _same(
            what,
            "in another process, on another day and in another folder",
            subject.render(subject.reports[what]),
            files,
        )


@EXPORTER.clause(when=_importable)
def does_not_import_torch(subject: ExporterSubject) -> None:
    """Rendering imports no torch: a report opens where none is installed."""
    if subject.fresh_run.imported_torch:
        raise Broken("importing it and rendering the samples imports torch")


@EXPORTER.clause(when=_importable)
def leaves_files_and_network_alone(subject: ExporterSubject) -> None:
    """It returns what it renders, writes no file itself and opens no connection."""
    if subject.fresh_run.left_files:
        raise Broken(f"rendering writes files: {listed(subject.fresh_run.left_files[:3])}")
    if subject.fresh_run.connections:
        raise Broken(f"rendering opens connections: {listed(subject.fresh_run.connections[:3])}")


@EXPORTER.clause()
def leaves_the_report_as_it_is(subject: ExporterSubject) -> None:
    """The report is the same afterwards: other exporters read it too."""
    for what, report in subject.reports.items():
        own, exporter = report.model_copy(deep=True), subject.made()
        with doing(f"rendering {what}"):
            for _path, content in exporter.files(own) if subject.declaration.folder else [("", exporter.render(own))]:
                list(content)
        if own != report:
            raise Broken(f"rendering {what} changed the report itself")


@EXPORTER.clause()
def prints_nothing(subject: ExporterSubject) -> None:
    """Nothing is printed to standard output, which is for what it returns."""
    for what, report in subject.reports.items():
        printed = io.StringIO()
        with redirect_stdout(printed):
            subject.rendered(report, what)
        if printed.getvalue():
            raise Broken(f"rendering {what} printed {printed.getvalue()[:60]!r}")


@EXPORTER.clause(when=_text)
def keeps_control_characters_out(subject: ExporterSubject) -> None:
    """No escape sequence of a report reaches the output, which may be shown on a terminal."""
    returns = not subject.declaration.extension.endswith((".csv", ".tsv"))
    for what, files in subject.hostile.items():
        if not isinstance(files, Broken) and isinstance(files[""], str):
            formats.refuse_control_characters(files[""], what, returns=returns)


@EXPORTER.clause()
def stays_well_formed(subject: ExporterSubject) -> None:
    """Output that is JSON, HTML, XML or CSV by its extension is that, and text of the report stays text in it."""
    for what, report in subject.reports.items():
        _well_formed(subject, subject.rendered(report, what), what)
    for what, files in subject.hostile.items():
        if not isinstance(files, Broken):
            _well_formed(subject, files, what)


@EXPORTER.clause(when=_one_file)
def streams_what_it_renders(subject: ExporterSubject) -> None:
    """Where it has ``stream``, its pieces make up just what ``render`` returns."""
    stream = getattr(subject.made(), "stream", None)
    for what, report in subject.reports.items() if stream is not None else ():
        with doing(f"streaming {what}"):
            pieces = b"".join(map(as_bytes, subject.made().stream(report)))
        _same(what, "streamed", subject.rendered(report, what), {"": pieces})


@EXPORTER.clause(when=_text)
def draws_for_the_terminal(subject: ExporterSubject) -> None:
    """Where it has ``render_for_terminal``, that gives text, whose only escape sequences are colours."""
    draw = getattr(subject.made(), "render_for_terminal", None)
    if draw is None:
        return
    for what, report in [*subject.reports.items(), *_hostile(subject)]:
        with doing(f"drawing {what} for a terminal"):
            drawn = subject.made().render_for_terminal(report)
        if not isinstance(drawn, str):
            raise Broken(f"drawing {what} for a terminal made {an(type(drawn).__name__)}, not text")
        formats.refuse_control_characters(formats.without_colours(drawn), what, shown="drawn for a terminal")


@EXPORTER.clause(when=_folder)
def keeps_to_one_folder(subject: ExporterSubject) -> None:
    """Paths are relative, begin with one common folder, lead nowhere else, and are names that any system takes."""
    for what, report in [*subject.reports.items(), *_hostile(subject)]:
        with doing(f"naming the files of {what}"):
            paths = [path for path, _ in subject.made().files(report)]
        formats.refuse_paths(paths, what)


def _hostile(subject: ExporterSubject) -> Iterator[tuple[str, Report]]:
    """Each report with each hostile text in every place, by what it is."""
    for what, report in subject.reports.items():
        for name, text in HOSTILE_TEXTS.items():
            yield f"{what} with {name} in every place", with_text(report, text)


def _renders_or_refuses(subject: ExporterSubject, reports: Mapping[str, Report]) -> None:
    for what, report in reports.items():
        try:
            subject.render(report)
        except MpsprobeError as refusal:
            formats.refuse_control_characters(str(refusal), f"the refusal of {what}")
        except (Exception, SystemExit) as error:
            raise Broken(
                f"{what} should be rendered or refused with a ReportError; it raised {described(error)}"
            ) from error


def _same(what: str, how: str, first: Files, second: Mapping[str, str | bytes]) -> None:
    if set(first) != set(second):
        raise Broken(f"{what}, {how}, has other files: {listed(sorted(set(first) ^ set(second))[:3])}")
    for path, content in first.items():
        old, new = as_bytes(content), as_bytes(second[path])
        if old != new:
            raise Broken(f"{what}, {how}, comes out differently{formats.first_difference(old, new, path)}")


def _well_formed(subject: ExporterSubject, files: Files, what: str) -> None:
    for path, content in files.items():
        formats.refuse_malformed(path or f"report{subject.declaration.extension}", content, what)
