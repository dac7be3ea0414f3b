"""Makes ``kernels/data/lists.refusals``: what each release's list says that MPS refuses and takes.

For each list, the entries of the installed torch's OpInfo database run on the virtual device of its release, judged by
mechanism alone. Releases with the same expectations share a list and run once.

Then ``blame`` finds the operators that are to blame for an entry that PyTorch expects to fail. An entry calls many.
What an entry calls that is expected to pass is taken by MPS, with these dtypes. Of what is left in a failing entry,
the operators that bear its name are blamed; without such, one that is left alone, or whose name is near, and of
several the one that explains most failing entries. Where nothing is left nobody is: sizes, numbers or values are the
cause then, not a dtype or a flag. Where no name is near either, it would be a guess. An operator is looked at for each
signature by itself: dtypes, and the flags of ``judging/signatures.py``. So ``index_put`` with and without
``accumulate`` are separate if some entry passes, or fails, with only one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from typing import Any, Literal

import torch
from packaging.version import Version

from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.devices.virtual.wrapping import NotStrided
from mpsprobe_coverage.knowledge.judging.lists import Learned
from mpsprobe_coverage.knowledge.judging.signatures import dtypes_in, signature, without_flags
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_tables.audit.device import AuditDevice, Seen
from mpsprobe_tables.audit.entries import DTYPES, GRADIENT_DTYPES, entries
from mpsprobe_tables.audit.procedure import draw, on_cpu, undisturbed
from mpsprobe_tables.audit.running import BACKWARD, FORWARD, in_processes, likeness, step_on
from mpsprobe_tables.encoding import encode_lists
from mpsprobe_tables.expectations import (
    TESTED_DTYPES,
    Expectations,
    expectation_releases,
    load_expectations,
)

Status = Literal["passes", "fails", "unclaimed"]
Called = tuple[str, str]
"""Operator and signature."""
NEAR = 0.6
"""Of names, from 0 to 1: ``linalg_inv_ex`` and ``linalg_inv`` are 0.87, ``_index_put_impl_`` and ``index_put`` 0.78."""


@dataclass(frozen=True)
class Observed:
    """One entry with one dtype on the virtual device of a release."""

    entry: str
    names: frozenset[str]  # what an operator of its own may be called (``linalg_lu_factor``)
    dtype: str
    status: Status  # what the release's list expects; ``unclaimed`` where the CPU has the dtype and MPS is not tested
    calls: frozenset[Called]  # what it calls that has a kernel for MPS
    explained: bool  # the mechanism refuses something in it, or the CPU reference raises: its failure says no more
    gradient_calls: frozenset[Called] = frozenset()  # what its gradients call besides, where the test of these passes


@dataclass(frozen=True)
class Blame:
    """Operator and signature → the entry that shows it; and what is taken."""

    refused: dict[Called, str]
    unclaimed: dict[Called, str]
    accepted: frozenset[Called]


def blame(observed: Sequence[Observed]) -> Blame:
    """Who is to blame for what the entries of one release are expected to do."""
    accepted = frozenset(
        call for case in observed if case.status == "passes" for call in case.calls | case.gradient_calls
    )
    failing = [case for case in observed if case.status == "fails" and not case.explained]
    refused = _blamed(failing, accepted)
    known = accepted | refused.keys()
    unclaimed: dict[Called, str] = {}
    for observation in observed:
        if observation.status == "unclaimed" and not observation.explained and not refused.keys() & observation.calls:
            left = _candidates(observation, known)
            # Weaker evidence: no choice between operators.
            for call in sorted(left) if len(left) == 1 or _flags_alone(left) else _own(observation, left):
                unclaimed.setdefault(call, observation.entry)
    return Blame(refused, unclaimed, accepted)


def _blamed(failing: Sequence[Observed], accepted: frozenset[Called]) -> dict[Called, str]:
    refused: dict[Called, str] = {}
    open_cases = []
    for observed in failing:
        own = _own(observed, _candidates(observed, accepted))
        for call in own:
            refused.setdefault(call, observed.entry)
        if not own:
            open_cases.append(observed)
    open_cases = [case for case in open_cases if not refused.keys() & case.calls]
    while True:
        candidates = [_candidates(case, accepted) for case in open_cases]
        counts = Counter(call for them in candidates for call in them)
        alone = {call for them in candidates if len(them) == 1 or _flags_alone(them) for call in them}
        near = {call: _nearness(call, open_cases) for call in counts}
        certain = [call for call in counts if call in alone or near[call] >= NEAR]
        if not certain:
            return refused
        chosen = min(certain, key=lambda call: (-counts[call], -near[call], call))
        cases = [case for case in open_cases if chosen in case.calls]
        entry = min(case.entry for case in cases)
        for call in counts:  # where no case tells flags apart, each may be the cause
            if _flags_alone({call, chosen}) and [case for case in open_cases if call in case.calls] == cases:
                refused[call] = entry
        open_cases = [case for case in open_cases if chosen not in case.calls]


def _candidates(observed: Observed, known: Iterable[Called]) -> frozenset[Called]:
    """Calls with the dtype of the entry that nobody is known to take."""
    with_dtype = {call for call in observed.calls if observed.dtype in dtypes_in(call[1])}
    return frozenset(with_dtype.difference(known))


def _flags_alone(calls: Iterable[Called]) -> bool:
    """Whether they differ in nothing but flags."""
    return len({(operator, without_flags(call)) for operator, call in calls}) == 1


def _own(observed: Observed, calls: Iterable[Called]) -> list[Called]:
    """Those that bear the entry's name."""
    return [call for call in sorted(calls) if _base(call) in observed.names]


