"""Dtypes with which an MPSGraph ends the process: two in one operation, or one that an operation does not have.

MPSGraph infers the type of each result when the graph is made, and gives up where it cannot ("LLVM ERROR: Failed to
infer result type(s)"). Kernels cast what they hand it (``castMPSTensor``); each entry is one that does not, has the
thread that reports it, and holds in the releases whose code has no such cast, or check, at that place.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.conditions import Condition, has
from mpsprobe_coverage.knowledge.judging.guards import BOOL, COMPLEX, INTEGRAL, LONG

_MIXED = "ends the process: MPSGraph infers no type for an operation on {} and {}"
_UNKNOWN = "ends the process: MPSGraph has no {} for {}"
_HALF = frozenset({torch.float16, torch.bfloat16})
_ON_CPU = "ends the process: the Metal kernel reads a number on the CPU as memory of the device"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _mixed(call: Call, *names: str) -> str | None:
    """Of these arguments, those that are tensors of one dimension or more have two dtypes."""
    specs = [call.spec(name) for name in names if has(call, name)]
    dtypes = list(dict.fromkeys(spec.dtype for spec in specs if spec is not None and spec.shape and spec.numel))
    return _MIXED.format(*map(_name, dtypes[:2])) if len(dtypes) > 1 else None


def _differ(*names: str) -> Callable[[Call], str | None]:
    return lambda call: _mixed(call, *names)


def _refused(call: Call) -> str | None:
    return "mat1 and mat2 have two dtypes: RuntimeError" if _mixed(call, "self", "mat2") else None


def _lacks(operation: str, dtypes: frozenset[torch.dtype], argument: str = "self") -> Callable[[Call], str | None]:
    def why(call: Call) -> str | None:
        spec = call.spec(argument)
        lacks = spec is not None and spec.numel and spec.dtype in dtypes
        return _UNKNOWN.format(operation, _name(spec.dtype)) if spec is not None and lacks else None

    return why


def _scaled(call: Call) -> str | None:
    """``alpha`` is multiplied with the second operand before that is cast."""
    return _mixed(call, "self", "other") if has(call, "alpha") and call.argument("alpha") != 1 else None


def _bernoulli(call: Call) -> str | None:
    """Random numbers of float32 are compared with a probability of the result's dtype."""
    result = call.outputs[0] if call.outputs else None
    integral = result is not None and result.numel and result.dtype in INTEGRAL
    return _MIXED.format("float32", _name(result.dtype)) if result is not None and integral else None


def _variance(call: Call) -> str | None:
    """``eps`` is a constant of float32, which is added to the variance; it is not where running statistics are used."""
    spec = call.inputs[0]
    computes = not has(call, "training") or call.argument("training")
    return _MIXED.format(_name(spec.dtype), "float32") if computes and spec.numel and spec.dtype in _HALF else None


def _number_on_cpu(call: Call) -> str | None:
    for name in ("self", "other"):
        value = call.argument(name)
        if isinstance(value, torch.Tensor) and not value.dim() and value.device.type == "cpu":
            return _ON_CPU
    return None


_BATCH_NORMS = ("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update")
_BATCH_NORM = ("input", "weight", "bias", "running_mean", "running_var")
_MIXED_NORM = "pytorch issues 154887, 178770; mended by PR 178775"

DTYPES: tuple[Condition, ...] = (
    # Distributions.mm, bernoulli_mps_impl
    Condition(("bernoulli",), _bernoulli, "pytorch issue 100717; mended by PR 100946", "2.0.0", "2.0.1"),
    # TensorCompare.mm, clamp_mps_graph
    Condition(
        ("clamp", "clamp_min", "clamp_max"), _differ("self", "min", "max"), "mended by pytorch PR 105747",
        "2.0.0", "2.0.1",
    ),
    # Normalization.mm: batch_norm_mps_out, which layer_norm_mps calls, too; layer_norm_backward_mps
    Condition(
        ("native_layer_norm", *_BATCH_NORMS), _variance, "pytorch issue 96113, ChatGLM-6B issue 951", "2.0.0", "2.0.1",
        dtypes=_HALF,
    ),
    Condition(_BATCH_NORMS, _differ(*_BATCH_NORM), _MIXED_NORM, "2.0.0", "2.11.0"),
    Condition(
        _BATCH_NORMS, _lacks("normalization", BOOL, "input"), "pytorch issue 188243; mended by PR 188265",
        "2.0.0", "2.12.1", dtypes=BOOL,
    ),
    Condition(
        ("native_layer_norm_backward",), _differ("input", "weight"), "mended by pytorch PR 190055", "2.0.0", "2.13.0"
    ),
    # LossOps.mm: nllnd_loss_backward_impl; mse_loss_out_mps, which raises from 2.6 on
    Condition(
        ("nll_loss_backward", "nll_loss2d_backward"), _differ("self", "weight"), "mended by pytorch PR 144170",
        "2.0.0", "2.6.0",
    ),
    Condition(
        ("mse_loss",), _lacks("square", LONG), "pytorch issues 114532, 139723; mended by PR 139960", "2.0.0", "2.5.1",
        dtypes=LONG,
    ),
    # ReduceOps.mm: amax_out_mps and its like, which raise from 2.10 on
    Condition(
        ("amax", "amin", "aminmax", "max", "min"), _lacks("reduction", COMPLEX), "mended by pytorch PR 166214",
        "2.1.0", "2.9.1", dtypes=COMPLEX,
    ),
    # LinearAlgebra.mm: do_mm, the graph of mm and addmm; mm_out_mps_impl asks for one dtype from 2.7 on
    Condition(("mm",), _differ("self", "mat2"), "mended by pytorch PR 143948", "2.0.0", "2.6.0"),
    Condition(("mm",), _refused, "added by pytorch PR 143948", "2.7.0"),
    Condition(("addmm",), _differ("mat1", "mat2"), "the graph of mm, see pytorch PR 143948", "2.0.0", "2.13.0"),
    # BinaryOps.mm, add_sub_lerp_template
    Condition(("add", "sub"), _scaled, "pytorch issue 143932", "2.4.0", "2.5.1"),
    # BinaryKernel.mm, binary_mps_impl
    Condition(
        ("fmax", "fmin"), _number_on_cpu, "pytorch issue 143933; mended by PRs 143934, 144055", "2.4.0", "2.5.1"
    ),
)  # fmt: skip
