"""The whole audit: what ran, the scores of each release, and each disagreement once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.knowledge.judging.lists import Lists
from mpsprobe_tables.audit.entries import entries
from mpsprobe_tables.audit.judging import Judged, beyond_claims, internal_errors, judge
from mpsprobe_tables.audit.modules import ModuleAudit, audit_modules
from mpsprobe_tables.audit.running import Pair, run_tasks, tasks_for
from mpsprobe_tables.audit.scoring import ExceptionLine, Score, Scores, exception_lines, scores, total
from mpsprobe_tables.audit.untested import Untested, audit_untested
from mpsprobe_tables.expectations import load_expectations
from mpsprobe_tables.module_marks import module_releases

ALONE: Lists = "none"
HELPED: Lists = "neighbours"
SHOWN = "2.9.1"
"""The release that the page is about: that of the tracer, 2.13.0, is the one whose lists the rules were made with."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Tests that disagree in the same way."""

    kind: str  # ``missed`` (expected to fail, and not predicted) or ``false`` (the other way round)
    gradient: bool
    entries: tuple[str, ...]
    dtypes: tuple[str, ...]
    lists: tuple[str, ...]
    cause: str
    by: tuple[Lists, ...]  # the modes in which they disagree


@dataclass(frozen=True)
class ReleaseAudit:
    """One release."""

    release: str
    # wheel, sha256: where its expectations were read
    wheel: str
    sha256: str
    scores: dict[Lists, Scores]  # mode → figures
    # Mode → of the dtypes that the CPU has and MPS does not claim, how many are refused, and all.
    beyond: dict[Lists, tuple[int, int]]

    def row(self, mode: Lists, gradient: bool) -> Score:
        """All forward tests together, or all gradient tests."""
        return _all(self.scores[mode].outcome, gradient)

    def verdicts(self, mode: Lists, gradient: bool) -> Score:
        """The same of what the device refuses alone, over tests whose reference works."""
        return _all(self.scores[mode].device, gradient)

    @property
    def excepted(self) -> dict[ExceptionLine, list[Judged]]:
        """Lines of the table that took a test out, in either mode."""
        by_line: dict[ExceptionLine, dict[tuple[str, str, bool], Judged]] = {}
        for scored in self.scores.values():
            for line, them in scored.excepted.items():
                by_line.setdefault(line, {}).update(
                    {(judged.entry, judged.dtype, judged.gradient): judged for judged in them}
                )
        return {line: list(them.values()) for line, them in by_line.items()}


def _all(rows: Mapping[str, Score], gradient: bool) -> Score:
    return total(score for name, score in rows.items() if name.startswith("gradient") == gradient)


@dataclass(frozen=True)
class Audit:
    """Everything."""

    torch_version: str  # the tracer, whose OpInfo database it is
    dtypes: tuple[str, ...]
    # entries, samples: how many were run; each sample counts once for each dtype
    entries: int
    samples: int
    only: tuple[str, ...]  # the entries that were asked for; empty for all
    modes: tuple[Lists, ...]
    releases: tuple[ReleaseAudit, ...]
    internal: tuple[str, ...]  # mistakes of the virtual device, in words
    pairs: tuple[Pair, ...]
    modules: tuple[ModuleAudit, ...] = ()  # the second audit, of PyTorch's modules; empty where it was not asked for
    untested: tuple[Untested, ...] = ()  # what becomes of samples that no test has; likewise

    @property
    def focus(self) -> ReleaseAudit:
        """The release that is shown in detail: ``SHOWN`` among several, else the last."""
        return next((release for release in self.releases if release.release == SHOWN), self.releases[-1])

    @property
    def lowest(self) -> float:
        """The least recall or precision of any row of any release, from 0 to 1."""
        rows = [s for release in self.releases for scored in release.scores.values() for s in scored.outcome.values()]
        shares = [(row.recall, row.precision) for row in rows] + [
            (module.recall, module.precision) for module in self.modules
        ]
        return min((min(pair) for pair in shares), default=1.0)