def _nearness(call: Called, cases: Iterable[Observed]) -> float:
    """How near the operator's name is to that of an entry that calls it, from 0 to 1."""
    names = (name for case in cases if call in case.calls for name in case.names)
    return max((SequenceMatcher(None, _base(call), name).ratio() for name in names), default=0.0)


def _base(call: Called) -> str:
    """``aten::_linalg_det.result`` → ``linalg_det``."""
    return call[0].partition("::")[2].partition(".")[0].strip("_")


REFUSING_LISTS = frozenset({"UNIMPLEMENTED_XFAILLIST", "SUPPORTED_COMPLEX_OPS", "UNSUPPORTED_COMPLEX_OPS"})
"""Lists of what MPS does not do. The others are about wrong or undefined numbers and old versions of macOS;
``ON_MPS_XFAILLIST`` is about operators further down, which have no kernel, and about single arguments (a negative
number as ``uint8``)."""
NO_TENSOR = frozenset({"float64", "complex128"})
UPCAST_SINCE = Version("2.11.0")
HALF = frozenset({"float16", "bfloat16"})
MOST_PASSING = 32  # samples of an entry that passes, all different in dtypes, ranks and arguments
SHADOW_LIMIT = 2**12


def learn(progress: SilentProgress, jobs: int = 1, dtypes: Sequence[str] = DTYPES) -> bytes:
    """The data file, from the expectations and the kernel tables that are shipped.

    Args:
        jobs: processes; each takes one dtype after the other, and about 1 GB.
    """
    groups = shared_lists()
    observed: dict[str, dict[tuple[str, ...], list[Observed]]] = {}
    progress.start(len(dtypes), "entries on the virtual devices of each list")
    for dtype, observations in zip(dtypes, in_processes(partial(observe, groups=groups), dtypes, jobs), strict=True):
        observed[dtype] = observations
        progress.advance(dtype)
    progress.stop()
    known = [
        _learned(group, [observation for dtype in dtypes for observation in observed[dtype][group]]) for group in groups
    ]
    release = torch.__version__.partition("+")[0]
    sources = {release: load_expectations(release).sha256 for release in expectation_releases()}
    return encode_lists(known, {"torch": release, "dtypes": list(dtypes), "wheels": sources})


def shared_lists() -> tuple[tuple[str, ...], ...]:
    """Releases with expectations, those together that expect the same."""
    groups: list[list[str]] = []
    for release in expectation_releases():
        if groups and _same(load_expectations(groups[-1][-1]), load_expectations(release)):
            groups[-1].append(release)
        else:
            groups.append([release])
    return tuple(map(tuple, groups))


def observe(dtype: str, groups: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], list[Observed]]:
    """Every entry with ``dtype``, as each list expects it."""
    by_group: dict[tuple[str, ...], list[Observed]] = {group: [] for group in groups}
    torch.set_num_threads(1)
    with undisturbed():
        drawn = dict(_drawn(dtype))
        outcomes: dict[Any, Any] = {}
        for group in groups:
            expected = load_expectations(group[-1])
            table = load_table(group[-1])
            with AuditDevice(table, shadow_limit=SHADOW_LIMIT, outcomes=outcomes, note_flags=True) as device:
                for key, sample in drawn.items():
                    status = status_of(expected, key, sample.entry, dtype)
                    if status is not None:
                        tested = (
                            dtype in GRADIENT_DTYPES and expected.expected(key, dtype, gradient=True).kind == "pass"
                        )
                        by_group[group].append(_observed(device, sample, key, dtype, status, group[-1], tested))
    return by_group


def status_of(expected: Expectations, key: str, entry: Any, dtype: str) -> Status | None:
    """What the list says about the pair; ``None`` where it says nothing about what MPS takes."""
    on_cpu = [str(dtype).removeprefix("torch.") for dtype in entry.dtypes]
    expectation = expected.expected(key, dtype)
    if not expected.has(key) or dtype not in TESTED_DTYPES or expectation.kind == "skip":
        return None
    if not expected.tests(key, dtype, on_cpu):
        return "unclaimed" if dtype in on_cpu else None
    if expectation.kind == "pass":
        return "passes"
    # What fails with every dtype fails for another reason than the dtype: a size, an argument, no kernel at all.
    whatever = key in expected.everywhere()
    return "fails" if REFUSING_LISTS.issuperset(expectation.lists) and not whatever else None


