"""What a store says, row by row and release by release, for everything that is made of it: without pydantic."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from mpsprobe import declarations
from mpsprobe.errors import ReportError
from mpsprobe.suggestions import printable
from mpsprobe_atlas.answers import DAMAGED, WRONG, unpack
from mpsprobe_atlas.store import Row, Store

SEVERITY = cast("Mapping[str, int]", declarations.SEVERITY)
BLOCKING = ("missing", "unsupported")
FINE = ("native", "composite")
HEAD = re.compile(r"(?<=.)(Model|LMHead|DoubleHeads|For[A-Z]).*")
"""How the name of a class in transformers goes on behind that of its architecture."""
HUGGING_FACE = "hf"


@dataclass(frozen=True, slots=True)
class Run:
    verdicts: Mapping[str, str]  # operator → the worst that it meets; those that are native or composite are left out
    findings: tuple[int, ...] = ()  # numbers of those in Judged.findings, in their order
    advisories: Mapping[str, int] = field(default_factory=dict)  # id of a known wrong result → calls of it
    failure: str | None = None  # the error that ended the run before its end, in words; None where none did
    peak_bytes: int | None = None  # what PyTorch's allocator hands out at the peak; None where that is not known
    operators: int | None = None  # how many there are, native ones included; so are calls
    calls: int | None = None

    @property
    def state(self) -> str:
        """The worst verdict, or ``native``; ``stopped`` where a run without a finding did not come to its end."""
        worst = max(self.verdicts.values(), key=SEVERITY.__getitem__, default="native")
        return "stopped" if worst in ("native", "unknown") and self.failure is not None else worst


@dataclass(frozen=True, slots=True)
class Judged:
    """A row of a store, read; its answer is given up, which is large."""

    row: Row
    architecture: str  # the workload that stands for its architecture, as architectures() has it
    runs: Mapping[str, Run]  # by release, oldest first; empty for a row without an answer
    findings: tuple[Mapping[str, Any], ...] = ()  # of reports, not native: what several releases have alike once
    advisories: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of reports, by identifier
    fits: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # release → bytes → the answer of mpsprobe fit

    @property
    def setting(self) -> tuple[str, str, str]:
        """Size, phase, dtype."""
        return self.row.size, self.row.phase, self.row.dtype


def architectures(rows: Sequence[Row]) -> dict[str, str]:
    """Workload → the one that stands for its architecture, which a ranking counts once.

    Models of one class are one architecture, whatever their head and size: ``hf:bert`` stands for ``bert-base`` and
    ``hf:bert/BertForMaskedLM`` too. A part that is judged in the model that holds it has the class of that.
    """
    classes: dict[str, tuple[str, str]] = {}
    of_class: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        library, colon, _ = row.workload.partition(":")
        if row.architecture:
            of_row = library if colon else HUGGING_FACE, HEAD.sub("", row.architecture)
            of_class.setdefault(classes.setdefault(row.workload, of_row), set()).add(row.workload)
    plainest = {
        of_row: min(names, key=lambda name: (not name.startswith(f"{HUGGING_FACE}:"), len(name), name))
        for of_row, names in of_class.items()
    }
    return {row.workload: plainest[classes[row.workload]] if row.workload in classes else row.workload for row in rows}


def judged(store: Store, *, native: bool = False) -> Iterator[Judged]:
    """Every row with all that its reports say, by workload, ``native`` findings too; one at a time is read."""
    names = architectures(store.rows())
    for row in store.whole_rows():
        with _said(row):
            read = _read(row, names, native)
        yield read


def heads(store: Store) -> Iterator[Judged]:
    """Every row with an answer: the verdicts of operators, and whether a run stopped. Fast: no report is read."""
    names = architectures(store.rows())
    for row in store.heads():
        with _said(row):
            answers = unpack(row.answer or b"")
            verdicts: dict[str, dict[str, str]] = {release: {} for release in answers.releases}
            for finding in answers.findings():
                for release in finding.releases if finding.verdict not in FINE else ():
                    _add(verdicts[release], finding.operator, finding.verdict)
            runs = {
                release: Run(verdict, failure="it stopped" if release in answers.stopped else None)
                for release, verdict in verdicts.items()
            }
        yield Judged(replace(row, answer=None), names[row.workload], runs)


@contextmanager
def _said(row: Row) -> Iterator[None]:
    """Whatever is not as a sweep writes it, in words."""
    try:
        yield
    except WRONG as error:
        raise ReportError(f"the answer of the atlas about {printable(row.workload)} is damaged", DAMAGED) from error


def _read(row: Row, names: Mapping[str, str], native: bool) -> Judged:
    if row.answer is None:
        return Judged(row, names[row.workload], {})
    answers = unpack(row.answer)
    numbers: dict[int, int] = {}  # of what `findings` has, by identity
    findings: list[Mapping[str, Any]] = []
    advisories: dict[str, Mapping[str, Any]] = {}
    runs = {}
    for report in answers.reports():
        verdicts: dict[str, str] = {}
        of_run = []
        for finding in report.operators(native=native):
            if finding["verdict"] not in FINE:
                _add(verdicts, finding["operator"], finding["verdict"])
            elif not native:
                continue
            number = numbers.setdefault(id(finding), len(findings))
            if number == len(findings):
                _check(finding, _OF_FINDINGS)
                findings.append(finding)
            of_run.append(number)
        applying = [match for match in report.value("advisories") if not match.get("undecided")]
        for advisory in applying:
            if advisories.setdefault(advisory["id"], advisory) is advisory:
                _check(advisory, _OF_ADVISORIES)
        failure = report.value("failure")
        figures = [report.value(*path) for path in _FIGURES]
        if not all(isinstance(figure, int | None) for figure in figures):
            raise TypeError("a figure is no whole number")
        runs[report.release] = Run(
            verdicts,
            tuple(of_run),
            {match["id"]: match["calls"] for match in applying},
            f"{failure['error']}: {failure['message']}" if failure else None,
            *figures,
        )
    return Judged(replace(row, answer=None), names[row.workload], runs, tuple(findings), advisories, answers.fits)


_TEXTS = ("dtypes", "shapes", "modules", "call_sites", "examples")
_OF_FINDINGS = {
    "operator": str, "calls": int, **dict.fromkeys(("reason", "advice", "native_since"), str | None),
    **dict.fromkeys(_TEXTS, list),
}  # fmt: skip
_OF_ADVISORIES = {"id": str, "calls": int, "title": str, "workaround": str | None, "chips": list}
_FIGURES = (("memory", "allocated_bytes"), ("summary", "operators"), ("summary", "calls"))


def _check(found: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Whether what is read of it later is there, and of the right kind."""
    for name, kind in kinds.items():
        value = found[name]
        if not isinstance(value, kind) or (kind is list and not all(isinstance(part, str) for part in value)):
            raise TypeError(f"{name} of a finding")


def _add(verdicts: dict[str, str], operator: str, verdict: str) -> None:
    if SEVERITY[verdict] >= SEVERITY[verdicts.get(operator, "native")]:
        verdicts[operator] = verdict
