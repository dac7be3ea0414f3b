"""What PyTorch raises on a Mac for a call that was judged, for a program that is to meet it."""

from __future__ import annotations

import os

from mpsprobe_coverage.knowledge.judging.judgement import Judgement

VARIABLE = "PYTORCH_ENABLE_MPS_FALLBACK"
# `mps_error_fallback` in aten/src/ATen/mps/MPSFallback.mm
_MISSING = (
    "The operator '{operator}' is not currently implemented for the MPS device. If you want this op to be considered "
    "for addition please comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that "
    "resulted in missing op. As a temporary fix, you can set the environment variable `{variable}=1` to use the CPU as "
    "a fallback for this op. WARNING: this will be slower than running natively on MPS."
)
# Of a dtype that Metal does not have: aten/src/ATen/native/mps/OperationUtils.mm, ATen/mps/EmptyTensor.cpp
_DTYPE = (
    "Cannot convert a MPS Tensor to {dtype} dtype as the MPS framework doesn't support {dtype}. "
    "Please use float32 instead."
)


def refusal_of(operator: str, judgement: Judgement) -> tuple[str, str] | None:
    """The type of the exception and its text; None where the call does not raise.

    Only the texts of operators without a kernel and of dtypes are PyTorch's to the letter; for the rest it is what is
    known: the library's own message where the verdict rests on one, else the reason.
    """
    if judgement.verdict == "missing":
        if os.environ.get(VARIABLE, "0").strip() not in ("", "0"):
            return None
        return "NotImplementedError", _MISSING.format(operator=operator, variable=VARIABLE)
    if judgement.verdict != "unsupported":
        return None
    if judgement.source == "dtype":
        return "TypeError", _DTYPE.format(dtype=judgement.evidence)
    text = judgement.evidence if judgement.source in ("message", "device") else judgement.reason
    return "RuntimeError", text or judgement.reason or f"{operator} is not supported on MPS"