@dataclass
class _Drawn:
    """An entry with its samples; ``references`` are worked out where they are asked for."""

    entry: Any
    samples: list[Any]
    distinct: list[Any]
    names: frozenset[str]
    references: list[Any] | None = None


def _drawn(dtype: str) -> Iterator[tuple[str, _Drawn]]:
    for key, entry in entries().items():
        kind = getattr(torch, dtype)
        if kind not in entry.dtypes and kind not in entry.supported_dtypes("mps"):
            continue
        try:
            samples = draw(entry, dtype)
        except Exception:  # noqa: BLE001 - what cannot be drawn says nothing
            continue
        first: dict[Any, Any] = {}
        for sample in samples:
            first.setdefault(likeness((sample.input, sample.args, sample.kwargs), _of_tensor), sample)
        yield key, _Drawn(entry, samples, _by_flags(first.values()), _names(entry))


def _by_flags(samples: Iterable[Any]) -> list[Any]:
    """The samples, those first that have truth values and names that none before them has."""
    seen: set[Any] = set()
    parts: tuple[list[Any], list[Any]] = ([], [])
    for sample in samples:
        flags = _flags((sample.args, sample.kwargs))
        parts[flags in seen].append(sample)
        seen.add(flags)
    return [*parts[False], *parts[True]]


def _flags(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _flags(inner)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_flags, value))
    return value if isinstance(value, (bool, str)) else None


def _observed(
    device: AuditDevice, one: _Drawn, key: str, dtype: str, status: Status, release: str, gradient: bool
) -> Observed:
    failed = False
    # Any sample may be the one that fails; those that pass call much the same.
    for drawn in one.distinct[: MOST_PASSING if status == "passes" else None]:
        try:
            sample = device.sample(drawn)
        except NotStrided:
            failed = True
        else:  # what is called until it raises is called
            failed |= step_on(device, one.entry, sample, status == "passes" and gradient) is not None
    seen = device.short.take()
    calls = {phase: _calls(call for call in seen if call.phase == phase) for phase in (FORWARD, BACKWARD)}
    refuses = any(call.refuses for call in seen if call.phase == FORWARD)
    made = Observed(key, one.names, dtype, status, calls[FORWARD], failed or refuses, calls[BACKWARD])
    if status == "fails" and not made.explained:
        made = replace(made, explained=_raises(one, dtype, release))
    return made


def _calls(seen: Iterable[Seen]) -> frozenset[Called]:
    """Those that reach a kernel of the device."""
    return frozenset(
        (call.operator, signature(call.inputs, call.outputs, call.flags))
        for call in seen
        if (call.verdict == "native" or (call.verdict == "unsupported" and call.source not in (None, "registration")))
        and NO_TENSOR.isdisjoint((*call.inputs, *call.outputs))
    )


def _raises(sample: _Drawn, dtype: str, release: str) -> bool:
    """Whether the CPU reference fails: then the entry fails whatever MPS does."""
    if sample.references is None:
        sample.references = on_cpu(sample.entry, dtype, sample.samples, gradient=False)
    upcast = dtype in HALF and Version(release) >= UPCAST_SINCE
    return any(reference.forward is not None and not (upcast and reference.upcast) for reference in sample.references)


def _learned(group: tuple[str, ...], observed: Sequence[Observed]) -> Learned:
    blamed = blame(observed)
    parts: list[dict[str, dict[str, str]]] = []
    for part in (blamed.refused, blamed.unclaimed):
        by_operator: dict[str, dict[str, str]] = {}
        for (operator, call), entry in part.items():
            by_operator.setdefault(operator, {})[call] = entry
        parts.append(by_operator)
    accepted: dict[str, set[str]] = {}
    for operator, call in blamed.accepted:
        accepted.setdefault(operator, set()).add(call)
    return Learned(group, parts[0], parts[1], {operator: frozenset(them) for operator, them in accepted.items()})


def _same(one: Expectations, other: Expectations) -> bool:
    return replace(one, release="", wheel="", sha256="") == replace(other, release="", wheel="", sha256="")


def _names(entry: Any) -> frozenset[str]:
    """What the operators of an entry may be called: its names with dots as underscores, and without a name space."""
    given = {entry.name, entry.aten_name, *(alias.name for alias in entry.aliases)}
    return frozenset(
        spelt.strip("_") for name in given if name for spelt in (name.replace(".", "_"), name.rpartition(".")[2])
    ) - {""}


def _of_tensor(value: torch.Tensor) -> Any:
    """What tensors share with which the same operators are called with the same dtypes: sizes do not count."""
    contiguous = value.layout is torch.strided and value.is_contiguous()
    return value.dtype, value.dim(), value.numel() == 0, value.layout, contiguous, value.is_conj()
