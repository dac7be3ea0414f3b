"""Why the two devices may differ: each reason, and which calls it accounts for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from mpsprobe_coverage.knowledge.calls.keys import has_kernel
from mpsprobe_coverage.recording.routing.device_type import IN_PLACE

COPY = "aten::copy_"
NATIVE = "native"
RAISED = "raised"  # in the place of an operator; the message is in that of the verdict
_WORKSPACE = ("aten::_embedding_bag", "aten::native_batch_norm", "aten::_native_batch_norm_legit")
_BY_VALUES = ("aten::masked_select", "aten::nonzero")  # how much comes out
_FUNCTIONAL = {f"aten::{name}": {f"aten::{in_place}"} for name, in_place in IN_PLACE.items()}
_FUNCTIONAL["aten::bitwise_and.Tensor"].add("aten::bitwise_and_.Tensor")  # `&=` in Python is the other one


class Called(NamedTuple):
    """A distinct call: dtypes and sizes of its tensors are texts. ``operator`` is ``raised`` for an error."""

    operator: str
    verdict: str
    reason: str | None = None
    inputs: str = ""
    outputs: str = ""
    composed_by: str | None = None

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        by = f" in {self.composed_by}" if self.composed_by else ""
        return f"{self.operator} {self.verdict}{why}{by} {self.inputs} -> {self.outputs}"


@dataclass
class Difference:
    """What one phase of a sample calls on one device alone, and the reasons for what is left out."""

    sample: str
    phase: str
    python: Counter[Called]
    native: Counter[Called]
    reasons: set[str] = field(default_factory=set)


# Part of a message of C++ that the device in Python does not raise → why.
_RAISES = {
    "new_compressed_tensor": "compressed sparse tensors cannot be made on MPS, as C++ says where it makes one",
    "out of bounds for storage": "a view has no more memory than its elements once it was moved",
    "the input is not positive-definite": "C++ finds values that the device in Python does not know",
}


class Around(NamedTuple):
    """What else is known of a sample.

    Attributes:
        assumed: the device in Python went on with a value that it does not know.
        refused: a Mac refuses an earlier call, as both say.
        python, native: what was raised there, or nothing.
    """

    assumed: bool = False
    refused: bool = False
    python: str = ""
    native: str = ""


def explained(difference: Difference, around: Around) -> Difference:
    """Without the calls that a reason accounts for."""
    for reason, accounts in _REASONS.items():
        _account(difference, reason, accounts)
    for part, reason in _RAISES.items():
        if part in around.native:
            _account(difference, reason, _forget)
    if around.python and around.native:
        _account(difference, "both raise", lambda one: _drop(one.native, lambda call: not call.outputs))
    if around.refused:
        _account(difference, "a Mac refuses an earlier call, so it never reaches this one", _forget)
    if around.assumed or any(call.operator in _BY_VALUES for call in difference.python):
        _account(difference, "the device in Python assumes a value, and takes the way that it leads to", _forget)
    return difference


def _account(difference: Difference, reason: str, accounts: Callable[[Difference], None]) -> None:
    before = difference.python.total() + difference.native.total()
    accounts(difference)
    if difference.python.total() + difference.native.total() < before:
        difference.reasons.add(reason)


def _forget(difference: Difference) -> None:
    difference.python.clear()
    difference.native.clear()


def _in_place(difference: Difference) -> None:
    def is_form(python: Called, native: Called) -> bool:
        forms = {python.operator, *_FUNCTIONAL.get(python.operator, ())}
        return native.operator in forms and python.verdict == native.verdict and python.outputs == native.outputs

    _cancel(difference, is_form)


def _copied_first(difference: Difference) -> None:
    _drop(difference.python, _is_copy)


def _joined(difference: Difference) -> None:
    joins = {call[:2] for call in difference.python} <= {("aten::cat", NATIVE), ("aten::zero_", NATIVE)}
    if joins and {call[:2] for call in difference.native} <= {("aten::zero_", NATIVE)}:
        _forget(difference)


def _one_side(difference: Difference) -> None:
    def is_transfer(python: Called, native: Called) -> bool:
        return python.operator == native.operator == COPY and python.verdict == native.verdict == NATIVE

    _cancel(difference, is_transfer)


def _around(difference: Difference) -> None:
    _drop(difference.native, _is_copy)


def _is_copy(call: Called) -> bool:
    return call.operator == COPY and call.verdict == NATIVE


def _drop(calls: Counter[Called], which: Callable[[Called], bool]) -> None:
    for call in [call for call in calls if which(call)]:
        del calls[call]


def _raised(difference: Difference) -> None:
    _cancel(difference, lambda python, native: python.operator == native.operator == RAISED)


def _refused(difference: Difference) -> None:
    def is_refused(python: Called, native: Called) -> bool:
        return python.operator == native.operator and python.inputs == native.inputs and not native.outputs

    _cancel(difference, is_refused)


def _workspace(difference: Difference) -> None:
    def is_kept(python: Called, native: Called) -> bool:
        alike = python.operator == native.operator and python.verdict == native.verdict
        return alike and python.operator.startswith(_WORKSPACE)

    _cancel(difference, is_kept)


def _in_python(difference: Difference) -> None:
    if any(has_kernel(call.operator, "MPS") for call in difference.python):
        _drop(difference.python, lambda call: has_kernel(call.operator, "MPS"))
        _drop(difference.native, lambda call: call.verdict == NATIVE)


def _cancel(difference: Difference, same: Callable[[Called, Called], bool]) -> bool:
    found = False
    for python in list(difference.python):
        for native in list(difference.native):
            count = min(difference.python[python], difference.native[native])
            if count and same(python, native):
                found = True
                difference.python[python] -= count
                difference.native[native] -= count
    difference.python, difference.native = +difference.python, +difference.native
    return found


_REASONS: dict[str, Callable[[Difference], None]] = {
    "a copy between the CPU and the device is recorded with one tensor in Python": _one_side,
    "C++ writes in place where a tensor is not a subclass; the verdicts are the same": _in_place,
    "the form for subclasses copies first": _copied_first,
    "C++ copies around a kernel: conjugates, and indices from the CPU": _around,
    "the derivative of householder_product joins columns for subclasses, and else writes them into zeros": _joined,
    "a call that the CPU refuses has no result": _refused,
    "both raise, with other messages": _raised,
    "what a kernel keeps for its derivative has the size that it has on the CPU": _workspace,
    "a kernel that torch itself has in Python is followed": _in_python,
}
