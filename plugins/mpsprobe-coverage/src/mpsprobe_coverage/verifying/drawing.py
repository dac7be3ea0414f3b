"""Random numbers: the same ones for every run of a step, and whether a device's own have the right distribution.

Each random operator gets numbers that the CPU draws in the base dtype, seeded by how many were drawn before. What
kernels draw inside (dropout of attention and of cuDNN's RNNs) cannot be handed over: it is turned off (``settled``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from mpsprobe_coverage.verifying.comparing import Wrong
from mpsprobe_coverage.verifying.copying import NARROW, copied, widened, wider

_aten = torch.ops.aten
ENOUGH = 1000
"""Numbers from which on a distribution is compared."""
SIGMAS = 6.0
"""Means of equal distributions are so many standard errors apart once in 500 million times."""
DROPOUT_OFF = "dropout inside of attention and RNN kernels was turned off: the numbers that they draw cannot be shared"


def is_random(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags and not func._schema.name.startswith("aten::_scaled_dot")


class Drawing(TorchDispatchMode):
    """Hands the same random numbers to each run, and notes what control flow reads.

    Args:
        dtype: in which numbers are drawn; the floating-point dtype of the model.
        wide: run in float64 what asks for a narrower dtype.
        distribution: gets the device's own numbers, and those of the CPU; for a device.
        drawn: how many calls have drawn before this run, which begins within another one.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        *,
        wide: bool = False,
        distribution: Callable[[Any, Any, Any], None] | None = None,
        drawn: int = 0,
    ) -> None:
        super().__init__()
        self._dtype, self._wide, self._distribution = dtype, wide, distribution
        self.drawn = drawn
        self.read: list[bool | int] = []  # what Python read of tensors of whole numbers, in order

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._wide:
            args, kwargs = tree_map(wider, (args, kwargs))
        if is_random(func):
            return self._draw(func, args, kwargs)
        result = self.computed(func, args, kwargs)
        if func is _aten._local_scalar_dense.default and not isinstance(result, (float, complex)):
            self.read.append(result)
        return result

    def computed(self, func: Any, args: Any, kwargs: Any) -> Any:
        return func(*args, **kwargs)

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        device = tensors[0].device if tensors else torch.device(kwargs.get("device") or torch.get_default_device())
        self.drawn += 1
        if func is _aten.native_dropout.default and args[2] is False:
            return func(*args, **kwargs)
        if self._distribution is not None and device.type != "cpu":
            own_args, own_kwargs = copied((args, kwargs), device)
            self._distribution(func, func(*own_args, **own_kwargs), (args, kwargs))
        own_args, own_kwargs = tree_map(self._narrow, copied((args, kwargs), "cpu"))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.drawn)
            if func is _aten.native_dropout.default:
                return self._dropout(args[0], own_args[1])
            drawn = func(*own_args, **own_kwargs)
        if func._schema.is_mutable:  # `bernoulli_`, `normal_`, … write their first argument and return it
            return args[0].copy_(drawn)
        return tree_map(lambda tensor: (widened(tensor) if self._wide else tensor).to(device), drawn)

    def _dropout(self, x: torch.Tensor, p: float | None) -> Any:
        # As `dropout` of ATen draws on the CPU: a mask of zeros and ones in the dtype of the input.
        keep = 1.0 - (0.5 if p is None else p)
        mask = torch.empty(x.shape, dtype=self._dtype).bernoulli_(keep).to(x.device)
        return x * (mask / keep if keep else mask).to(x.dtype), mask.bool()

    def _narrow(self, leaf: Any) -> Any:
        """A contiguous copy in the dtype in which numbers are drawn: their order must not depend on strides."""
        if isinstance(leaf, torch.Tensor):
            return leaf.contiguous().to(self._dtype) if leaf.is_floating_point() else leaf.contiguous()
        return self._dtype if leaf in (torch.float64, *NARROW) else leaf


def off_distribution(own: Any, drawn: Any) -> Wrong | None:
    """Whether numbers that a device drew have another mean or spread than those that the CPU drew."""
    pairs = zip(tree_leaves(own), tree_leaves(drawn), strict=False)
    for got, expected in ((a.double().cpu().flatten(), b.double().flatten()) for a, b in pairs):
        count = min(got.numel(), expected.numel())
        if count < ENOUGH:
            continue
        strange = int((~torch.isfinite(got)).sum())
        for power in (1, 2):
            first, second = got**power, expected**power
            apart = float((first.mean() - second.mean()).abs())
            allowed = SIGMAS * float(((first.var() + second.var()) / count).sqrt()) + 1e-6 * float(second.abs().mean())
            if strange or not apart <= allowed:
                why = f"the mean of its numbers{' squared' if power == 2 else ''} is another one"
                excess = apart / allowed if allowed else float("inf")
                return Wrong(excess, apart, 0.0, count, count, (), float(first.mean()), float(second.mean()), why)
    return None


_ATTENTION = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


class _AttentionWithoutDropout(TorchFunctionMode):
    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.nn.functional.scaled_dot_product_attention:
            given = dict(zip(_ATTENTION, args, strict=False)) | kwargs
            if given.get("dropout_p"):
                self._note(DROPOUT_OFF)
            return func(**given | {"dropout_p": 0.0})
        return func(*args, **kwargs)


@contextmanager
def settled(model: torch.nn.Module, note: Callable[[str], None]) -> Iterator[None]:
    """Without what makes runs differ although nothing is wrong: such dropout, and TensorFloat-32."""
    recurrent = [
        module
        for module in model.modules()
        if isinstance(module, torch.nn.RNNBase) and module.dropout and module.training
    ]
    rates = [layer.dropout for layer in recurrent]
    for layer in recurrent:
        layer.dropout = 0.0
    if recurrent:
        note(DROPOUT_OFF)
    matrices = torch.backends.cuda.matmul
    allowed, by_cudnn = matrices.allow_tf32, torch._C._get_cudnn_allow_tf32()
    try:
        matrices.allow_tf32 = False
        torch._C._set_cudnn_allow_tf32(False)  # the attribute of `torch.backends.cudnn` may be frozen
        with _AttentionWithoutDropout(note):
            yield
    finally:
        matrices.allow_tf32 = allowed
        torch._C._set_cudnn_allow_tf32(by_cudnn)
        for layer, rate in zip(recurrent, rates, strict=True):
            layer.dropout = rate
