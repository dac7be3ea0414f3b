"""What PyTorch's ``TestConsistency`` does with one sample: the entry, then its gradients. The same on every device.

Samplers look at the device that they are given: for MPS they avoid float64, for example. So they get ``mps:0``,
and a function mode makes each tensor on the CPU instead. The same samples run on the plain CPU, which the tests compare
with: where that raises, they cannot pass. From torch 2.11 on (pull request 172591) a reference is computed in float32
where the CPU has no kernel for 16 bits or truth values.
"""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from mpsprobe.suggestions import first_line
from mpsprobe_tables.audit.entries import dtype_named


@contextmanager
def undisturbed() -> Iterator[None]:
    """Random numbers of the process stay as they were, and warnings of operators are not shown.

    Two habits of torch's test modules are switched off, which take a third of the time of an audit: looking through the
    stack for a running unit test, and noting the stack at each seed for a GPU that may be initialised later.
    """
    from torch.testing._internal import common_utils
    from torch.testing._internal.opinfo import core

    with ExitStack() as exits:
        exits.callback(random.setstate, random.getstate())
        if common_utils.TEST_NUMPY:
            import numpy

            exits.callback(numpy.random.set_state, numpy.random.get_state())
        exits.enter_context(torch.random.fork_rng(devices=()))
        exits.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        exits.enter_context(patch.object(torch, "manual_seed", _seed))
        for module in (common_utils, core):
            if hasattr(module, "extract_test_fn"):
                exits.enter_context(patch.object(module, "extract_test_fn", _no_test))
        yield


@contextmanager
def other_seeds(shift: int) -> Iterator[None]:
    """Whatever is seeded here gets another seed than it asks for; entries set seeds themselves."""
    with torch.random.fork_rng(devices=()), patch.object(torch, "manual_seed", functools.partial(_seed, shift=shift)):
        _seed(0, shift)
        yield


def _seed(seed: Any, shift: int = 0) -> torch.Generator:
    """The generator of the CPU alone."""
    return torch.default_generator.manual_seed(int(seed) + shift)


def _no_test() -> None:
    """No unit test is running here."""


LONGEST_MESSAGE = 200  # characters of an error that are kept


def forward(entry: Any, sample: Any) -> Any:
    """The entry's result for the sample."""
    return entry(sample.input, *sample.args, **sample.kwargs)


def backward(
    entry: Any, sample: Any, output: Any, weigh: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[], tuple[torch.Tensor | None, ...]] | None:
    """A function that computes the gradients of ``output``; None where the test compares none.

    Raises TypeError: the result is neither a tensor nor a collection, so that the test itself raises.

    Args:
        weigh: from an output to what its gradient is weighed with.
    """
    if entry.name == "unique" and sample.kwargs.get("sorted") is False:
        return None  # the order of its results is open, and the test goes on with the next sample
    outputs = (output,) if isinstance(output, torch.Tensor) else tuple(output)
    wanted = tuple(output for output in outputs if _has_gradient(output))
    if not wanted:
        return None
    inputs = tuple(leaf for leaf in tree_leaves((sample.input, sample.args, sample.kwargs)) if _has_gradient(leaf))
    weights = tuple(weigh(name) for name in wanted)
    return lambda: torch.autograd.grad(wanted, inputs, grad_outputs=weights, allow_unused=True)


def message(error: BaseException) -> str:
    """The first line of an error, with its type."""
    return f"{type(error).__name__}: {first_line(error)}"[:LONGEST_MESSAGE]


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


DEVICE = "mps:0"


class DrawnOnCpu(TorchFunctionMode):
    """While it is on, what asks for a tensor on MPS gets one on the CPU, which ``is_for_mps`` knows again.

    What is made of such tensors would be on MPS as well; what names no device, or the CPU, would not.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        device = kwargs.get("device")
        if name == "to" and device is None:
            device = next((argument for argument in args[1:] if isinstance(argument, str | torch.device)), None)
        elif name == "cpu":
            device = "cpu"
        if device is None:
            made = func(*args, **kwargs)
            for_mps = any(is_for_mps(one) for one in _leaves((args, kwargs)))
        else:
            for_mps = _is_mps(device)
            if for_mps:
                kwargs = {**kwargs, "device": "cpu"} if "device" in kwargs else kwargs
                args = tuple("cpu" if _is_mps(argument) else argument for argument in args)
            made = func(*args, **kwargs)
        if for_mps:
            for leaf in _leaves(made):
                if isinstance(leaf, torch.Tensor):
                    leaf._is_for_mps = True  # type: ignore[attr-defined]
        return made


def is_for_mps(value: Any) -> bool:
    """Whether ``value`` is a tensor that was asked for on MPS."""
    return isinstance(value, torch.Tensor) and getattr(value, "_is_for_mps", False)


def _is_mps(value: Any) -> bool:
    return isinstance(value, str | torch.device) and str(value).partition(":")[0] == "mps"


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for inner in value for leaf in _leaves(inner)]
    return [leaf for inner in value.values() for leaf in _leaves(inner)] if isinstance(value, dict) else [value]


def needs_gradient(dtype: str) -> bool:
    """PyTorch's tests draw samples that require a gradient wherever the dtype can have one."""
    kind = dtype_named(dtype)
    return kind.is_floating_point or kind.is_complex


