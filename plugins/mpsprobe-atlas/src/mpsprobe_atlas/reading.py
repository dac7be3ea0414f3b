"""What a store says, row by row and release by release, for everything that is made of it: without pydantic."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mpsprobe_atlas.answers import Answers, unpack
from mpsprobe_atlas.store import Row, Store

SEVERITY = {"composite": 0, "native": 0, "unknown": 1, "fallback": 2, "missing": 3, "unsupported": 4}
"""As ``mpsprobe.schemas.SEVERITY``, which takes pydantic to import; a test compares them."""
BLOCKING = ("missing", "unsupported")
FINE = ("native", "composite")
HEAD = re.compile(r"(?<=.)(Model|LMHead|DoubleHeads|For[A-Z]).*")
"""How the name of a class in transformers goes on behind that of its architecture."""
HUGGING_FACE = "hf"


@dataclass(frozen=True, slots=True)
class Run:
    """What one release does with a row.

    Attributes:
        verdicts: operator → the worst that it meets; those that are native or composite are left out.
        findings: the numbers of the findings in ``Judged.findings``, in their order.
        advisories: identifiers of the known wrong results that match → how many calls do.
        failure: the error that ended the run before its end, in words; ``None`` where none did.
        peak_bytes: what PyTorch's allocator hands out at the peak; ``None`` where that is not known.
        operators, calls: how many there are, native ones included.
    """

    verdicts: Mapping[str, str]
    findings: tuple[int, ...] = ()
    advisories: Mapping[str, int] = field(default_factory=dict)
    failure: str | None = None
    peak_bytes: int | None = None
    operators: int | None = None
    calls: int | None = None

    @property
    def state(self) -> str:
        """The worst verdict, or ``native``; ``stopped`` where a run without a finding did not come to its end."""
        worst = max(self.verdicts.values(), key=SEVERITY.__getitem__, default="native")
        return "stopped" if worst in ("native", "unknown") and self.failure is not None else worst


@dataclass(frozen=True, slots=True)
class Judged:
    """A row of a store, read; its answer is given up, which is large.

    Attributes:
        architecture: the workload that stands for its architecture, as ``architectures`` has it.
        runs: by release, oldest first; empty for a row without an answer.
        findings: what reports have of operators that are not native: those that several releases have alike once.
        advisories: what reports have of each known wrong result, by identifier.
        fits: release → bytes of memory → the answer of ``mpsprobe fit``.
    """

    row: Row
    architecture: str
    runs: Mapping[str, Run]
    findings: tuple[Mapping[str, Any], ...] = ()
    advisories: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fits: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

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
    plainest = {one: min(names, key=_plainness) for one, names in of_class.items()}
    return {row.workload: plainest[classes[row.workload]] if row.workload in classes else row.workload for row in rows}


def _plainness(name: str) -> tuple[bool, int, str]:
    return not name.startswith(f"{HUGGING_FACE}:"), len(name), name


def judged(store: Store, *, native: bool = False) -> Iterator[Judged]:
    """Every row with all that its reports say, by workload; one at a time is read.

    Args:
        native: findings that are native are read too.

    Raises:
        ReportError: the store is damaged.
    """
    rows = store.rows()
    names = architectures(rows)
    for plain in rows:
        row = store.row(*plain.key)
        if row is not None:
            yield _read(row, names, native)


def heads(store: Store) -> Iterator[Judged]:
    """Every row with an answer: which operator has which verdict, and whether a run stopped. Fast: no report is read.

    Raises:
        ReportError: the store is damaged.
    """
    names = architectures(store.rows())
    for row in store.heads():
        answers = unpack(row.answer or b"")
        if answers.stopped is None:
            whole = store.row(*row.key)
            if whole is not None:
                yield _read(whole, names, native=False)
            continue
        verdicts: dict[str, dict[str, str]] = {release: {} for release in answers.releases}
        for one in answers.findings():
            for release in one.releases if one.verdict not in FINE else ():
                _add(verdicts[release], one.operator, one.verdict)
        runs = {
            release: Run(found, failure="it stopped" if release in answers.stopped else None)
            for release, found in verdicts.items()
        }
        yield Judged(replace(row, answer=None), names[row.workload], runs)


def _read(row: Row, names: Mapping[str, str], native: bool) -> Judged:
    if row.answer is None:
        return Judged(row, names[row.workload], {})
    answers = unpack(row.answer)
    findings: dict[str, tuple[int, Mapping[str, Any]]] = {}
    advisories: dict[str, Mapping[str, Any]] = {}
    runs = {release: _run(answers, release, findings, advisories, native) for release in answers.releases}
    found = tuple(finding for _, finding in findings.values())
    return Judged(replace(row, answer=None), names[row.workload], runs, found, advisories, answers.fits)


def _run(
    answers: Answers,
    release: str,
    findings: dict[str, tuple[int, Mapping[str, Any]]],
    advisories: dict[str, Mapping[str, Any]],
    native: bool,
) -> Run:
    report = answers.report(release)
    verdicts: dict[str, str] = {}
    numbers = []
    for one in report["operators"]:
        fine = one["verdict"] in FINE
        if not fine:
            _add(verdicts, one["operator"], one["verdict"])
        if native or not fine:
            numbers.append(findings.setdefault(json.dumps(one), (len(findings), one))[0])
    for one in report["advisories"]:
        advisories.setdefault(one["id"], one)
    failed, memory, summary = report["failure"], report["memory"], report["summary"]
    return Run(
        verdicts,
        tuple(numbers),
        {one["id"]: one["calls"] for one in report["advisories"]},
        f"{failed['error']}: {failed['message']}" if failed else None,
        memory and memory["allocated_bytes"],
        summary["operators"],
        summary["calls"],
    )


def _add(verdicts: dict[str, str], operator: str, verdict: str) -> None:
    if SEVERITY[verdict] >= SEVERITY[verdicts.get(operator, "native")]:
        verdicts[operator] = verdict
