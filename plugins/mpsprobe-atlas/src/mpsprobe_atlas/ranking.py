"""Missing operators by the number of architectures that they block, and what each release gained.

Of each operator: the releases, who calls it with what, and the words for PyTorch's tracker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mpsprobe_atlas.reading import BLOCKING, SEVERITY, Judged
from mpsprobe_atlas.samples import Example, sample_file

if TYPE_CHECKING:
    from mpsprobe.declarations import OperatorRewrite
    from mpsprobe.schemas import RankedOperator, RankedRelease, RankedRewrite

MOST_EXAMPLES = 40  # distinct calls of one operator
MOST_ROWS = 12  # of a table in the text for the tracker
MOST_NAMES = 30


@dataclass(slots=True)
class Met:
    # Operator → architecture → phase → the worst verdict; those that are native are left out.
    operators: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    clean: set[str] = field(default_factory=set)  # architectures whose operators are all native, in each of their rows
    known: set[str] = field(default_factory=set)  # every architecture with an answer

    def verdicts(self, operator: str) -> set[str]:
        """That architectures meet it under."""
        return {phase for phases in self.operators.get(operator, {}).values() for phase in phases.values()}

    def met(self, *verdicts: str) -> dict[str, set[str]]:
        """Operator → the architectures that meet it under one of ``verdicts``."""
        counts = {}
        for operator, by_architecture in self.operators.items():
            those = {name for name, phases in by_architecture.items() if set(verdicts) & set(phases.values())}
            if those:
                counts[operator] = those
        return counts

    def blocked(self, *verdicts: str) -> dict[str, set[str]]:
        """Architecture → the operators that it meets under one of ``verdicts``, or that block it."""
        found: dict[str, set[str]] = {}
        for operator, names in self.met(*(verdicts or BLOCKING)).items():
            for name in names:
                found.setdefault(name, set()).add(operator)
        return found


def gather(rows: Iterable[Judged], releases: Sequence[str], phases: Collection[str] = ()) -> dict[str, Met]:
    """What each release, oldest first, does with all architectures; for no ``phases`` all count."""
    by_release = {release: Met() for release in releases}
    for row in rows:
        if phases and row.row.phase not in phases:
            continue
        for release, run in row.runs.items():
            met = by_release.get(release)
            if met is None:
                continue
            if run.state != "native":
                met.clean.discard(row.architecture)
            elif row.architecture not in met.known:
                met.clean.add(row.architecture)
            met.known.add(row.architecture)
            for operator, verdict in run.verdicts.items():
                by_phase = met.operators.setdefault(operator, {}).setdefault(row.architecture, {})
                if SEVERITY[verdict] >= SEVERITY[by_phase.get(row.row.phase, "native")]:
                    by_phase[row.row.phase] = verdict
    return by_release


def ranked(found: Mapping[str, Met], release: str, verdicts: Sequence[str] = BLOCKING) -> list[RankedOperator]:
    """The operators that architectures meet in ``release`` under one of ``verdicts``, the one that most meet first."""
    from mpsprobe.schemas import RankedOperator

    met, met_with = found[release], found[release].met(*verdicts)
    blockers = met.blocked(*verdicts)
    later = list(found)[list(found).index(release) :]
    every = {newer: found[newer].met(*verdicts) for newer in later}
    rows = [
        RankedOperator.model_validate(
            {
                "operator": operator,
                "verdict": max(set(verdicts) & met.verdicts(operator), key=SEVERITY.__getitem__),
                "architectures": sorted(names),
                "alone": sorted(name for name in names if blockers[name] == {operator}),
                "phases": sorted({phase for name in names for phase in met.operators[operator][name]}),
                "native_since": _gone(operator, later, every),
            }
        )
        for operator, names in met_with.items()
    ]
    return sorted(rows, key=lambda row: (-len(row.architectures), -len(row.alone), row.operator))


def rewritten(
    found: Mapping[str, Met], release: str, rewrites: Iterable[OperatorRewrite]
) -> tuple[list[RankedRewrite], int]:
    """Which rewrite frees whom in ``release``, the most first; and how many architectures run with all of them."""
    from mpsprobe.schemas import RankedRewrite

    blocked = found[release].blocked()
    rows, all_of_them = [], set()
    for rewrite in rewrites:
        operators = set(rewrite.operators)
        all_of_them |= operators
        names = sorted(name for name, blockers in blocked.items() if blockers & operators)
        if names:
            alone = [name for name in names if blocked[name] <= operators]
            met = sorted(operators & set().union(*(blocked[name] for name in names)))
            rows.append(RankedRewrite(name=rewrite.name, operators=met, architectures=names, alone=alone))
    rows.sort(key=lambda row: (-len(row.alone), -len(row.architectures), row.name))
    return rows, sum(blockers <= all_of_them for blockers in blocked.values())


def _gone(operator: str, later: Sequence[str], every: Mapping[str, Mapping[str, set[str]]]) -> str | None:
    """The first release from which on, without a gap up to the newest, nobody meets ``operator``."""
    last = max(index for index, release in enumerate(later) if operator in every[release])
    return next(iter(later[last + 1 :]), None)


def gained(found: Mapping[str, Met]) -> list[RankedRelease]:
    """What each release gained over the one before, the newest first."""
    from mpsprobe.schemas import RankedRelease

    rows = []
    before: tuple[set[str], set[str]] | None = None
    for release, met in found.items():
        operators, blocked = set(met.met(*BLOCKING)), set(met.blocked())
        old_operators, old_blocked = before or (operators, blocked)
        rows.append(
            RankedRelease(
                torch=release,
                clean=len(met.clean),
                blocked=len(blocked),
                operators=sorted(old_operators - operators),
                architectures=sorted(old_blocked - blocked),
                lost=sorted(blocked - old_blocked),
            )
        )
        before = operators, blocked
    return rows[::-1]


@dataclass(slots=True)
class Operator:
    name: str
    # Workload and phase → its calls of the operator, in the newest release where it is not native.
    callers: dict[tuple[str, str], int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)  # calls in Python → the workloads that make them
    dtypes: Counter[str] = field(default_factory=Counter)  # of its tensors → how many callers
    reasons: dict[str, str] = field(default_factory=dict)  # release → why, of those that say why

    def ordered_examples(self) -> list[Example]:
        """The calls that most workloads make come first."""
        examples = [Example(call, names) for call, names in self.examples.items()]
        return sorted(examples, key=lambda example: (-len(example.callers), example.call))[:MOST_EXAMPLES]


def operators(rows: Iterable[Judged]) -> dict[str, Operator]:
    """Every operator that is not native for some row in some release, by name."""
    found: dict[str, Operator] = {}
    for row in rows:
        seen: set[int] = set()
        for release, run in reversed([*row.runs.items()]):
            for number in run.findings:
                if number in seen:
                    continue
                seen.add(number)
                finding = row.findings[number]
                operator = found.setdefault(finding["operator"], Operator(finding["operator"]))
                _add(operator, row, release, finding)
    return dict(sorted(found.items()))


def _add(operator: Operator, judged: Judged, release: str, finding: Mapping[str, Any]) -> None:
    workload = judged.row.workload
    caller = (workload, judged.row.phase)
    if caller not in operator.callers:
        operator.callers[caller] = finding["calls"]
        operator.dtypes.update(finding["dtypes"])
    for call in finding.get("examples", ()):
        names = operator.examples.setdefault(call, [])
        if workload not in names:
            names.append(workload)
    if finding["reason"]:
        operator.reasons.setdefault(release, finding["reason"])


def samples_of(operator: Operator, versions: Mapping[str, str]) -> str:
    """Its calls as a file that a kernel's author runs; empty where none can be written."""
    source = f"torch {versions.get('torch', '?')}, transformers {versions.get('transformers', 'none')}"
    return sample_file(operator.name, operator.ordered_examples(), versions.get("mpsprobe", "?"), source)


