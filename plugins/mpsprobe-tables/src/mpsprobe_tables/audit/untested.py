"""Samples that OpInfo lacks: ranks 5 and 6, and dtypes that the CPU refuses. No test of PyTorch runs them on a Mac.

So there is nothing to score by. What is shown is how each verdict is known: refused, by which source; native where
tests or the library's Metal kernels have the dtypes; native by a registration alone.

They are made of the entries' own samples in float32. For a rank the input, and each tensor of its shape, gets leading
dimensions; a sample counts if the CPU takes it. For a dtype each tensor of float32 is cast; it counts if the CPU takes
the sample as it was, and refuses it then.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from mpsprobe.assembling import REGISTERED_ONLY
from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.judging.proof import with_proof
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_tables.audit.device import SHADOW_LIMIT, AuditDevice, Seen
from mpsprobe_tables.audit.entries import entry_named
from mpsprobe_tables.audit.procedure import DrawnOnCpu, draw, forward, is_for_mps, undisturbed
from mpsprobe_tables.audit.running import in_processes

RANKS = (5, 6)
DTYPES = (
    "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "uint16", "uint32", "uint64", "complex32", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
MOST_TRIED = 6  # samples of an entry, until one fits
WHAT = "samples of other ranks and dtypes"
PIECES = 8
NATIVE, RAISED, MISSING = "native", "raised", "missing"


@dataclass(frozen=True, slots=True)
class Untested:
    """One release."""

    release: str
    # Kind of sample (``rank 5``, ``uint16``) → what becomes of the entries → how many: ``native``, ``registered only``,
    # ``missing``, ``raised``, or the source of a refusal.
    counts: dict[str, Counter[str]]


def audit_untested(
    releases: Sequence[str], keys: Sequence[str], jobs: int, progress: SilentProgress
) -> tuple[Untested, ...]:
    """Each of ``keys`` once for each kind, on each of ``releases``, in ``jobs`` processes."""
    pieces = [keys[first::PIECES] for first in range(PIECES) if keys[first::PIECES]]
    progress.start(len(pieces), WHAT)
    merged: dict[tuple[str, str], Counter[str]] = {}
    for counts in in_processes(partial(count_piece, releases), pieces, jobs):
        for which, count in counts.items():
            merged.setdefault(which, Counter()).update(count)
        progress.advance(WHAT)
    return tuple(
        Untested(release, {kind: merged[release, kind] for kind in kinds() if (release, kind) in merged})
        for release in releases
    )


def kinds() -> list[str]:
    """In the order in which they are shown."""
    return [*(f"rank {rank}" for rank in RANKS), *DTYPES]


def count_piece(releases: Sequence[str], keys: Iterable[str]) -> dict[tuple[str, str], Counter[str]]:
    """Release and kind → what becomes of the entries, in this process."""
    torch.set_num_threads(1)
    counts: dict[tuple[str, str], Counter[str]] = {}
    outcomes: dict[Any, Any] = {}
    with undisturbed():
        fitting = [(key, kind, sample) for key in keys for kind, sample in _fitting(key)]
        for release in releases:
            table = load_table(release)
            with AuditDevice(table, lists="own", shadow_limit=SHADOW_LIMIT, outcomes=outcomes) as device:
                for key, kind, sample in fitting:
                    counts.setdefault((release, kind), Counter())[_outcome(device, table, key, sample)] += 1
    return counts


def _fitting(key: str) -> Iterator[tuple[str, Any]]:
    """The first sample of each kind that fits."""
    entry = entry_named(key)
    try:
        drawn = [sample for sample in itertools.islice(draw(entry, "float32"), MOST_TRIED) if _runs(entry, sample)]
    except Exception:  # noqa: BLE001 - what cannot be drawn in float32 says nothing
        return
    for rank in RANKS:
        ranked = (
            sample.transform(_to_rank(rank, sample.input.shape)) for sample in drawn if _has_rank(sample.input, rank)
        )
        runnable = next((sample for sample in ranked if _runs(entry, sample)), None)
        if runnable is not None:
            yield f"rank {rank}", runnable
    for name in DTYPES:
        dtype = getattr(torch, name)
        if dtype not in entry.dtypes and drawn:
            cast = drawn[0].transform(_to_dtype(dtype))
            if not _runs(entry, cast):
                yield name, cast


def _has_rank(value: Any, less_than: int) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and 0 < value.dim() < less_than


def _to_rank(rank: int, shape: torch.Size) -> Callable[[Any], Any]:
    def change(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.shape != shape:
            return value
        return _for_mps(value.detach().expand(*([2] * (rank - value.dim())), *shape).clone())

    return change


def _to_dtype(dtype: torch.dtype) -> Callable[[Any], Any]:
    def change(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype is not torch.float32:
            return value
        return _for_mps(value.detach().to(dtype))

    return change


def _for_mps(value: torch.Tensor) -> torch.Tensor:
    value._is_for_mps = True  # type: ignore[attr-defined]
    assert is_for_mps(value)
    return value


def _runs(entry: Any, sample: Any) -> bool:
    """Whether the CPU takes the sample."""
    try:
        with DrawnOnCpu():
            forward(entry, sample.transform(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v))
    except Exception:  # noqa: BLE001 - whatever an operator raises is the answer
        return False
    return True


def _outcome(device: AuditDevice, table: KernelTable, key: str, sample: Any) -> str:
    raised = False
    try:
        with device.recording("forward"):
            forward(entry_named(key), device.sample(sample))
    except Exception:  # noqa: BLE001 - as the CPU does, or what the device cannot follow
        raised = True
    seen = device.short.take()
    refusing = next((trial for trial in seen if trial.refuses), None)
    if refusing is not None:
        return MISSING if refusing.verdict == MISSING else refusing.source or MISSING
    if any(_alone(trial, table) for trial in seen):
        return REGISTERED_ONLY
    return RAISED if raised else NATIVE


def _alone(trial: Seen, table: KernelTable) -> bool:
    """Whether the verdict of the call rests on a registration alone."""
    judgement = Judgement(trial.verdict, trial.reason, trial.source)  # type: ignore[arg-type]
    dtypes = frozenset(getattr(torch, name) for name in (*trial.inputs, *trial.outputs))
    return with_proof(trial.operator, judgement, dtypes, table).evidence == REGISTERED_ONLY
