"""From call records to the findings of a report."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from mpsprobe.protocols import Backend
from mpsprobe.schemas import (
    SEVERITY,
    CoverageSummary,
    DataDependence,
    GraphCount,
    OperatorFinding,
    RefusedTensor,
    Unjudged,
)
from mpsprobe_coverage.calls.spec import TensorSpec
from mpsprobe_coverage.device.attribution import Origin
from mpsprobe_coverage.device.recorder import Advised, CallRecord, Note, Recorder
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_coverage.judging.proof import REGISTERED_ONLY, with_proof
from mpsprobe_coverage.kernels.table import COMPOSITE, KernelTable
from mpsprobe_coverage.scanner.advice import advise
from mpsprobe_coverage.scanner.graphs import Key, compiles, graph_key

SHAPES_SHOWN = 8
NO_DERIVATIVE = "no gradient passes {operator}{where}: torch {release} has a kernel for it, and no derivative"
MOVED = (
    "{line} moves to {there}, which raises where there is none: leave it out, as mpsprobe moves the model itself, or "
    'write .to("{device}")'
)


@dataclass
class Origins:
    """When, in which modules and in which source lines calls were made."""

    phases: Counter[str] = field(default_factory=Counter)
    sites: Counter[str] = field(default_factory=Counter)
    modules: dict[str, None] = field(default_factory=dict)

    def add(self, record: CallRecord | Advised) -> None:
        """Count the calls of ``record``."""
        self.phases[record.phase] += record.calls
        module, line = _module(record.origin), _site(record.origin)
        if module is not None:
            self.modules[module] = None
        if line is not None:
            self.sites[line] += record.calls

    def as_fields(self) -> dict[str, Any]:
        """As a report has them."""
        return {
            "calls": self.phases.total(),
            "phases": dict(self.phases),
            "modules": list(self.modules),
            "call_sites": [line for line, _ in self.sites.most_common()],
        }


@dataclass
class _Group:
    origins: Origins = field(default_factory=Origins)
    dtypes: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)
    composed_by: Counter[str] = field(default_factory=Counter)
    graphs: set[Key] = field(default_factory=set)
    examples: dict[str, None] = field(default_factory=dict)
    input_bytes: int = 0
    output_bytes: int = 0

    def add(self, record: CallRecord) -> None:
        count = record.calls
        self.origins.add(record)
        for dtype in dict.fromkeys(spec.dtype for spec in (record.inputs or record.outputs)):
            self.dtypes[str(dtype).removeprefix("torch.")] += count
        self.shapes[_shapes(record.inputs)] += count
        self.graphs.add(graph_key(record))
        if record.composed_by is not None:
            self.composed_by[record.composed_by] += count
        self.input_bytes += count * sum(spec.nbytes for spec in record.inputs)
        self.output_bytes += count * sum(spec.nbytes for spec in record.outputs)


def findings(recorder: Recorder, table: KernelTable, workload_since: str | None = None) -> list[OperatorFinding]:
    """One finding for each operator and judgement: the worst verdicts first, then by calls.

    ``workload_since``, from which release on the whole workload is native, is the answer for an operator
    that never gets a kernel but is made of native ones there.
    """
    groups: dict[tuple[str, Judgement], _Group] = {}
    for record in recorder.calls():
        dtypes = frozenset(spec.dtype for spec in (*record.inputs, *record.outputs))
        judgement = with_proof(record.operator, record.judgement, dtypes, table)
        group = groups.setdefault((record.operator, judgement), _Group())
        group.add(record)
        group.examples |= recorder.examples.get((record.operator, record.judgement), {})
    unsorted = [_finding(*judged, group, table, workload_since) for judged, group in groups.items()]
    return sorted(unsorted, key=lambda f: (-SEVERITY[f.verdict], -f.calls, f.operator))


def summarise(
    operators: list[OperatorFinding],
    parameters_bytes: int | None = None,
    since: str | None = None,
    advisories: int = 0,
    graphs: GraphCount | None = None,
) -> CoverageSummary:
    """Counts by verdict. An operator with several verdicts counts once, under the worst."""
    worst: dict[str, str] = {}
    calls: Counter[str] = Counter()
    for finding in operators:
        calls[finding.verdict] += finding.calls
        worst.setdefault(finding.operator, finding.verdict)
    return CoverageSummary.model_validate(
        {
            "calls": sum(calls.values()),
            "operators": len(worst),
            "calls_by_verdict": _ordered(calls),
            "operators_by_verdict": _ordered(Counter(worst.values())),
            "native_since": since,
            "parameters_bytes": parameters_bytes,
            "advisories": advisories,
            "graphs": graphs,
            "calls_registered_only": sum(f.calls for f in operators if f.evidence == REGISTERED_ONLY),
        }
    )


def not_judged(recorder: Recorder) -> list[Unjudged]:
    """What no rule could judge, by operator and reason."""
    notes = _by_text(recorder.not_judged())
    return [Unjudged(operator=operator, reason=text, **where) for (operator, text), where in notes.items()]


def data_dependence(recorder: Recorder) -> list[DataDependence]:
    """Where the program read values that are not known, and what was assumed."""
    notes = _by_text(recorder.assumptions())
    return [DataDependence(operator=operator, assumed=text, **where) for (operator, text), where in notes.items()]


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
    origins = group.origins.as_fields()
    reason = judgement.reason
    if judgement.made_at is not None:
        reason = f"{reason}: made at {site(*judgement.made_at)}"
    graph = compiles(operator, table) if judgement.verdict == "native" else None
    first_site = next(iter(origins["call_sites"]), None)
    moved = group.input_bytes + group.output_bytes
    return OperatorFinding(
        operator=operator,
        verdict=judgement.verdict,
        dtypes=[name for name, _ in group.dtypes.most_common()],
        shapes=[name for name, _ in group.shapes.most_common(SHAPES_SHOWN)],
        native_since=judgement.accepted_since,
        input_bytes=group.input_bytes,
        output_bytes=group.output_bytes,
        reason=reason,
        source=judgement.source,
        evidence=judgement.evidence,
        judges=list(judgement.asked),
        needs_macos=judgement.needs_macos,
        ends_process=judgement.ends_process,
        advice=advise(operator, judgement, table, first_site, moved),
        graph=graph,
        graphs=0 if graph in (None, "never") else len(group.graphs),
        composed_by=dict(group.composed_by),
        examples=list(group.examples),
        **origins,
    )


def _shapes(specs: Iterable[TensorSpec]) -> str:
    return ", ".join("x".join(map(str, spec.shape)) or "scalar" for spec in specs)


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return {verdict: counts[verdict] for verdict in SEVERITY if counts[verdict]}


def _by_text(notes: Iterable[Note]) -> dict[tuple[str, str], dict[str, Any]]:
    """Operator and text → how many calls, and where."""
    grouped: dict[tuple[str, str], dict[str, Any]] = {}
    for note in notes:
        group = grouped.setdefault((note.operator, note.text), {"calls": 0, "call_sites": []})
        group["calls"] += note.calls
        line = _site(note.origin)
        if line is not None and line not in group["call_sites"]:
            group["call_sites"].append(line)
    return grouped


def _module(origin: Origin) -> str | None:
    return None if origin.module is None else origin.module or "(model)"


def _site(origin: Origin) -> str | None:
    return None if origin.file is None else site(origin.file, origin.line)
