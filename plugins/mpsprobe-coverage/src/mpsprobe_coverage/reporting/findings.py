"""From call records to the findings of a report."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from pathlib import PurePath
from typing import Any
from weakref import WeakKeyDictionary

import torch

from mpsprobe.assembling import Tally, worst_first
from mpsprobe.folding import united
from mpsprobe.protocols import Backend
from mpsprobe.schemas import DataDependence, OperatorFinding, RefusedTensor, Unjudged
from mpsprobe_coverage.knowledge.calls.spec import TensorSpec
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.judging.proof import with_proof
from mpsprobe_coverage.knowledge.kernels.table import COMPOSITE, KernelTable
from mpsprobe_coverage.recording.attribution import Origin
from mpsprobe_coverage.recording.recorder import EXAMPLES_KEPT, Advised, CallRecord, Note, Recorder
from mpsprobe_coverage.reporting.advice import advise
from mpsprobe_coverage.reporting.graphs import compiles, graph_key

NO_DERIVATIVE = "no gradient passes {operator}{where}: torch {release} has a kernel for it, and no derivative"
MOVED = (
    "{line} moves to {there}, which raises where there is none: leave it out, as mpsprobe moves the model itself, or "
    'write .to("{device}")'
)


class _Group:
    """Calls of one operator under one judgement, with their places in the run."""

    def __init__(self, records: list[tuple[int, CallRecord]], examples: Mapping[str, int]) -> None:
        self.records, self.examples = records, examples
        self.findings: dict[tuple[Any, ...], OperatorFinding] = {}

    @cached_property
    def site(self) -> str | None:
        """The line that makes most of them."""
        return next(iter(self.fields["call_sites"]), None)

    @cached_property
    def graphs(self) -> int:
        """How many graphs they compile, if they compile any."""
        return len({graph_key(record) for _, record in self.records})

    @cached_property
    def fields(self) -> dict[str, Any]:
        """What a finding says whatever the judgement is."""
        tally = Tally()
        composed_by: Counter[str] = Counter()
        for _, record in self.records:
            add_place(tally, record)
            tally.add_tensors(
                record.calls,
                [str(spec.dtype).removeprefix("torch.") for spec in (record.inputs or record.outputs)],
                _shapes(record.inputs),
                sum(spec.nbytes for spec in record.inputs),
                sum(spec.nbytes for spec in record.outputs),
            )
            if record.composed_by is not None:
                composed_by[record.composed_by] += record.calls
        return {**tally.fields(), "composed_by": dict(composed_by), "examples": list(self.examples)}


def add_place(tally: Tally, record: CallRecord | Advised) -> None:
    """Count the calls of ``record`` where they are made."""
    tally.add_place(record.calls, record.phase, _module(record.origin), _site(record.origin))


class _Groups:
    """The calls of a run by operator, judgement and dtypes, and groups of several of those."""

    def __init__(self, recorder: Recorder) -> None:
        records: dict[tuple[str, Judgement, frozenset[torch.dtype]], list[tuple[int, CallRecord]]] = {}
        for place, record in enumerate(recorder.calls()):
            dtypes = frozenset(spec.dtype for spec in (*record.inputs, *record.outputs))
            records.setdefault((record.operator, record.judgement, dtypes), []).append((place, record))
        self.single = {key: _Group(found, recorder.examples.get(key[:2], {})) for key, found in records.items()}
        self._several: dict[tuple[_Group, ...], _Group] = {}

    def together(self, groups: list[_Group]) -> _Group:
        """One of all of ``groups``, in the order of the run."""
        if len(groups) == 1:
            return groups[0]
        known = self._several.get(tuple(groups))
        if known is None:
            records = sorted((one for group in groups for one in group.records), key=itemgetter(0))
            examples = sorted((one for group in groups for one in group.examples.items()), key=itemgetter(1))
            first: dict[str, int] = {}
            for text, place in examples:
                first.setdefault(text, place)
            known = self._several[tuple(groups)] = _Group(records, dict([*first.items()][:EXAMPLES_KEPT]))
        return known


_groups_of: WeakKeyDictionary[Recorder, _Groups] = WeakKeyDictionary()
"""Of runs that several releases share."""


def findings(recorder: Recorder, table: KernelTable, workload_since: str | None = None) -> list[OperatorFinding]:
    """One finding for each operator and judgement: the worst verdicts first, then by calls.

    ``workload_since``, from which release on the whole workload is native, is the answer for an operator
    that never gets a kernel but is made of native ones there.
    """
    if recorder.base is None:
        groups = _Groups(recorder)
    elif (known := _groups_of.get(recorder.base)) is not None:
        groups = known
    else:
        groups = _groups_of[recorder.base] = _Groups(recorder.base)
    judged: dict[tuple[str, Judgement], list[_Group]] = {}
    for (operator, judgement, dtypes), group in groups.single.items():
        proven = with_proof(operator, recorder.says(judgement), dtypes, table)
        judged.setdefault((operator, proven), []).append(group)
    unsorted = [_finding(*key, groups.together(parts), table, workload_since) for key, parts in judged.items()]
    return worst_first(unsorted)


def not_judged(recorder: Recorder) -> list[Unjudged]:
    """What no rule could judge, by operator and reason."""
    return united(
        Unjudged(operator=one.operator, reason=one.text, calls=one.calls, call_sites=_sites(one))
        for one in recorder.not_judged()
    )


def data_dependence(recorder: Recorder) -> list[DataDependence]:
    """Where the program read values that are not known, and what was assumed."""
    return united(
        DataDependence(operator=one.operator, assumed=one.text, calls=one.calls, call_sites=_sites(one))
        for one in recorder.assumptions()
    )


def first_refused_tensor(recorder: Recorder) -> RefusedTensor | None:
    """Where the first tensor of a dtype that no tensor can have is made; what uses it is only a consequence."""
    for record in recorder.calls():
        if record.judgement.source == "dtype":
            return RefusedTensor(
                dtype=record.judgement.evidence or "",
                operator=record.operator,
                phase=record.phase,
                module=_module(record.origin),
                call_site=_site(record.origin),
            )
    return None


def gradients(recorder: Recorder, table: KernelTable, said: Sequence[str]) -> list[str]:
    """What to say about gradients: what the step has ``said``, and which operators pass none on."""
    notes = list(said)
    for operator, origin in recorder.gradients_end.items():
        line = _site(origin)
        where = "" if line is None else f" ({line})"
        notes.append(NO_DERIVATIVE.format(operator=operator, where=where, release=table.release))
    return notes


def moves_elsewhere(moves: Mapping[Origin, str], backend: Backend) -> list[str]:
    """What to say about lines that move a part of the model to a device of another kind than ``backend``'s."""
    return [MOVED.format(line=_site(origin), there=there, device=backend.device) for origin, there in moves.items()]


