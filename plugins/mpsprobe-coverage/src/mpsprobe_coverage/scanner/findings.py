"""From call records to the findings of a report."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath

from mpsprobe.schemas import SEVERITY, CoverageSummary, DataDependence, OperatorFinding, RefusedTensor, Unjudged
from mpsprobe_coverage.device.keys import serving_key
from mpsprobe_coverage.device.recorder import CallRecord, Note, Recorder
from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.tensor import TensorSpec
from mpsprobe_coverage.kernels import store
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_coverage.scanner.advice import Situation, advise
from mpsprobe_coverage.scanner.evidence import evidence

SHAPES_SHOWN = 8


@dataclass(slots=True)
class _Group:
    calls: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)
    sites: Counter[str] = field(default_factory=Counter)
    modules: dict[str, None] = field(default_factory=dict)
    input_bytes: int = 0
    output_bytes: int = 0
    reason: str | None = None

    def add(self, record: CallRecord) -> None:
        count = record.calls
        self.calls += count
        self.phases[record.phase] += count
        for dtype in {spec.dtype for spec in (record.inputs or record.outputs)}:
            self.dtypes[str(dtype).removeprefix("torch.")] += count
        self.shapes[_shapes(record.inputs)] += count
        if record.origin.module is not None:
            self.modules[record.origin.module or "(model)"] = None
        if record.origin.file is not None:
            self.sites[site(record.origin.file, record.origin.line)] += count
        self.input_bytes += count * sum(spec.nbytes for spec in record.inputs)
        self.output_bytes += count * sum(spec.nbytes for spec in record.outputs)
        self.reason = self.reason or record.reason


def findings(recorder: Recorder, table: KernelTable, workload_since: str | None = None) -> list[OperatorFinding]:
    """One finding for each operator, verdict and reason: the worst verdicts first, then by calls.

    ``workload_since``, from which release on the whole workload is native, is the answer for an operator
    that never gets a kernel but is made of native ones there.
    """
    groups: dict[tuple[str, str, str | None], _Group] = {}
    for record in recorder.calls():
        groups.setdefault((record.operator, record.verdict, record.reason), _Group()).add(record)
    made = [
        _finding(operator, verdict, group, table, workload_since) for (operator, verdict, _), group in groups.items()
    ]
    return sorted(made, key=lambda f: (-SEVERITY[f.verdict], -f.calls, f.operator))


def summarise(
    found: list[OperatorFinding], parameters_bytes: int | None = None, since: str | None = None, advisories: int = 0
) -> CoverageSummary:
    """Counts by verdict. An operator with several verdicts counts once, under the worst."""
    worst: dict[str, str] = {}
    calls: Counter[str] = Counter()
    for finding in found:
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
        }
    )


def not_judged(recorder: Recorder) -> list[Unjudged]:
    """What no rule could judge, by operator and reason."""
    return [
        Unjudged(operator=operator, reason=text, calls=sum(n.calls for n in notes), call_sites=_note_sites(notes))
        for (operator, text), notes in _by_text(recorder.not_judged()).items()
    ]


def data_dependence(recorder: Recorder) -> list[DataDependence]:
    """Where the program read values that are not known, and what was assumed."""
    return [
        DataDependence(
            operator=operator, assumed=text, calls=sum(n.calls for n in notes), call_sites=_note_sites(notes)
        )
        for (operator, text), notes in _by_text(recorder.assumptions()).items()
    ]


def first_refused_tensor(recorder: Recorder) -> RefusedTensor | None:
    """Where the first tensor of a dtype that no tensor can have is made; what uses it is only a consequence."""
    for record in recorder.calls():
        reason = record.reason
        if isinstance(reason, Refusal) and reason.source == "dtype":
            origin = record.origin
            return RefusedTensor(
                dtype=reason.evidence or "",
                operator=record.operator,
                phase=record.phase,
                module=None if origin.module is None else origin.module or "(model)",
                call_site=None if origin.file is None else site(origin.file, origin.line),
            )
    return None


def site(file: str, line: int) -> str:
    """``transformers/models/bert/modeling_bert.py:164``: the path below the folder that it is imported from."""
    return f"{_below_import_root(file)}:{line}"


@lru_cache(maxsize=4096)
def _below_import_root(file: str) -> str:
    roots = [str(PurePath(entry)) for entry in (*sys.path, os.getcwd()) if entry]  # noqa: PTH109 - may be gone
    fitting = [root for root in roots if file.startswith((root + "/", root + "\\"))]
    return PurePath(file[len(max(fitting, key=len)) + 1 :]).as_posix() if fitting else file


def _finding(
    operator: str, verdict: str, group: _Group, table: KernelTable, workload_since: str | None
) -> OperatorFinding:
    macos = group.reason.needs_macos if isinstance(group.reason, Refusal) else None
    source, found = evidence(operator, verdict, group.reason, table)
    releases = torch_releases() if table.family is None else table.family.releases
    since = (table.family or store).native_since(operator, serving_key(operator, table.backend.key))
    if since is None and verdict == "native":
        # Native by a branch in C++ (a copy), not by a registration: so it has been since MPS came.
        since = releases[0]
    if since is None and verdict in ("missing", "fallback"):
        since = workload_since
    if isinstance(group.reason, Refusal):
        since = group.reason.accepted_since
    sites = [name for name, _ in group.sites.most_common()]
    situation = Situation(
        verdict=verdict,
        reason=group.reason,
        release=table.release,
        native_since=since,
        newest=releases[-1],
        site=sites[0] if sites else None,
        moved_bytes=group.input_bytes + group.output_bytes,
        accepted_since=group.reason.accepted_since if isinstance(group.reason, Refusal) else None,
        needs_macos=macos,
        backend=table.backend,
        may_have_kernel=not table.whole and operator in table.operators,
        dtype_refused=isinstance(group.reason, Refusal) and group.reason.source == "dtype",
    )
    return OperatorFinding.model_validate(
        {
            "operator": operator,
            "verdict": verdict,
            "calls": group.calls,
            "phases": dict(group.phases),
            "dtypes": [name for name, _ in group.dtypes.most_common()],
            "shapes": [name for name, _ in group.shapes.most_common(SHAPES_SHOWN)],
            "modules": list(group.modules),
            "call_sites": sites,
            "native_since": since,
            "input_bytes": group.input_bytes,
            "output_bytes": group.output_bytes,
            "reason": group.reason,
            "source": source,
            "evidence": found,
            "needs_macos": macos,
            "advice": advise(situation),
        }
    )


def _shapes(specs: Iterable[TensorSpec]) -> str:
    return ", ".join("x".join(map(str, spec.shape)) or "scalar" for spec in specs)


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return {verdict: counts[verdict] for verdict in SEVERITY if counts[verdict]}


def _by_text(notes: Iterable[Note]) -> dict[tuple[str, str], list[Note]]:
    grouped: dict[tuple[str, str], list[Note]] = {}
    for note in notes:
        grouped.setdefault((note.operator, note.text), []).append(note)
    return grouped


def _note_sites(notes: list[Note]) -> list[str]:
    return list(dict.fromkeys(site(n.origin.file, n.origin.line) for n in notes if n.origin.file is not None))