def tracker_text(operator: Operator, met: Mapping[str, Met], versions: Mapping[str, str]) -> str:
    """What to write under PyTorch's tracking issue, in GitHub's Markdown; ``met`` has each release, oldest first."""
    releases = list(met)
    newest = releases[-1]
    state = {release: sorted(met[release].verdicts(operator.name)) for release in releases}
    blocked = sorted(met[newest].met(*BLOCKING).get(operator.name, ()))
    blockers = met[newest].blocked()
    alone = [name for name in blocked if blockers[name] == {operator.name}]
    total = len(met[newest].known)
    lines = [f"### `{operator.name}`", ""]
    if blocked:
        lines.append(
            f"Not implemented on MPS in torch {newest}: {len(blocked)} of {total} architectures cannot run without it"
            + (f", {len(alone)} of them for nothing else" if alone else "")
            + "."
        )
    elif state[newest]:
        count = len(met[newest].operators.get(operator.name, {}))
        architectures = "architecture" if count == 1 else "architectures"
        lines.append(f"On MPS in torch {newest}: {', '.join(state[newest])}, in {count} {architectures}.")
    else:
        last = next((release for release in reversed(releases) if state[release]), newest)
        lines.append(f"Runs on MPS in torch {newest}; the last release that did not run it is {last}.")
    lines += ["", "| torch | |", "|---|---|", *_history(state)]
    if blocked:
        some = ", ".join(f"`{name}`" for name in blocked[:MOST_NAMES])
        lines += ["", f"Who: {some}" + (f" and {len(blocked) - MOST_NAMES} more" if blocked[MOST_NAMES:] else "")]
    examples = operator.ordered_examples()
    if examples:
        lines += ["", "With these calls (shape, strides, dtype):", "", "```python"]
        lines += [example.call for example in examples[:MOST_ROWS]]
        lines += [f"# and {len(examples) - MOST_ROWS} more"] if examples[MOST_ROWS:] else []
        lines += ["```"]
    made = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    lines += ["", f"Predicted by mpsprobe from the kernels in the macOS wheels, not run on a Mac ({made})."]
    return "\n".join(lines) + "\n"


def _history(state: Mapping[str, Sequence[str]]) -> list[str]:
    """Rows of a table: the newest releases first, neighbours that are alike as one."""
    rows = []
    for verdicts, run in groupby(reversed([*state.items()]), key=lambda pair: pair[1]):
        names = [release for release, _ in run]
        span = names[0] if len(names) == 1 else f"{names[-1]} to {names[0]}"
        rows.append(f"| {span} | {', '.join(verdicts) or 'native, or not met'} |")
    return rows
