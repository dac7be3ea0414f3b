"""Whether the device in Python records what the native one does, where autograd and C++ are PyTorch's own.

    python benchmarks/two_devices.py samples [--entries NAME …] [--draw NUMBER] [--dtypes float32 …]
        [--layouts LAYOUT …] [--release RELEASE] [-o FILE]
    python benchmarks/two_devices.py workloads [--names NAME …] [--phases training …] [--release RELEASE] [-o FILE]
    python benchmarks/two_devices.py show FILE [--groups 40]

``samples`` runs every sample of the OpInfo database on both, forward and backward, and compares the calls of each, with
verdicts, dtypes and sizes; views and what only makes memory are left out. ``--layouts`` lays the tensors out otherwise
(``channels last``, ``transposed``, ``expanded``, ``offset``, ``strided``; all of them with ``all``), and ``--draw``
takes so many entries, drawn with a seed, for each layout. ``workloads`` does the same with a step of
each named workload, with two layers. ``show`` prints a file again.
The exit code is 1 if there is a difference that is not explained.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from two_devices_explained import RAISED, Around, Called, Difference, explained
from two_devices_records import ASSUMED, LAYOUTS, NATIVE, PYTHON, record_samples, record_workloads

from mpsprobe_coverage.knowledge.kernels.releases import installed_release

REFUSING = ("missing", "unsupported")
EARLIER = {"backward": "forward", "optimizer": "forward", "raised": "forward"}  # what has run before a phase
CHUNK = 40  # entries for which a process is started
Found = dict[str, dict[str, Any]]
Pairs = dict[str, dict[str, Any]]  # by what was run, then by device


def main() -> int:
    """Record, compare, print."""
    arguments = _arguments()
    if arguments.what == "show":
        pairs = json.loads(arguments.file.read_text(encoding="utf-8"))
    else:
        pairs = _samples(arguments) if arguments.what == "samples" else _workloads(arguments)
        if arguments.output:
            arguments.output.write_text(json.dumps(pairs), encoding="utf-8")
    return show(pairs, arguments.groups)


def _samples(arguments: argparse.Namespace) -> Pairs:
    from mpsprobe_tables.audit.entries import entries

    layouts = [*LAYOUTS] if arguments.layouts == ["all"] else arguments.layouts
    names, chance = [*(arguments.entries or entries())], Random(arguments.seed)
    work = [
        (name, dtype, layout)
        for dtype in arguments.dtypes
        for layout in layouts
        for name in (chance.sample(names, min(arguments.draw, len(names))) if arguments.draw else names)
    ]
    return _on_both(record_samples, work, arguments)


def _workloads(arguments: argparse.Namespace) -> Pairs:
    from mpsprobe_hf.catalog import entries

    names = arguments.names or entries()
    work = [(name, phase) for name in names for phase in arguments.phases if phase in entries()[name].phases]
    return _on_both(record_workloads, work, arguments)


def _on_both(run: Callable[..., None], work: Sequence[tuple[str, ...]], arguments: argparse.Namespace) -> Pairs:
    size = max(1, min(CHUNK, len(work) // arguments.processes))
    chunks = [work[start : start + size] for start in range(0, len(work), size)]
    pairs: Pairs = {}
    with ThreadPoolExecutor(arguments.processes) as pool:
        jobs = [
            (kind, pool.submit(_in_processes, run, kind, arguments.release, chunk))
            for chunk in chunks
            for kind in (PYTHON, NATIVE)
        ]
        for number, (kind, job) in enumerate(jobs):
            for name, found in job.result().items():
                pairs.setdefault(name, {})[kind] = found
            tell(f"{number + 1} of {len(jobs)}")
    return pairs


def _in_processes(run: Callable[..., None], kind: str, release: str, work: Sequence[Any]) -> Found:
    """Run ``work`` in a process; where it ends, the next goes on after the one that ended it."""
    found: Found = {}
    rest = list(work)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lines")
        while rest:
            path.write_text("", encoding="utf-8")
            process = get_context("spawn").Process(target=run, args=(kind, release, rest, path))
            process.start()
            process.join()
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            found |= dict(lines)
            if len(lines) < len(rest):
                died = rest[len(lines)]
                found[" ".join(died)] = {"process": {"raised": f"the process ended with {process.exitcode}"}}
            rest = rest[len(lines) + 1 :]
    return found


def differences(pair: dict[str, Any]) -> Iterator[Difference]:
    """Where the devices differ, phase by phase."""
    sides = [pair.get(kind, {}) for kind in (PYTHON, NATIVE)]
    for sample in sorted({*sides[0], *sides[1]}):
        phases = [side.get(sample, {}) for side in sides]
        assumed = bool(phases[0].get(ASSUMED))
        raised = [one.get("raised", "") for one in phases]
        for phase in sorted({*phases[0], *phases[1]} - {ASSUMED}):
            python, native = (_counts(one.get(phase, [])) for one in phases)
            if python != native:
                earlier = [one.get(EARLIER.get(phase, ""), []) for one in phases]
                refused = all(any(key[1] in REFUSING for key, _ in calls) for calls in earlier)
                yield explained(
                    Difference(sample, phase, python - native, native - python), Around(assumed, refused, *raised)
                )


def _counts(calls: Any) -> Counter[Called]:
    if isinstance(calls, str):
        return Counter([Called(RAISED, calls)])
    return Counter({Called(*key): count for key, count in calls})


def show(pairs: Pairs, groups: int) -> int:
    """Print the differences, those that concern the same operators together."""
    samples = same = alike = 0
    reasons: Counter[str] = Counter()
    found: dict[Any, list[tuple[str, list[str]]]] = defaultdict(list)
    for name, pair in pairs.items():
        differ = list(differences(pair))
        everything = {*pair.get(PYTHON, {}), *pair.get(NATIVE, {})}
        samples += len(everything)
        same += len(everything - {one.sample for one in differ})
        alike += len(everything - {one.sample for one in differ if one.python or one.native})
        for one in differ:
            reasons.update(one.reasons)
            if one.python or one.native:
                lines = [f"- {line}" for line in _times(one.python)] + [f"+ {line}" for line in _times(one.native)]
                key = _operators(one.python), _operators(one.native)
                found[key].append((f"{name} sample {one.sample} {one.phase}", lines))
    say(f"{len(pairs)} entries, {samples} samples: {same} alike, {alike - same} more but for what is explained,")
    say(f"{samples - alike} not; - is only in Python, + only native")
    for reason, count in reasons.most_common():
        say(f"  {count} times: {reason}")
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    for (python, native), places in ordered[:groups]:
        names = sorted({place.partition(" sample")[0] for place, _ in places})
        say(f"\n{len(places)} times, in {', '.join(names[:8])}{' …' if len(names) > 8 else ''}")
        say(f"  - {' '.join(python)}\n  + {' '.join(native)}")
        place, lines = min(places, key=lambda one: len(one[1]))
        say("\n".join(f"      {line[:230]}" for line in [place, *lines[:8]]))
    if len(ordered) > groups:
        say(f"\n{len(ordered) - groups} more groups")
    return 1 if found else 0


def _operators(calls: Iterable[Called]) -> tuple[str, ...]:
    return tuple(sorted({f"{call.operator} {call.verdict}" for call in calls}))


def _times(calls: Counter[Called]) -> list[str]:
    return sorted(f"{count} x {call}" for call, count in calls.items())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    samples = commands.add_parser("samples")
    samples.add_argument("--entries", nargs="+", metavar="NAME")
    samples.add_argument("--dtypes", nargs="+", default=["float32"])
    samples.add_argument("--layouts", nargs="+", default=["as drawn"], choices=["all", *LAYOUTS])
    samples.add_argument("--draw", type=int, metavar="NUMBER")
    samples.add_argument("--seed", type=int, default=0)
    workloads = commands.add_parser("workloads")
    workloads.add_argument("--names", nargs="+", metavar="NAME")
    workloads.add_argument("--phases", nargs="+", default=["inference", "training"])
    for command in (samples, workloads):
        command.add_argument("--release", default=installed_release())
        command.add_argument("--processes", type=int, default=2)
        command.add_argument("-o", "--output", type=Path)
    shown = commands.add_parser("show")
    shown.add_argument("file", type=Path)
    for command in (samples, workloads, shown):
        command.add_argument("--groups", type=int, default=40)
    return parser.parse_args()


def say(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")


def tell(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