def run_audit(
    releases: Sequence[str],
    dtypes: Sequence[str],
    modes: Sequence[Lists],
    only: Sequence[str],
    jobs: int,
    progress: SilentProgress,
    modules: Sequence[str] | None = None,
    untested: bool = False,
) -> Audit:
    """Run it.

    Args:
        only: keys of entries; none for all.
        jobs: processes.
        modules: names of modules for the second audit; none for all; ``None`` leaves it out.
        untested: judge samples too that no test has, on ``SHOWN`` and the newest of several releases.
    """
    pairs = run_tasks(tasks_for(dtypes, releases, modes, only), jobs, progress)
    summary = summed_up(pairs, releases, dtypes, modes, only)
    if untested:
        shown = dict.fromkeys((summary.focus.release, releases[-1]))
        summary = replace(summary, untested=audit_untested(list(shown), only or list(entries()), jobs, progress))
    if modules is not None:
        # With several releases, those too that have no lists of operators.
        audits = audit_modules(module_releases() if len(releases) > 1 else releases, modules, jobs, progress)
        internal = tuple(text for audit in audits for text in audit.internal)
        summary = replace(summary, modules=audits, internal=summary.internal + internal)
    return summary


def summed_up(
    pairs: Sequence[Pair], releases: Sequence[str], dtypes: Sequence[str], modes: Sequence[Lists], only: Sequence[str]
) -> Audit:
    """The audit whose pairs have run."""
    return Audit(
        torch_version=str(torch.__version__),
        dtypes=tuple(dtypes),
        entries=len({pair.entry for pair in pairs}),
        samples=sum(pair.samples for pair in pairs),
        only=tuple(only),
        modes=tuple(modes),
        releases=tuple(_release(pairs, release, modes) for release in releases),
        internal=tuple(
            f"{pair.entry} with {pair.dtype} on torch {release}: {text}"
            for pair, release, text in internal_errors(pairs)
        ),
        pairs=tuple(pairs),
    )


def _release(pairs: Sequence[Pair], release: str, modes: Sequence[Lists]) -> ReleaseAudit:
    expectations = load_expectations(release)
    scored, beyond = {}, {}
    for mode in modes:
        scored[mode] = scores(judge(pairs, expectations, mode), expectations, exception_lines())
        outside = [claim for claim in beyond_claims(pairs, expectations, mode) if claim.reference_works]
        beyond[mode] = sum(tried.refused for tried in outside), len(outside)
    return ReleaseAudit(release, expectations.wheel, expectations.sha256, scored, beyond)


def disagreements(audited: ReleaseAudit) -> list[Disagreement]:
    """Every test that disagrees in some mode, those of the same kind and cause together; missed ones first."""
    tests: Iterable[tuple[Any, ...]] = (
        (
            "missed" if disagreement.expected == "kernel" else "false",
            disagreement.gradient,
            disagreement.entry,
            disagreement.dtype,
            disagreement.lists,
            _without_sample(disagreement.cause),
            mode,
        )
        for mode, scored in audited.scores.items()
        for disagreement in scored.disagreements
    )
    for column in (6, 3, 2):  # modes, dtypes, entries
        tests = _together(tests, column)
    found = [Disagreement(kind, gradient, tuple(sorted(entries)), *rest) for kind, gradient, entries, *rest in tests]
    return sorted(
        found, key=lambda disagreement: (disagreement.kind == "false", disagreement.gradient, disagreement.entries)
    )


def _together(rows: Iterable[tuple[Any, ...]], column: int) -> list[tuple[Any, ...]]:
    """Rows that differ in one column alone as one, which has all of it there."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        groups.setdefault(row[:column] + row[column + 1 :], []).append(row[column])
    return [(*rest[:column], tuple(values), *rest[column:]) for rest, values in groups.items()]


def _without_sample(cause: str) -> str:
    head, _, rest = cause.partition(": ")
    return rest if head.startswith("sample ") else cause
