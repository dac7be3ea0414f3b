"""Kernel tables of a backend, made in a test and found as an installed plugin's are."""

from __future__ import annotations

from typing import Any

from mpsprobe.protocols import Backend, BackendKernels

RELEASE = "2.13.0"
XPU = Backend("xpu", "XPU", "XPU", variable="PYTORCH_ENABLE_XPU_FALLBACK=1")
OWN = Backend("privateuseone", "PrivateUse1", "Own chip")
BASIC = (
    "aten::addmm", "aten::mm", "aten::t", "aten::view", "aten::as_strided", "aten::empty.memory_format", "aten::sum",
    "aten::empty_strided", "aten::add.out", "aten::mul.out", "aten::fill_.Scalar", "aten::ones_like", "aten::zero_",
    "aten::sum.IntList_out", "aten::div.out", "aten::sqrt.out", "aten::lerp.Scalar_out", "aten::_foreach_norm.Scalar",
    "aten::addcmul.out", "aten::addcdiv.out", "aten::_fused_adamw_", "aten::threshold_backward.grad_input",
    "aten::relu", "aten::linalg_vector_norm.out", "aten::cat.out", "aten::clamp.out", "aten::reciprocal.out",
)  # fmt: skip


class Made:
    """What one test says about its backend."""

    def __init__(self, backend: Any = XPU, kernels: Any = BASIC, by_release: Any = None, **more: Any) -> None:
        self.backend = backend
        self._by_release = by_release or {RELEASE: kernels}
        self._more = {"source": "a list in a test", **more}

    def releases(self) -> Any:
        """In the order that the test names them in."""
        return list(self._by_release)

    def table(self, release: str) -> BackendKernels:
        """What the test says: operators, or operators by key."""
        kernels = self._by_release[release]
        key = self.backend.key if isinstance(self.backend, Backend) else "XPU"
        return BackendKernels(release, kernels if isinstance(kernels, dict) else {key: kernels}, **self._more)


current: Any = Made()  # what the plugin's declaration names