def site(file: str, line: int) -> str:
    """``transformers/models/bert/modeling_bert.py:164``: the path below the folder that it is imported from."""
    return f"{_below_import_root(file)}:{line}"


@lru_cache(maxsize=4096)
def _below_import_root(file: str) -> str:
    roots = [str(PurePath(entry)) for entry in (*sys.path, os.getcwd()) if entry]  # noqa: PTH109 - may be gone
    fitting = [root for root in roots if file.startswith((root + "/", root + "\\"))]
    return PurePath(file[len(max(fitting, key=len)) + 1 :]).as_posix() if fitting else file


def _finding(
    operator: str, judgement: Judgement, group: _Group, table: KernelTable, workload_since: str | None
) -> OperatorFinding:
    if workload_since is not None and judgement.verdict in ("missing", "fallback"):
        # Of what it is made of later the table knows the registrations alone; the workload was run there.
        composed = table.family.load(table.family.releases[-1]).verdict(operator) == COMPOSITE
        if judgement.accepted_since is None or (composed and judgement.source == "registration"):
            judgement = judgement._replace(accepted_since=workload_since)
    graph = compiles(operator, table) if judgement.verdict == "native" else None
    moved = group.fields["input_bytes"] + group.fields["output_bytes"]
    advice = advise(operator, judgement, table, group.site, moved)
    said = (judgement, graph, advice)
    if said not in group.findings:
        reason = judgement.reason
        if judgement.made_at is not None:
            reason = f"{reason}: made at {site(*judgement.made_at)}"
        group.findings[said] = OperatorFinding(
            operator=operator,
            verdict=judgement.verdict,
            native_since=judgement.accepted_since,
            reason=reason,
            source=judgement.source,
            evidence=judgement.evidence,
            judges=list(judgement.asked),
            needs_macos=judgement.needs_macos,
            ends_process=judgement.ends_process,
            advice=advice,
            graph=graph,
            graphs=0 if graph in (None, "never") else group.graphs,
            **group.fields,
        )
    return group.findings[said]


def _shapes(specs: Iterable[TensorSpec]) -> str:
    return ", ".join("x".join(map(str, spec.shape)) or "scalar" for spec in specs)


def _module(origin: Origin) -> str | None:
    return None if origin.module is None else origin.module or "(model)"


def _site(origin: Origin) -> str | None:
    return None if origin.file is None else site(origin.file, origin.line)


def _sites(note: Note) -> list[str]:
    return [line] if (line := _site(note.origin)) is not None else []
