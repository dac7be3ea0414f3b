"""Whether a call is one that an advisory is about.

The conditions of an advisory are evaluated over the operator's arguments by their names in its schema, over the shapes,
strides and dtypes of its tensors, and over the phase. Nothing here knows an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from mpsprobe_coverage.knowledge.advisories.model import COMPARISONS, PHASES, SUBJECT, Advisory, Condition, Word
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import TensorSpec, dtype_name, is_contiguous, is_packed_along, spec_of


class _Absent(LookupError):
    """The call has no such argument, tensor or dimension: no condition about it holds."""


def matches(advisory: Advisory, call: Call, phase: str) -> bool:
    """Whether all of ``when`` and, where there are some, one of ``when_any`` hold for ``call``."""
    if not all(_holds(condition, call, phase) for condition in advisory.when):
        return False
    if not advisory.when_any:
        return True
    return any(all(_holds(condition, call, phase) for condition in group) for group in advisory.when_any)


def _holds(condition: Condition, call: Call, phase: str) -> bool:
    subject, relation, wanted = condition
    try:
        value = _resolve(subject, call, phase)
        if relation in COMPARISONS:
            other = _resolve(wanted, call, phase) if isinstance(wanted, str) else wanted
            return _is_number(value) and _is_number(other) and COMPARISONS[relation](value, other)
    except _Absent:
        return False
    if isinstance(wanted, list):
        return (value in wanted) == (relation == "in")
    return _is(value, wanted) == (relation == "is")


def _is(value: Any, wanted: Word | list[Word]) -> bool:
    if wanted == "given":
        return value is not None
    if isinstance(wanted, str):
        return isinstance(value, TensorSpec) and _LAYOUTS[wanted](value)
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _resolve(subject: str, call: Call, phase: str) -> Any:
    """A number, a truth value, text, None or a TensorSpec."""
    parts = SUBJECT.fullmatch(subject)
    assert parts is not None, subject
    if subject == "phase":
        return phase if phase in PHASES else "forward"  # prefill, decode and sampling are forward passes
    value = _named(parts["name"], call)
    if parts["dim"] is None and parts["fact"] is None:
        return value
    if isinstance(value, (list, tuple)) and parts["dim"] is not None and int(parts["dim"]) < len(value):
        return value[int(parts["dim"])]  # stride[0], output_mask[2]
    if not isinstance(value, TensorSpec):
        raise _Absent(subject)
    if parts["fact"] == "dtype":
        return dtype_name(value.dtype)
    if parts["fact"] == "elements":
        return value.numel
    if parts["fact"] == "dims":
        return len(value.shape)
    if parts["fact"] == "rows":
        return value.numel // max(value.shape[-1], 1) if value.shape else 1
    try:
        return value.shape[int(parts["dim"])]
    except IndexError:
        raise _Absent(subject) from None


def _named(name: str, call: Call) -> Any:
    for prefix, specs in (("tensor", call.inputs), ("output", call.outputs)):
        if name.removeprefix(prefix).isdecimal() and name.startswith(prefix):
            position = int(name.removeprefix(prefix))
            if position < len(specs):
                return specs[position]
            raise _Absent(name)
    try:
        value = call.argument(name)
    except KeyError:
        raise _Absent(name) from None
    return spec_of(value) if isinstance(value, torch.Tensor) else value


# -- layouts -------------------------------------------------------------------------------------


def is_channels_last(spec: TensorSpec) -> bool:
    """Of four or five dimensions, packed with the channels, dimension 1, innermost."""
    dims = len(spec.shape)
    return dims in (4, 5) and is_packed_along(spec, [1, *range(dims - 1, 1, -1), 0])


def is_packed(spec: TensorSpec) -> bool:
    """Whether the elements fill their memory without holes and overlaps, in any order of the dimensions."""
    return is_packed_along(spec, sorted(range(len(spec.shape)), key=lambda dim: (spec.stride[dim], spec.shape[dim])))


def is_expanded(spec: TensorSpec) -> bool:
    """Whether some elements are the same memory, as ``Tensor.expand`` makes them."""
    return any(stride == 0 and size > 1 for size, stride in zip(spec.shape, spec.stride, strict=True))


def is_channels_last_slice(spec: TensorSpec) -> bool:
    """Strides in the order of channels last, with holes between the pixels: some of the channels of such a tensor."""
    dims = len(spec.shape)
    if dims not in (4, 5) or is_channels_last(spec) or is_contiguous(spec):
        return False
    order = [1, *range(dims - 1, 1, -1), 0]
    strides = [spec.stride[dim] for dim in order]
    return strides[0] == 1 and strides == sorted(strides) and strides[1] > spec.shape[1]


_LAYOUTS: Mapping[str, Callable[[TensorSpec], bool]] = {
    "contiguous": is_contiguous,
    "channels last": is_channels_last,
    "packed": is_packed,
    "expanded": is_expanded,
    "channels last slice": is_channels_last_slice,
}
