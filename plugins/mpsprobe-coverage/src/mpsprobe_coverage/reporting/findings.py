"""From call records to the findings of a report, and what else the calls of a run say."""

from __future__ import annotations

import linecache
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache, partial
from itertools import chain
from operator import itemgetter
from pathlib import PurePath
from typing import Any
from weakref import WeakKeyDictionary

import torch
from packaging.version import Version
from pydantic import BaseModel

from mpsprobe.assembling import Tally, worst_first
from mpsprobe.doubts import GUESSED
from mpsprobe.folding import united
from mpsprobe.protocols import Backend, MacOptions
from mpsprobe.schemas import AdvisoryMatch, DataDependence, MacosCondition, OperatorFinding, RefusedTensor, Unjudged
from mpsprobe.suggestions import without_home
from mpsprobe_coverage.knowledge.advisories.model import Advisory
from mpsprobe_coverage.knowledge.advisories.store import entry_of, number_for
from mpsprobe_coverage.knowledge.calls.spec import TensorSpec
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.judging.macos import conditions_of, first_condition
from mpsprobe_coverage.knowledge.judging.proof import with_proof
from mpsprobe_coverage.knowledge.kernels.table import COMPOSITE, MPS, KernelTable
from mpsprobe_coverage.recording.attribution import Origin
from mpsprobe_coverage.recording.branches import Ways
from mpsprobe_coverage.recording.recorder import EXAMPLES_KEPT, Advised, CallRecord, Note, Recorder
from mpsprobe_coverage.reporting.advice import advise
from mpsprobe_coverage.reporting.graphs import compiles, graph_key

NO_DERIVATIVE = "no gradient passes {operator}{where}: torch {release} has a kernel for it, and no derivative"
MOVED = (
    "{line} moves to {there}, which raises where there is none: leave it out, as mpsprobe moves the model itself, or "
    'write .to("{device}")'
)


class _Calls:
    """The calls of a run, in parts that agree in operator, judgement and dtypes; a finding is about some of these."""

    def __init__(self, recorder: Recorder) -> None:
        parts: dict[tuple[str, Judgement, frozenset[torch.dtype]], list[tuple[int, CallRecord]]] = {}
        for place, record in enumerate(recorder.calls()):
            dtypes = frozenset(spec.dtype for spec in (*record.inputs, *record.outputs))
            parts.setdefault((record.operator, record.judgement, dtypes), []).append((place, record))
        self.parts = [*parts.items()]
        self._examples, self._ways = recorder.examples, recorder.ways
        self._fields: dict[tuple[int, ...], dict[str, Any]] = {}
        self.findings: dict[tuple[Any, ...], OperatorFinding] = {}

    def records(self, numbers: tuple[int, ...]) -> list[CallRecord]:
        """Those of some parts, in the order of the run."""
        placed = chain.from_iterable(self.parts[number][1] for number in numbers)
        return [record for _, record in sorted(placed, key=itemgetter(0))]

    def fields(self, numbers: tuple[int, ...]) -> dict[str, Any]:
        """What a finding about some parts says whatever their judgement is."""
        if numbers in self._fields:
            return self._fields[numbers]
        tally = Tally()
        composed_by: Counter[str] = Counter()
        for record in self.records(numbers):
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
        kinds = [self.parts[number][0][:2] for number in numbers]
        examples = sorted(
            chain.from_iterable(self._examples.get(kind, {}).items() for kind in kinds), key=itemgetter(1)
        )
        distinct = [*dict.fromkeys(text for text, _ in examples)]
        fields = {**tally.fields(), "composed_by": dict(composed_by), "examples": distinct[:EXAMPLES_KEPT]}
        fields["only_if"] = only_if(self.records(numbers), self._ways)
        self._fields[numbers] = fields
        return fields


_shared: WeakKeyDictionary[Recorder, _Calls] = WeakKeyDictionary()
"""Of runs that several releases share."""


