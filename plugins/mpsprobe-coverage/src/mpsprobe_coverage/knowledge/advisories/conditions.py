"""Whether a call is one that an entry is about.

Conditions are evaluated over the operator's arguments by their names in its schema, over shapes, strides and dtypes of
its tensors, and over the phase. What those do not decide (offsets, shared memory, values, who calls) is asked when the
call is made, before it writes into anything: ``decided``. Nothing here knows an operator.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, Protocol

import torch

from mpsprobe_coverage.knowledge.advisories.model import Advisory
from mpsprobe_coverage.knowledge.advisories.words import (
    A_VIEW,
    COMPARISONS,
    CONJUGATED,
    CONTAINS,
    LISTS,
    PHASES,
    SHARING,
    Condition,
    Subject,
    is_asked,
    subject,
)
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import (
    TensorSpec,
    dtype_name,
    is_contiguous,
    is_packed_along,
    spec_of,
    tensors_in,
)

Answer = bool | None
"""None: it is about values that are not known."""
Answers = Mapping[Condition, Answer]


class Place(NamedTuple):
    """Where the elements of a tensor are."""

    storage: Any  # equal for tensors of one storage
    offset: int  # in elements
    nbytes: int  # of the storage


class Knowing(Protocol):
    """What a device knows while a call is made."""

    def place(self, tensor: torch.Tensor) -> Place: ...
    def values(self, tensor: torch.Tensor) -> torch.Tensor | None: ...  # None where they are not known
    def is_captured(self) -> bool: ...  # whether ``torch.compile`` or an export makes the call


class _Absent(LookupError):
    """The call has no such argument, tensor or dimension: no condition about it holds."""


def matches(advisory: Advisory, call: Call, phase: str, answers: Answers | None = None) -> Answer:
    """Whether all of ``when`` and, where there are some, one of ``when_any`` hold for ``call``.

    Values that are not known are taken not to be as an entry about unusual ones says.
    ``answers``: what ``decided`` answers to the conditions that ``is_asked`` names.
    """

    def all_of(group: Sequence[Condition]) -> Answer:
        known = True
        for condition in group:
            asked = is_asked(condition)
            holds = (answers or {})[condition] if asked else _holds(condition, call, phase, None)
            if holds is False:
                return False
            known = known and holds is not None
        return known or None

    found = all_of(advisory.when)
    if found is not False and advisory.when_any:
        some = _one_of([all_of(group) for group in advisory.when_any])
        found = some if some is False else found and some
    return False if found is None and advisory.unusual else found


def decided(conditions: Sequence[Condition], call: Call, knowing: Knowing) -> tuple[Answer, ...]:
    """What ``matches`` cannot find out later of ``call``, which has no outputs yet."""
    return tuple(_holds(condition, call, "", knowing) for condition in conditions)


def _one_of(answers: Sequence[Answer]) -> Answer:
    return True if True in answers else None if None in answers else False


def _holds(condition: Condition, call: Call, phase: str, knowing: Knowing | None) -> Answer:
    text, relation, wanted = condition
    if text == "caller":
        assert knowing is not None and isinstance(wanted, tuple)
        return bool(_callers(call, knowing).intersection(wanted)) == (relation == "in")
    between = relation in (*COMPARISONS, *SHARING, CONTAINS) and isinstance(wanted, str)
    try:
        left = [*_resolve(subject(text), call, phase, knowing)]
        right = [*_resolve(subject(str(wanted)), call, phase, knowing)] if between else [wanted]
    except _Absent:
        return False
    return _one_of([_related(argument, relation, other, knowing) for argument, other in product(left, right)])


def _related(value: Any, relation: str, wanted: Any, knowing: Knowing | None) -> Answer:
    if value is _UNKNOWN or wanted is _UNKNOWN:
        return None
    if relation in COMPARISONS:
        comparable = _are(value, wanted, str) or _are(value, wanted, (int, float))
        return comparable and COMPARISONS[relation](value, wanted)
    if relation in LISTS:
        return (value in wanted) == (relation == "in")
    if relation in SHARING:
        return _share(value, wanted, knowing) == (relation == SHARING[0])
    if relation == CONTAINS:
        return isinstance(wanted, (int, float)) and _of_values(value, lambda values: (values == wanted).any(), knowing)
    holds = _is(value, wanted, knowing)
    return holds if holds is None else holds == (relation == "is")


def _are(answer: Any, other: Any, kind: Any) -> bool:
    return isinstance(answer, kind) and isinstance(other, kind)


def _is(value: Any, wanted: Any, knowing: Knowing | None) -> Answer:
    if wanted == "given":
        return value is not None
    if not isinstance(wanted, str):
        return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)
    if wanted in _LAYOUTS:
        return isinstance(value, (torch.Tensor, TensorSpec)) and _LAYOUTS[wanted](_spec(value))
    if not isinstance(value, torch.Tensor):
        return False
    if wanted == CONJUGATED:
        return value.is_conj()
    if wanted == A_VIEW:
        assert knowing is not None
        return (place := _place(value, knowing)) is not None and (place.offset > 0 or place.nbytes > _spec(value).held)
    return _of_values(value, _CONTENTS[wanted], knowing)


def _of_values(value: Any, holds: Callable[[torch.Tensor], Any], knowing: Knowing | None) -> Answer:
    if not isinstance(value, torch.Tensor):
        return False
    assert knowing is not None
    values = knowing.values(value)
    return None if values is None else bool(holds(values.detach()))


# -- what a subject stands for

_UNKNOWN = object()  # a value that the device does not know


def _resolve(asked: Subject, call: Call, phase: str, knowing: Knowing | None) -> Iterator[Any]:
    """Numbers, truth values, texts, None, tensors or specs; one but for ``[*]``."""
    if asked.name == "phase":
        yield phase if phase in PHASES else "forward"  # prefill, decode and sampling are forward passes
        return
    value = _named(asked.name, call)
    if asked.item is None:
        yield _fact(asked, value, knowing)
    elif isinstance(value, (list, tuple)) and asked.item == "*":
        for entry in value:
            try:
                yield _fact(asked, entry, knowing)
            except _Absent:
                continue
    elif isinstance(value, (list, tuple)) and int(asked.item) < len(value):
        yield _fact(asked, value[int(asked.item)], knowing)  # tensors[0].dtype, stride[0], output_mask[2]
    elif asked.item != "*" and asked.is_whole:
        yield _fact(asked._replace(dim=asked.item), value, knowing)  # self[0]
    else:
        raise _Absent(asked)


def _fact(asked: Subject, value: Any, knowing: Knowing | None) -> Any:
    if asked.is_whole:
        return value
    if isinstance(value, (list, tuple)):
        if asked.fact == "length":
            return len(value)
        if asked.dim is not None and int(asked.dim) < len(value):
            return value[int(asked.dim)]
        raise _Absent(asked)
    if not isinstance(value, (torch.Tensor, TensorSpec)):
        raise _Absent(asked)
    spec = _spec(value)
    try:
        if asked.dim is not None:
            return spec.shape[int(asked.dim)]
        if asked.along is not None:
            return spec.stride[int(asked.along)]
    except IndexError:
        raise _Absent(asked) from None
    if asked.fact in _OF_SPECS:
        return _OF_SPECS[asked.fact](spec)
    if not isinstance(value, torch.Tensor):
        raise _Absent(asked)
    if asked.fact == "device":
        return value.device.type
    assert knowing is not None
    if asked.fact == "offset":
        place = _place(value, knowing)
        return 0 if place is None else place.offset
    values = knowing.values(value)
    if values is None:
        return _UNKNOWN
    if not values.numel():
        raise _Absent(asked)
    numbers = values.detach().abs() if values.is_complex() else values.detach()
    if asked.fact == "range":
        return numbers.max().item() - numbers.min().item()
    return getattr(numbers, str(asked.fact))().item()


_OF_SPECS: Mapping[str | None, Callable[[TensorSpec], Any]] = {
    "dtype": lambda spec: dtype_name(spec.dtype),
    "dims": lambda spec: len(spec.shape),
    "elements": lambda spec: spec.numel,
    "rows": lambda spec: spec.numel // max(spec.shape[-1], 1) if spec.shape else 1,
    "plane": lambda spec: math.prod(spec.shape[-2:]),
    "bytes": lambda spec: spec.nbytes,
}


def _named(name: str, call: Call) -> Any:
    for prefix, tensors in (("tensor", tensors_in((call.args, call.kwargs))), ("output", call.outputs)):
        if name.removeprefix(prefix).isdecimal() and name.startswith(prefix):
            position = int(name.removeprefix(prefix))
            if position < len(tensors):
                return tensors[position]
            raise _Absent(name)
    try:
        return call.argument(name)
    except KeyError:
        raise _Absent(name) from None


def _spec(value: torch.Tensor | TensorSpec) -> TensorSpec:
    return value if isinstance(value, TensorSpec) else spec_of(value)


# -- what is asked when the call is made


def _callers(call: Call, knowing: Knowing) -> set[str]:
    thread = threading.current_thread()
    of_autograd = isinstance(thread, threading._DummyThread) and torch._C._current_autograd_node() is not None
    wants_gradient = any(tensor.requires_grad for tensor in tensors_in((call.args, call.kwargs)))
    states = {
        "another thread": thread is not threading.main_thread() and not of_autograd,
        "captured": knowing.is_captured(),
        "grad": wants_gradient and torch.is_grad_enabled(),
    }
    return {word for word, holds in states.items() if holds}


def _place(tensor: torch.Tensor, knowing: Knowing) -> Place | None:
    return knowing.place(tensor) if tensor.layout is torch.strided else None


def _share(one: Any, other: Any, knowing: Knowing | None) -> bool:
    """Whether they are of one storage, and the stretches from their first element to their last one overlap."""
    assert knowing is not None
    stretches = []
    for tensor in (one, other):
        place = _place(tensor, knowing) if isinstance(tensor, torch.Tensor) else None
        if place is None:
            return False
        spec = spec_of(tensor)
        start = place.offset * spec.dtype.itemsize
        stretches.append((place.storage, start, start + spec.held))
    (storage, start, end), (other_storage, other_start, other_end) = stretches
    return bool(storage == other_storage) and start < other_end and other_start < end


def _has_masked_row(values: torch.Tensor) -> bool:
    masked = ~values if values.dtype is torch.bool else values == -math.inf
    return values.dim() > 0 and bool(masked.all(-1).any())


_CONTENTS: Mapping[str, Callable[[torch.Tensor], Any]] = {
    "with nan": lambda values: values.isnan().any(),
    "with inf": lambda values: values.isinf().any(),
    "with a masked row": _has_masked_row,
}


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


def is_transposed(spec: TensorSpec) -> bool:
    """Packed but for the last two dimensions, which are swapped."""
    dims = len(spec.shape)
    return (
        dims > 1 and not is_contiguous(spec) and is_packed_along(spec, [dims - 2, dims - 1, *range(dims - 3, -1, -1)])
    )


def _gaps(spec: TensorSpec) -> tuple[bool, bool]:
    """Whether a dimension steps over elements that are not the tensor's, and whether one steps into its own."""
    holes = overlaps = False
    reach = 1  # elements from the first to the last one, along the dimensions so far
    for stride, size in sorted(zip(spec.stride, spec.shape, strict=True)):
        if size > 1:
            holes, overlaps = holes or stride > reach, overlaps or stride < reach
            reach += (size - 1) * stride
    return (holes, overlaps) if spec.numel else (False, False)


def is_strided(spec: TensorSpec) -> bool:
    """Whether there are holes between its elements, as in some of the columns of a matrix."""
    return _gaps(spec)[0]


def is_overlapping(spec: TensorSpec) -> bool:
    """Whether two indices are one place of memory: expanded, or windows as ``Tensor.unfold`` makes them."""
    return _gaps(spec)[1]


_LAYOUTS: Mapping[str, Callable[[TensorSpec], bool]] = {
    "contiguous": is_contiguous,
    "channels last": is_channels_last,
    "channels last slice": is_channels_last_slice,
    "packed": is_packed,
    "transposed": is_transposed,
    "strided": is_strided,
    "expanded": is_expanded,
    "overlapping": is_overlapping,
}
