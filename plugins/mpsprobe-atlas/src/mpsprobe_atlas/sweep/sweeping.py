"""From what a sweep is to find out to a store that has all of it, and has it by the rules and tables of now."""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mpsprobe.declarations import PHASES
from mpsprobe.environment import collect_environment
from mpsprobe.errors import UsageError
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe.progress import SilentProgress
from mpsprobe.suggestions import printable
from mpsprobe_atlas.answers import unpack, with_releases
from mpsprobe_atlas.store import Asked, Key, Row, WritableStore
from mpsprobe_coverage.rules import Rules, stated, worked_out

OURS, TORCH = "mpsprobe-", "torch"
LIBRARIES = ("diffusers", "timm")
"""What workloads are built from, besides what every report names (torch, torchvision, transformers)."""
Source = Callable[[Sequence[Asked]], Generator[Row]]
"""Works out a row for each, as soon as it is there: by processes of this machine, or by a cluster."""


@dataclass(frozen=True, slots=True)
class Plan:
    names: tuple[str, ...]  # of workloads, patterns resolved
    phases: tuple[str, ...]  # inference, training, generate
    dtypes: tuple[str, ...]  # of the parameters
    size: str  # real or small
    releases: tuple[str, ...]  # of torch, oldest first

    def keys(self, registry: Registry) -> list[Key]:
        """The rows, in the order in which they are worked on. What a workload cannot do is left out."""
        rows = []
        for name in self.names:
            declared, _ = registry.workload_and_owner(name)
            if declared.framework != TORCH:
                shown = printable(name)
                raise UsageError(
                    f"'{shown}' is a workload of {printable(declared.framework)}: an atlas compares releases of torch",
                    f"Judge it by itself: mpsprobe coverage {shown} --release all",
                )
            for phase in self.phases:
                if phase in declared.phases or phase not in PHASES:
                    rows += [Key(name, self.size, phase, dtype) for dtype in self.dtypes]
        if not rows:
            some = ", ".join(map(printable, self.names[:3]))
            raise UsageError(
                f"nothing is to be done: {some} cannot do {', '.join(self.phases)}", "Name another --phase."
            )
        return rows

    def about(self) -> dict[str, Any]:
        """What the store says about itself."""
        plan = asdict(self)
        return {"versions": versions(), "releases": list(plan.pop("releases")), "plan": plan}


def versions() -> dict[str, str]:
    import importlib.metadata

    environment = collect_environment()
    found = {"mpsprobe": environment.mpsprobe, "torch": environment.torch, "transformers": environment.transformers}
    found["torchvision"] = environment.torchvision
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name in LIBRARIES or (name.startswith(OURS) and name not in ("mpsprobe-devkit", "mpsprobe-tables")):
            found[name] = distribution.version
    return {name: version for name, version in sorted(found.items()) if version is not None}


@dataclass(frozen=True, slots=True)
class Outcome:
    known: int  # rows that were there before
    answered: int  # rows with an answer, of all
    failed: tuple[Row, ...]  # rows without one, of all
    seconds: float  # that it took
    complete: bool  # whether nothing is left of the plan


def sweep_into(
    path: str | Path,
    about: dict[str, Any],
    keys: Sequence[Key],
    source: Source,
    progress: SilentProgress,
    *,
    again: bool = False,
) -> Outcome:
    """Work out what of ``keys`` the store at ``path`` does not have yet by the rules of now, or failed and is tried
    ``again``.

    Each row is durable at once. ``about`` is as ``WritableStore`` takes it.
    """
    started = time.monotonic()
    complete = True
    rules, known = worked_out(), stated()
    if known.code[0] == rules.code[0]:  # else its earlier digests are of other code
        rules = rules._replace(code=known.code)
    with WritableStore(path, about) as store:
        left: list[Asked] = []
        kept: dict[Key, bytes | None] = {}  # answers of other releases, which are right
        for key in keys:
            row = store.row(*key)
            if row is not None and row.state == "failed" and not again:
                continue
            right = _right(row, rules) if row is not None else ()
            releases = [release for release in about["releases"] if release not in right]
            if releases:
                left.append((key, releases))
                kept[key] = row.answer if row is not None and right else None
        if left:
            complete = _work(store, left, source, lambda row: stamped(row, kept[row.key], rules), progress)
        asked = set(keys)
        rows = [row for row in store.rows() if row.key in asked]
    bad = tuple(row for row in rows if row.state == "failed")
    return Outcome(len(keys) - len(left), len(rows) - len(bad), bad, time.monotonic() - started, complete)


def _right(row: Row, rules: Rules) -> list[str]:
    """The releases of which a row has an answer by the rules and files of now."""
    if row.answer is None or row.rules is None:
        return []
    made, answers = json.loads(row.rules), unpack(row.answer)
    if (
        made["code"] not in rules.code
        or made["source"] != _source(row.workload)
        or row.entries != rules.entries(answers.operators())
    ):
        return []
    return [release for release in answers.releases if made["releases"].get(release) == rules.releases.get(release)]


def stamped(row: Row, kept: bytes | None, rules: Rules) -> Row:
    """A row that was just worked out, with its digests; ``kept`` are answers of other releases that are still right."""
    if row.answer is None:
        return row
    answers = unpack(row.answer)
    data = row.answer
    if kept is not None:
        data = with_releases(kept, {release: answers.report(release) for release in answers.releases}, answers.fits)
    every = unpack(data)
    releases = {release: rules.releases.get(release) for release in every.releases}
    made = {"code": rules.code[0], "source": _source(row.workload), "releases": releases}
    return replace(row, answer=data, rules=json.dumps(made), entries=rules.entries(every.operators()))


def _source(workload: str) -> str:
    """The digest of the files that a workload comes from: the user's own, or those of the plugin that has its name."""
    own = Path(workload.rpartition(":")[0]).expanduser()
    if own.is_file():
        return _digest([own])
    plugin = get_registry().workload_and_owner(workload)[1].found
    return _digest([Path(plugin.file)]) if plugin.file else _package(plugin.target.partition(":")[0].partition(".")[0])


@functools.cache
def _package(name: str) -> str:
    spec = find_spec(name)
    folders = map(Path, (spec.submodule_search_locations or ()) if spec is not None else ())
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    return _digest(sorted(files))


def _digest(files: Sequence[Path]) -> str:
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.name}\0".encode() + hashlib.sha256(file.read_bytes().replace(b"\r\n", b"\n")).digest())
    return whole.hexdigest()[:16]


def _work(
    store: WritableStore, left: Sequence[Asked], source: Source, finish: Callable[[Row], Row], progress: SilentProgress
) -> bool:
    started = time.monotonic()
    progress.start(len(left), "starting")
    try:
        with closing(source(left)) as rows:
            for done, row in enumerate(rows, 1):
                store.add(finish(row))
                rate = 60 * done / (time.monotonic() - started)
                progress.advance(f"{rate:.0f} a minute, last {printable(row.workload)} ({row.phase})")
    except KeyboardInterrupt:
        return False
    finally:
        progress.stop()
    return True