def findings(recorder: Recorder, table: KernelTable, workload_since: str | None = None) -> list[OperatorFinding]:
    """One finding for each operator and judgement: the worst verdicts first, then by calls.

    ``workload_since``, from which release on the whole workload is native, is the answer for an operator
    that never gets a kernel but is made of native ones there.
    """
    if recorder.base is None:
        calls = _Calls(recorder)
    elif (known := _shared.get(recorder.base)) is not None:
        calls = known
    else:
        calls = _shared[recorder.base] = _Calls(recorder.base)
    judged: dict[tuple[str, Judgement], list[int]] = {}
    for number, ((operator, judgement, dtypes), _) in enumerate(calls.parts):
        proven = with_proof(operator, recorder.says(judgement), dtypes, table)
        judged.setdefault((operator, proven), []).append(number)
    first = first_refused_tensor(recorder)
    return worst_first(_finding(*key, calls, tuple(some), table, workload_since, first) for key, some in judged.items())


def _finding(
    operator: str,
    judgement: Judgement,
    calls: _Calls,
    numbers: tuple[int, ...],
    table: KernelTable,
    workload_since: str | None,
    first: RefusedTensor | None,
) -> OperatorFinding:
    if workload_since is not None and judgement.verdict in ("missing", "fallback"):
        # Of what it is made of later the table knows the registrations alone; the workload was run there.
        composed = table.family.load(table.family.releases[-1]).verdict(operator) == COMPOSITE
        if judgement.accepted_since is None or (composed and judgement.source == "registration"):
            judgement = judgement._replace(accepted_since=workload_since)
    graph = compiles(operator, table) if judgement.verdict == "native" else None
    fields = calls.fields(numbers)
    line = next(iter(fields["call_sites"]), None)
    where = f" at {line}" if line else ""
    if judgement.source == "dtype" and first is not None and first.dtype == judgement.evidence:
        # Where the first one is made: what uses it is only a consequence, and has the same advice.
        inside = f" in the parameters of '{first.module}'" if first.module else " in the inputs"
        where = f" at {first.call_site}" if first.call_site else inside
    advice = advise(operator, judgement, table, where, fields["input_bytes"] + fields["output_bytes"])
    key = (numbers, judgement, graph, advice)
    if key not in calls.findings:
        reason = judgement.reason
        if judgement.made_at is not None:
            reason = f"{reason}: made at {site(*judgement.made_at)}"
        compiled = 0 if graph in (None, "never") else len(set(map(graph_key, calls.records(numbers))))
        said = {"operator": operator, "reason": reason, "advice": advice, "graph": graph, "graphs": compiled}
        known = {"native_since": judgement.accepted_since, "judges": list(judgement.asked)}
        calls.findings[key] = OperatorFinding(**same_fields(OperatorFinding, judgement) | said | known | fields)
    return calls.findings[key]


def same_fields(schema: type[BaseModel], of: object) -> dict[str, Any]:
    """The fields of ``schema`` that ``of`` has under the same names."""
    return {name: getattr(of, name) for name in schema.model_fields if hasattr(of, name)}


def only_if(records: Iterable[CallRecord | Advised], ways: Ways | None) -> str | None:
    """Under which conditions the calls of ``records`` are made; ``None`` where each run that was united makes them."""
    runs = [record.runs for record in records]
    return ways.only_if(frozenset().union(*runs)) if ways is not None and all(runs) else None


def add_place(tally: Tally, record: CallRecord | Advised) -> None:
    tally.add_place(record.calls, record.phase, _module(record.origin), _site(record.origin))


def not_judged(recorder: Recorder) -> list[Unjudged]:
    """What no rule could judge, by operator and reason."""
    return united(
        Unjudged(operator=note.operator, reason=note.text, calls=note.calls, call_sites=_sites(note))
        for note in recorder.not_judged()
    )


def data_dependence(recorder: Recorder) -> list[DataDependence]:
    """Where the program read values that are not known, and what was assumed."""
    return united(
        DataDependence(
            operator=note.operator, assumed=_quoting(note, recorder.ways), calls=note.calls, call_sites=_sites(note)
        )
        for note in recorder.assumptions()
    )


def _quoting(note: Note, ways: Ways | None) -> str:
    """What was assumed; of a guess with the line of the program that asked: ``taken as False: `if x.max() > 1:` ``."""
    (file, line), text, place = note.origin[1:], note.text, _site(note.origin)
    if not text.startswith(GUESSED):
        return text
    text = ways.said(text, place or "") if ways is not None else text
    code = linecache.getline(file, line).strip() if file else ""
    return f"{text}: `{code}`" if code else text


