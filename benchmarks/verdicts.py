"""Whether a verdict changed between two commits: every call and finding of every workload, written and compared.

    python benchmarks/verdicts.py record FILE [--workloads NAME …] [--releases RELEASE …|quick] [--audit] [--jobs 4]
    python benchmarks/verdicts.py compare BEFORE AFTER [--fields verdict …] [--common] [--groups 40]

``record`` traces each workload in both phases on the virtual device of every torch release with a kernel table, a few
also for macOS 13, under autocast and for Intel XPU (if ``docs/examples/mpsprobe-xpu`` is installed), and writes what
was recorded and reported; with ``--audit`` also every call and test of ``mpsprobe kernels audit``, in both modes.
``compare`` matches calls by where they happen and what goes in and out, and exits with 1 if anything differs.

A file is gzip. Each line is a job in JSON: ``strings``; ``entries``, each the numbers of three strings (kind, key,
value) and a count; ``cells``, for each release the ranges of its entries.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from verdict_records import Job, jobs_for, record_audit, record_job

QUICK = ("1.12.1", "2.0.1", "2.5.1", "2.8.0", "2.13.0", "2.15.0")
OUR_LINE = re.compile(r"""(mpsprobe\w*/[^":]*\.py):\d+""")  # in the place of a call: our own lines move


def record(arguments: argparse.Namespace) -> int:
    """Each job in a process of its own, so that none meets what another imported."""
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe_coverage.knowledge.kernels.releases import torch_releases

    releases = {("all",): torch_releases(), ("quick",): QUICK}.get(tuple(arguments.releases), arguments.releases)
    names = [*get_registry().workloads()] if arguments.workloads is None else arguments.workloads
    jobs = jobs_for(names, releases)
    failed, started = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        parts = {job: Path(folder, str(number)) for number, job in enumerate(jobs)}
        running = {pool.submit(_in_process, job, path): job for job, path in parts.items()}
        for done in as_completed(running):
            failed += done.result() != 0
            tell(f"{time.monotonic() - started:5.0f} s  {running[done].name}" + " FAILED" * (done.result() != 0))
        arguments.file.write_bytes(b"".join(path.read_bytes() for path in parts.values() if path.exists()))
    if arguments.audit:
        record_audit(arguments.file, arguments.jobs)
    size = arguments.file.stat().st_size
    tell(f"{time.monotonic() - started:5.0f} s  {len(jobs)} jobs, {failed} failed, {size / 1e6:.1f} MB")
    return 1 if failed else 0


def _in_process(job: Job, path: Path) -> int | None:
    process = get_context("spawn").Process(target=record_job, args=(job, path))
    process.start()
    process.join()
    return process.exitcode


@dataclass
class Difference:
    """What differs in one way: how many calls (findings, …), and where first."""

    count: int = 0
    example: str = ""


@dataclass
class Comparison:
    """Counts by kind, and the differences by what they are, kind, operator and fields (name, before, after)."""

    fields: frozenset[str]
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: dict[tuple[str, str, str, tuple[Any, ...]], Difference] = field(default_factory=dict)

    def entries(self, line: str | None) -> dict[str, Counter[tuple[str, str, str]]]:
        """Release → (kind, key, value) → count, with only the fields that are compared."""
        content = json.loads(line) if line else {"strings": [], "entries": [], "cells": {}}
        texts = [OUR_LINE.sub(r"\1", text) for text in content["strings"]]
        values = {value: self._compared(texts[value]) for value in {value for _, _, value, _ in content["entries"]}}
        entries = [((texts[kind], texts[key], values[v]), count) for kind, key, v, count in content["entries"]]
        cells: dict[str, Counter[tuple[str, str, str]]] = {}
        for release, ranges in content["cells"].items():
            cells[release] = Counter()
            for first, end in ranges:
                for entry, count in entries[first:end]:
                    cells[release][entry] += count
        return cells

    def _compared(self, value: str) -> str:
        named = json.loads(value)
        if "dtypes" in named:
            named["dtypes"].sort()  # those that are met equally often come in no order
        return json.dumps({name: named[name] for name in sorted(self.fields & set(named) if self.fields else named)})

    def add(self, where: str, before: Counter[tuple[str, str, str]], after: Counter[tuple[str, str, str]]) -> None:
        """Compare one release of one job."""
        for (kind, _, _), count in (before & after).items():
            self.counts[kind, "equal"] += count
        gone, come = (_by_key(left - right) for left, right in ((before, after), (after, before)))
        for kind, key in {**gone, **come}:
            old, new = gone.get((kind, key), []), come.get((kind, key), [])
            while old and new:
                one, other = max(((o, n) for o in old for n in new), key=lambda pair: _alike(pair[0][0], pair[1][0]))
                count = min(one[1], other[1])
                self._note(kind, key, "changed", _changes(one[0], other[0]), count, where)
                for rest, used in ((old, one), (new, other)):
                    used[1] -= count
                    if not used[1]:
                        rest.remove(used)
            for what, rest in (("only before", old), ("only after", new)):
                for value, count in rest:
                    shown = tuple((name, json.dumps(value[name])) for name in ("verdict", "reason") if name in value)
                    self._note(kind, key, what, shown, count, where)

    def _note(self, kind: str, key: str, what: str, shown: tuple[Any, ...], count: int, where: str) -> None:
        self.counts[kind, what] += count
        operator, *rest = json.loads(key)
        found = self.differences.setdefault((what, kind, operator, shown), Difference(0, f"{where}: {rest}"))
        found.count += count


def _by_key(entries: Counter[tuple[str, str, str]]) -> dict[tuple[str, str], list[list[Any]]]:
    found: dict[tuple[str, str], list[list[Any]]] = {}
    for (kind, key, value), count in entries.items():
        found.setdefault((kind, key), []).append([json.loads(value), count])
    return found


def _alike(one: dict[str, Any], other: dict[str, Any]) -> int:
    return sum(2 if name in ("verdict", "reason") else 1 for name in one if one[name] == other.get(name))


def _changes(before: dict[str, Any], after: dict[str, Any]) -> tuple[Any, ...]:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return tuple((name, json.dumps(before.get(name)), json.dumps(after.get(name))) for name in names)


def lines_of(path: Path) -> dict[str, str]:
    """Job → its line."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return {json.loads(line[: line.index(',"strings"')] + "}")["job"]: line for line in file}


def compare(arguments: argparse.Namespace) -> int:
    """Print what differs; 1 if anything does."""
    before, after = lines_of(arguments.before), lines_of(arguments.after)
    compared, absent = Comparison(frozenset(arguments.fields or ())), Counter[str]()
    for job in {**before, **after}:
        old, new = compared.entries(before.get(job)), compared.entries(after.get(job))
        for release in {**old, **new}:
            if release in old and release in new:
                compared.add(f"{job}, torch {release}", old[release], new[release])
            else:
                absent["only before" if release in old else "only after"] += 1
    columns = ("equal", "changed", "only before", "only after")
    tell("".join(f"{title:>14}" for title in ("", *columns)))
    for kind in sorted({kind for kind, _ in compared.counts}):
        tell(f"{kind:>14}" + "".join(f"{compared.counts[kind, column]:14}" for column in columns))
    tell("".join(f"\njobs and releases {what}: {count}" for what, count in absent.items()))
    ordered = sorted(compared.differences.items(), key=lambda item: (item[0][0], -item[1].count))
    for (what, kind, operator, fields), difference in ordered[: arguments.groups]:
        tell(f"{difference.count} x {what}: {kind} {operator}   ({difference.example[:300]})")
        for name, *values in fields:
            tell(f"    {name}: {' → '.join(value[:300] for value in values)}")
    if len(ordered) > arguments.groups:
        tell(f"and {len(ordered) - arguments.groups} more groups (--groups)")
    return 1 if ordered or (absent and not arguments.common) else 0


def tell(line: str) -> None:
    """A line, as soon as it is known."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """The two commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("--workloads", nargs="*", help="named ones [default: all; none with no name after it]")
    recording.add_argument("--releases", nargs="+", default=["all"])
    recording.add_argument("--audit", action="store_true", help="also the audit of the installed torch")
    recording.add_argument("--jobs", type=int, default=4, help="processes")
    recording.set_defaults(run=record)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--fields", nargs="+", help="compare only these, for example verdict reason")
    comparing.add_argument("--common", action="store_true", help="no difference: what only one file has as a whole")
    comparing.add_argument("--groups", type=int, default=40, help="how many to show")
    comparing.set_defaults(run=compare)
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
