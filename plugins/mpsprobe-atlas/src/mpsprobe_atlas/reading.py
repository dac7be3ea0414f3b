"""What a store says, row by row and release by release, for everything that is made of it: without pydantic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mpsprobe_atlas.answers import Answers, unpack
from mpsprobe_atlas.store import Row, Store

SEVERITY = {"composite": 0, "native": 0, "unknown": 1, "fallback": 2, "missing": 3, "unsupported": 4}
"""As ``mpsprobe.schemas.SEVERITY``, which takes pydantic to import; a test compares them."""
BLOCKING = ("missing", "unsupported")
FINE = ("native", "composite")


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
        runs: by release, oldest first; empty for a row without an answer.
        findings: what reports have of operators that are not native: those that several releases have alike once.
        advisories: what reports have of each known wrong result, by identifier.
        fits: release → bytes of memory → the answer of ``mpsprobe fit``.
    """

    row: Row
    runs: Mapping[str, Run]
    findings: tuple[Mapping[str, Any], ...] = ()
    advisories: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fits: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    @property
    def architecture(self) -> str:
        """What counts once in a ranking: ``hf:bert`` of ``hf:bert/BertForMaskedLM``; of other workloads their names."""
        return self.row.workload.partition("/")[0]

    @property
    def setting(self) -> tuple[str, str, str]:
        """Size, phase, dtype."""
        return self.row.size, self.row.phase, self.row.dtype


def judged(store: Store, *, native: bool = False) -> Iterator[Judged]:
    """Every row with all that its reports say, by workload; one at a time is read.

    Args:
        native: findings that are native are read too.

    Raises:
        ReportError: the store is damaged.
    """
    for plain in store.rows():
        row = store.row(*plain.key)
        if row is not None:
            yield _read(row, native)


def heads(store: Store) -> Iterator[Judged]:
    """Every row with an answer: which operator has which verdict, and whether a run stopped. Fast: no report is read.

    Raises:
        ReportError: the store is damaged.
    """
    for row in store.heads():
        answers = unpack(row.answer or b"")
        if answers.stopped is None:
            whole = store.row(*row.key)
            if whole is not None:
                yield _read(whole, native=False)
            continue
        verdicts: dict[str, dict[str, str]] = {release: {} for release in answers.releases}
        for one in answers.findings():
            for release in one.releases if one.verdict not in FINE else ():
                _add(verdicts[release], one.operator, one.verdict)
        runs = {
            release: Run(found, failure="it stopped" if release in answers.stopped else None)
            for release, found in verdicts.items()
        }
        yield Judged(replace(row, answer=None), runs)


def _read(row: Row, native: bool) -> Judged:
    if row.answer is None:
        return Judged(row, {})
    answers = unpack(row.answer)
    findings: dict[str, tuple[int, Mapping[str, Any]]] = {}
    advisories: dict[str, Mapping[str, Any]] = {}
    runs = {release: _run(answers, release, findings, advisories, native) for release in answers.releases}
    found = tuple(finding for _, finding in findings.values())
    return Judged(replace(row, answer=None), runs, found, advisories, answers.fits)


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