def first_refused_tensor(recorder: Recorder) -> RefusedTensor | None:
    """Where the first tensor of a dtype that no tensor can have is made; what uses it is only a consequence."""
    record = next((record for record in recorder.calls() if record.judgement.source == "dtype"), None)
    if record is None:
        return None
    return RefusedTensor(
        dtype=record.judgement.evidence or "",
        operator=record.operator,
        phase=record.phase,
        module=_module(record.origin),
        call_site=_site(record.origin),
    )


def macos_conditions(recorder: Recorder, table: KernelTable) -> list[MacosCondition]:
    """What of the run needs a newer macOS than ``table``'s release itself, the newest first."""
    operators: dict[tuple[str, str], dict[str, None]] = {}  # macOS and what it serves → by which
    of_operator = cache(partial(conditions_of, table=table))
    for record in recorder.calls():
        if record.judgement.verdict == "native":
            condition = first_condition(of_operator(record.operator), record.inputs, record.outputs)
            if condition is not None:
                operators.setdefault((condition.macos, condition.what), {})[record.operator] = None
    for advised in recorder.advisories():
        entry = entry_of(advised.advisory)
        if entry.effect != "numbers" and entry.macos.fixed and entry.affects(table.release, table.macos_minimum):
            operators.setdefault((entry.macos.fixed, entry.condition), {})[advised.operator] = None
    newest_first = sorted(operators, key=lambda condition: Version(condition[0]), reverse=True)
    return [MacosCondition(macos=c[0], what=c[1], operators=list(operators[c])) for c in newest_first]


def advisory_matches(recorder: Recorder, table: KernelTable, mac: MacOptions) -> list[AdvisoryMatch]:
    """The advisories that the run's calls match on the release of ``table``, most called first."""
    calls: dict[Advisory, list[Advised]] = {}
    for advised in recorder.advisories():
        calls.setdefault(entry_of(advised.advisory), []).append(advised)
    matches = []
    for advisory, all_calls in calls.items():
        affected = advisory.affects(table.release, table.macos_minimum, mac.macos, mac.chip)
        if advisory.effect != "numbers" or not affected:
            continue
        tally, some = Tally(), [advised for advised in all_calls if not advised.undecided]
        concerned = some or all_calls
        for advised in concerned:
            add_place(tally, advised)
        operators = sorted({advised.operator for advised in concerned})
        own = {"hardware": advisory.where, "operators": operators, "undecided": not some}
        own["only_if"] = only_if(concerned, recorder.ways)
        matches.append(AdvisoryMatch(**same_fields(AdvisoryMatch, advisory) | own | tally.places()))
    return sorted(matches, key=lambda match: (-match.calls, match.id))


def advisories_compared(table: KernelTable, mac: MacOptions) -> int | None:
    """How many advisories are known of the release of ``table`` on ``mac``; there is no list of another backend."""
    if table.backend.key != MPS:
        return None
    return number_for(table.release, table.macos_minimum, mac.macos, mac.chip)


def ends_of_branches(recorder: Recorder) -> list[str]:
    """Which answers to what only values decide end the run, and how many were left out."""
    return recorder.ways.notes() if recorder.ways is not None else []


def gradients(recorder: Recorder, table: KernelTable) -> list[str]:
    """Which operators pass no gradient on."""
    ends = [(operator, _site(origin)) for operator, origin in recorder.gradients_end.items()]
    return [
        NO_DERIVATIVE.format(operator=operator, where=f" ({line})" if line else "", release=table.release)
        for operator, line in ends
    ]


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
    return PurePath(file[len(max(fitting, key=len)) + 1 :]).as_posix() if fitting else without_home(file)


def _shapes(specs: Iterable[TensorSpec]) -> str:
    return ", ".join("x".join(map(str, spec.shape)) or "scalar" for spec in specs)


def _module(origin: Origin) -> str | None:
    return None if origin.module is None else origin.module or "(model)"


def _site(origin: Origin) -> str | None:
    return None if origin.file is None else site(origin.file, origin.line)


def _sites(note: Note) -> list[str]:
    return [line] if (line := _site(note.origin)) is not None else []
