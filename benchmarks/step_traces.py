"""The calls of a published step, as the virtual device records them, kept in a file so that fitting takes seconds."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.knowledge.calls.spec import TensorSpec, dtype_name, interned
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.times.model import Call
from mpsprobe_coverage.reporting.works import calls_of, works_of
from mpsprobe_coverage.scanning.tracing import Tracer, built

sys.path.insert(0, str(Path(__file__).parent / "times"))
import step_workloads

KEPT = Path(tempfile.gettempdir()) / "mpsprobe-step-traces"
ONLY = {"decode": {"decode", "sampling"}, "backward": {"backward"}}  # of a generation, and of a training step
DECODED = 2  # tokens of a generation, of which the first is the prompt's


def traced(row: Mapping[str, str]) -> list[Call]:
    """The calls of the step that ``row`` of ``steps.csv`` is about."""
    asked = {name: row[name] for name in ("torch", "workload", "phase", "dtype", "batch_size", "seq_len")}
    file = KEPT / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]}.json"
    if not file.exists():
        KEPT.mkdir(exist_ok=True)
        file.write_text(json.dumps([*_recorded(asked)]), encoding="utf-8")
    only = ONLY.get(asked["phase"])
    return calls_of(works_of((_read(*one) for one in json.loads(file.read_text(encoding="utf-8"))), only))


def _recorded(asked: Mapping[str, str]) -> Iterator[Any]:
    batch, length = (int(asked[name]) if asked[name] else None for name in ("batch_size", "seq_len"))
    name, _, width = asked["workload"].partition("@")
    phase = {"decode": "generate", "backward": "training"}.get(asked["phase"], asked["phase"])
    options = RunOptions(
        phase=phase, dtype=asked["dtype"], batch_size=batch, seq_len=length, clip_norm=0.0, new_tokens=DECODED
    )
    table = family_named("mps").target(asked["torch"])
    made = getattr(step_workloads, name, None)
    if made is None:
        workload = get_registry().workload(name)
    else:
        workload = get_registry().workload_of(*made(batch, length))
        options = RunOptions(phase=phase, dtype=asked["dtype"], clip_norm=0.0)
    run, _ = built(workload, options, table, int(width) if width else None)
    trace = Tracer(run, options).settled(table)
    if trace.failure is not None:
        raise SystemExit(f"{asked}: {trace.failure.message}")
    for record in trace.recorder.calls():
        specs = ([_written(one) for one in part] for part in (record.inputs, record.outputs))
        yield [record.operator, record.phase, record.judgement.verdict, record.calls, *specs]


def _written(spec: TensorSpec) -> Any:
    return [spec.shape, spec.stride, dtype_name(spec.dtype)]


def _read(operator: str, phase: str, verdict: str, calls: int, *specs: Any) -> Any:
    inputs, outputs = (
        tuple(interned(tuple(shape), tuple(stride), getattr(torch, dtype)) for shape, stride, dtype in part)
        for part in specs
    )
    judgement = SimpleNamespace(verdict=verdict)
    return SimpleNamespace(
        operator=operator, phase=phase, judgement=judgement, calls=calls, inputs=inputs, outputs=outputs
    )
