"""What the atlas knows of one operator: the releases, who calls it with what, and the words for PyTorch's tracker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from mpsprobe_atlas.ranking import Met
from mpsprobe_atlas.reading import BLOCKING, Judged
from mpsprobe_atlas.samples import Example, sample_file


MOST_EXAMPLES = 40  # distinct calls of one operator
MOST_ROWS = 12  # of a table in the text for the tracker
MOST_NAMES = 30


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
        found = [Example(call, names) for call, names in self.examples.items()]
        return sorted(found, key=lambda one: (-len(one.callers), one.call))[:MOST_EXAMPLES]


def operators(rows: Iterable[Judged]) -> dict[str, Operator]:
    """Every operator that is not native for some row in some release, by name."""
    found: dict[str, Operator] = {}
    for one in rows:
        seen: set[int] = set()
        for release, run in reversed([*one.runs.items()]):
            for number in run.findings:
                if number in seen:
                    continue
                seen.add(number)
                finding = one.findings[number]
                operator = found.setdefault(finding["operator"], Operator(finding["operator"]))
                _add(operator, one, release, finding)
    return dict(sorted(found.items()))


def _add(operator: Operator, one: Judged, release: str, finding: Mapping[str, Any]) -> None:
    workload = one.row.workload
    caller = (workload, one.row.phase)
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
        lines += [one.call for one in examples[:MOST_ROWS]]
        lines += [f"# and {len(examples) - MOST_ROWS} more"] if examples[MOST_ROWS:] else []
        lines += ["```"]
    made = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    lines += ["", f"Predicted by mpsprobe from the kernels in the macOS wheels, not run on a Mac ({made})."]
    return "\n".join(lines) + "\n"


def _history(state: Mapping[str, Sequence[str]]) -> list[str]:
    """Rows of a table: the newest releases first, neighbours that are alike as one."""
    rows = []
    for verdicts, run in groupby(reversed([*state.items()]), key=lambda one: one[1]):
        names = [release for release, _ in run]
        span = names[0] if len(names) == 1 else f"{names[-1]} to {names[0]}"
        rows.append(f"| {span} | {', '.join(verdicts) or 'native, or not met'} |")
    return rows