def draw(entry: Any, dtype: str, *, gradients: bool = True) -> list[Any]:
    """The samples of ``entry``: CPU tensors, the same in every process.

    Raises Exception: whatever the sampler raises on the CPU.

    Args:
        gradients: ask for tensors that require a gradient, where the dtype can have one.
    """
    with DrawnOnCpu(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(ask(entry, dtype, gradients=gradients))


def ask(entry: Any, dtype: str, *, gradients: bool = True) -> Any:
    """What the sampler gives for MPS, wherever the functions that it calls compute it."""
    kind = dtype_named(dtype)
    conjugated = kind.is_complex and entry.test_conjugated_samples
    options = {"include_conjugated_inputs": True} if conjugated else {}
    return entry.sample_inputs(
        DEVICE, kind, requires_grad=gradients and needs_gradient(dtype), set_seed=True, **options
    )


FORWARD, GRADIENT = "forward", "gradient"


@dataclass(frozen=True, slots=True)
class Reference:
    """What the CPU did with one sample."""

    # forward, gradient: the error where it raised; a gradient is there only where one was asked for
    forward: str | None = None
    gradient: str | None = None
    upcast: bool = False  # it raised for want of a kernel for the dtype, and works in float32
    exact: bool = True  # what it gives in float32 survives the cast to the dtype


def on_cpu(entry: Any, dtype: str, samples: Sequence[Any], gradient: bool) -> list[Reference]:
    """One ``Reference`` for each sample, which stay as they are."""
    with DrawnOnCpu():
        return [_one(entry, dtype, sample, gradient) for sample in samples]


def _one(entry: Any, dtype: str, sample: Any, gradient: bool) -> Reference:
    upcast = False
    try:
        copied = sample.transform(copy_of)
        try:
            output = forward(entry, copied)
        except NotImplementedError as error:
            copied = sample.transform(lambda value: copy_of(value, dtype_named(dtype)))
            try:
                output, upcast = forward(entry, copied), True
            except Exception:  # noqa: BLE001 - the first error is the one that says something
                return Reference(message(error), message(error) if gradient else None)
            if not isinstance(sample.input, torch.Tensor) or not isinstance(output, torch.Tensor):
                # PyTorch's test tries again only for a tensor that gives a tensor.
                return Reference(message(error), message(error) if gradient else None)
            if not gradient:
                return Reference(message(error), upcast=True, exact=_is_exact(output, dtype))
            first = message(error)
    except Exception as error:  # noqa: BLE001 - whatever an operator raises is the answer
        return Reference(message(error), message(error) if gradient else None)
    raised = None
    if gradient:
        try:
            compute = backward(entry, copied, output, torch.ones_like)
            if compute is not None:
                compute()
        except Exception as error:  # noqa: BLE001 - as above
            raised = message(error)
    return Reference(first if upcast else None, raised, upcast)


def _is_exact(output: torch.Tensor, dtype: str) -> bool:
    """Whether a result computed in float32 survives the cast of the test: truth values lose what is not whole."""
    return dtype_named(dtype).is_floating_point or bool((output == output.round()).all())


def draws_other_gradients(entry: Any, samples: Sequence[Any]) -> bool:
    """Whether two runs that differ in the seed alone give other gradients for some sample, as dropout does.

    No device can then agree with another in ``test_output_grad_match``. Samples that raise say nothing.
    """
    with DrawnOnCpu():
        return any(_differs(entry, sample) for sample in samples)


def _differs(entry: Any, sample: Any) -> bool:
    pairs = []
    for shift in (0, 1):
        copied = sample.transform(copy_of)
        try:
            with other_seeds(shift):
                output = forward(entry, copied)
                compute = backward(entry, copied, output, torch.ones_like)
                pairs.append(() if compute is None else compute())
        except Exception:  # noqa: BLE001 - as above
            return False
    return any(
        first is not None and other is not None and not torch.equal(first.nan_to_num(), other.nan_to_num())
        for first, other in zip(*pairs, strict=True)
    )


def copy_of(value: Any, upcast_from: torch.dtype | None = None) -> Any:
    """A leaf like ``value`` if that is a tensor, in float32 instead of ``upcast_from``; else the value itself."""
    if not isinstance(value, torch.Tensor):
        return torch.float32 if upcast_from is not None and value is upcast_from else value
    copied = value.detach().clone(memory_format=torch.preserve_format)
    if upcast_from is not None and copied.dtype is upcast_from:
        copied = copied.float()
    return copied.requires_grad_(value.requires_grad)
