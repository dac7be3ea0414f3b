"""Known wrong results, computed: calls that an advisory with ``computes`` is about come out as on the judged release.

The right result is computed and recorded first, as ever. Then the same operator is run on the CPU over the memory of
the tensors, with what ``computes`` says changed. Nothing here knows an operator; the words are in ``words.py``.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_map

from mpsprobe_coverage.devices.virtual.tensor import with_tensors
from mpsprobe_coverage.knowledge.advisories.conditions import decided, matches
from mpsprobe_coverage.knowledge.advisories.model import Advisory
from mpsprobe_coverage.knowledge.advisories.store import all_advisories
from mpsprobe_coverage.knowledge.advisories.words import is_asked
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.keys import overload_named
from mpsprobe_coverage.knowledge.calls.spec import specs_in, tensors_in
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.recording.capturing import KnownByMemory
from mpsprobe_coverage.recording.phases import phase_now

NOTE = "{calls} of {operator} came out wrong, as on torch {release} (mpsprobe advisories show {name})"


class Wrong:
    """The advisories of a release whose wrong results can be computed; ``computed`` counts the calls that were."""

    def __init__(self, chain: Chain, chip: str | None) -> None:
        self.computed: Counter[tuple[str, str]] = Counter()  # by advisory and operator
        self._release = chain.table.release
        asked = self._release, chain.table.macos_minimum, str(chain.macos) if chain.macos else None, chip
        self._entries: dict[str, list[Advisory]] = {}
        for entry in all_advisories():
            for operator in entry.operators if entry.computes and entry.affects(*asked) else ():
                self._entries.setdefault(operator, []).append(entry)

    def kernels(self, right: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        """Operator → its kernel with wrong results, for those of ``right``, which computes right ones."""
        return {name: self._kernel(name, right[name]) for name in self._entries if name in right}

    def notes(self) -> list[str]:
        return [
            NOTE.format(calls=f"{calls} call{'s' * (calls > 1)}", operator=operator, release=self._release, name=name)
            for (name, operator), calls in self.computed.items()
        ]

    def _kernel(self, name: str, right: Callable[..., Any]) -> Callable[..., Any]:
        func, entries = overload_named(name), self._entries[name]
        asked = tuple(
            dict.fromkeys(condition for entry in entries for condition in entry.conditions if is_asked(condition))
        )
        written = [
            argument.name
            for argument in func._schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
        ]

        def run(*args: Any, **kwargs: Any) -> Any:
            call = Call(func, args, kwargs, specs_in((args, kwargs)), ())
            answers = dict(zip(asked, decided(asked, call, _Knowing()), strict=True))
            into = tensors_in([call.argument(argument) for argument in written])
            before = [_memory(tensor).clone() for tensor in into]
            result = right(*map(_as_declared, args, func._schema.arguments), **kwargs)
            memory = [*map(_memory, into)]
            if [copy.numel() for copy in before] != [tensor.numel() for tensor in memory]:  # an ``out`` was resized
                before = [tensor.clone() for tensor in memory]
            call = replace(call, outputs=specs_in(result))
            for entry in entries:
                if matches(entry, call, phase_now(), answers) and _compute(entry, call, result, memory, before):
                    self.computed[entry.id, name] += 1
                    break
            return result

        return run


def _as_declared(value: Any, argument: Any) -> Any:
    """A number where the schema has a tensor, as one: kernels in Python get it bare, and C++ does not take that."""
    if not isinstance(argument.type, torch.TensorType) or not isinstance(value, (bool, int, float, complex)):
        return value
    kind = torch.get_default_dtype() if isinstance(value, float) else None
    return torch.tensor(value, dtype=kind)


class _Knowing(KnownByMemory):
    def values(self, tensor: torch.Tensor) -> torch.Tensor | None:
        return _on_cpu(tensor) if tensor.layout is torch.strided else None


def _compute(entry: Advisory, call: Call, result: Any, memory: Any, before: Any) -> bool:
    """Put the wrong values in the place of the right ones; whether they could be computed, and are others."""
    assert entry.computes is not None
    word, objects = str(entry.computes[0]), entry.computes[1:]
    after = [tensor.clone() for tensor in memory]
    _put(memory, before)
    if word == KEEPS:
        return _differ(memory, after)
    results = [*map(_on_cpu, tensors_in([result]))]
    right = [result.clone() for result in results]
    arguments = call.func._schema.arguments
    bound = tree_map(
        _leaf, {argument.name: _as_declared(call.argument(argument.name), argument) for argument in arguments}
    )
    try:
        if word in OF_ARGUMENTS:
            made = tensors_in([_run(call.func, OF_ARGUMENTS[word](bound, *objects))])
        else:
            given = with_tensors(torch.clone, bound)
            _put(memory, after)
            made = [OF_RESULTS[word](result, given, *objects) for result in results]
        made = [wrong.reshape(result.shape) for result, wrong in zip(results, made, strict=False)]
    except (RuntimeError, TypeError):  # no kernel of the CPU takes it so
        _put(memory, after)
        return False
    for computed, wrong in zip(results, made, strict=False):
        if word in OF_RESULTS or not memory:  # what was written is wrong by now
            computed.copy_(wrong)
    return _differ(memory, after) or (not memory and _differ(results, right))


def _differ(some: Iterable[torch.Tensor], others: Iterable[torch.Tensor]) -> bool:
    return not all(map(torch.equal, some, others))


def _run(func: Any, bound: dict[str, Any]) -> Any:
    named = {argument.name: bound.pop(argument.name) for argument in func._schema.arguments if argument.kwarg_only}
    return func(*bound.values(), **named)


def _put(memory: Iterable[torch.Tensor], values: Iterable[torch.Tensor]) -> None:
    for tensor, value in zip(memory, values, strict=True):
        tensor.copy_(value)


# -- memory of the device, which is the machine's


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of its storage."""
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return torch.empty(0, dtype=torch.uint8)
    place = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    return torch.frombuffer(place, dtype=torch.uint8)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    memory = _memory(tensor)
    size = tensor.dtype.itemsize
    return memory[: memory.numel() // size * size].view(tensor.dtype)


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the CPU over the same memory."""
    if tensor.device.type == "cpu":
        return tensor.detach()
    return _flat(tensor).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _leaf(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _on_cpu(value)
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return None if isinstance(value, torch.Generator) else value


# -- what the words compute

Bound = dict[str, Any]


def _each(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Bound]:
    """Arguments of these names, and the tensors in lists, changed."""

    def changed(bound: Bound, *names: Any) -> Bound:
        return {**bound, **{name: with_tensors(change, bound[name]) for name in names if name in bound}}

    return changed


def _without_strides(tensor: torch.Tensor) -> torch.Tensor:
    packed = torch.empty(tensor.shape, device="meta").stride()
    flat, first = _flat(tensor), int(tensor.storage_offset())
    if first + tensor.numel() <= flat.numel():
        return flat.as_strided(tensor.shape, packed, first)
    return flat[torch.arange(first, first + tensor.numel()) % flat.numel()].reshape(tensor.shape)  # of an expanded one


def _without_offset(tensor: torch.Tensor) -> torch.Tensor:
    return _flat(tensor).as_strided(tensor.shape, tensor.stride(), 0)


def _takes(bound: Bound, name: Any, value: Any) -> Bound:
    taken = torch.full_like(bound[name], float(value)) if isinstance(bound[name], torch.Tensor) else value
    return {**bound, name: taken}


def _swaps(bound: Bound, tensor: Any, other: Any) -> Bound:
    return {**bound, tensor: bound[other], other: bound[tensor]}


def _reads_nan_as(bound: Bound, value: Any, *names: Any) -> Bound:
    return _each(lambda tensor: tensor.where(~tensor.isnan(), float(value)))(bound, *names)


OF_ARGUMENTS: Mapping[str, Callable[..., Bound]] = {
    "ignores-strides": _each(_without_strides),
    "ignores-offset": _each(_without_offset),
    "transposes": _each(lambda tensor: tensor.mT.contiguous()),
    "rounds": _each(lambda tensor: tensor.float().to(tensor.dtype)),
    "omits": lambda bound, name: {**bound, name: None},
    "takes": _takes,
    "swaps": _swaps,
    "reads-nan-as": _reads_nan_as,
}


def _returns_behind(result: torch.Tensor, given: Bound, dim: Any, first: Any, value: Any) -> torch.Tensor:
    made = result.clone()
    made.narrow(dim, first, max(0, made.shape[dim] - first)).fill_(value)
    return made


def _adds_zero_times(result: torch.Tensor, given: Bound, name: Any) -> torch.Tensor:
    return torch.where(result.isfinite(), result + 0 * given[name], result)


KEEPS = "keeps"
OF_RESULTS: Mapping[str, Callable[..., torch.Tensor]] = {
    "returns": lambda result, given, value: torch.full_like(result, float(value)),
    "returns-behind": _returns_behind,
    "repeats-first": lambda result, given: result[:1].expand_as(result).clone(),
    "reverses": lambda result, given, dim: result.roll(-1, dim).flip(dim),
    "adds-zero-times": _adds_zero_times,
}
