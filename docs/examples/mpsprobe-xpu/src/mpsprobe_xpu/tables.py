"""The kernels of Intel XPU, by torch release.

What is in the yaml of PyTorch itself is a part only: matrix products and attention, which use oneDNN. Most kernels are
in torch-xpu-ops, with a yaml of its own, and some in neither: ``TORCH_LIBRARY_IMPL(aten, XPU, m)`` in C++ registers
convolution (``aten/src/ATen/native/mkldnn/xpu/Conv.cpp``) and others. So no table made of yaml is whole, and an
operator that it does not name is unknown. Only the dispatcher of a torch that was built with XPU tells all.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mpsprobe.errors import TableError
from mpsprobe.protocols import Backend, BackendKernels

from mpsprobe_xpu import entries, sources

KEY = "XPU"
TENSOR_KEYS = (KEY, "SparseXPU", "SparseCsrXPU", "NestedTensorXPU", "AutocastXPU")
BY_HAND = "Kernels that C++ registers without a yaml (convolution, for example) are not in it"
WITHOUT_OPS = f"Most kernels of XPU come from torch-xpu-ops: name a checkout of it in {sources.VARIABLE}"
FALLBACK_FILE = "XPUFallback"  # torch-xpu-ops registers its CPU fallbacks in XPUFallback.cpp


class XpuTables:
    """A ``mpsprobe.protocols.KernelTables``."""

    # `TORCH_LIBRARY_IMPL(_, XPU, m)` in XPUFallback.template: it raises unless the variable is set.
    backend = Backend("xpu", KEY, "XPU", without_kernel="raises", variable="PYTORCH_ENABLE_XPU_FALLBACK=1")

    def releases(self) -> Sequence[str]:
        """The installed torch's, and those of the wheels that the variable names."""
        found = dict.fromkeys(sources.named()[0])
        here = sources.installed()
        if here is not None:
            found[here[0]] = None
        if not found:
            raise TableError("no torch is installed whose yaml could be read", f"Name a wheel in {sources.VARIABLE}.")
        return list(found)

    def table(self, release: str) -> BackendKernels:
        """What the yaml of ``release`` says, and torch-xpu-ops where a checkout of it is named."""
        wheels, folder = sources.named()
        return _table(release, wheels.get(release), folder)

    def installed(self) -> BackendKernels | None:
        """The running dispatcher, on a torch that was built with XPU."""
        import torch

        ask: Any = torch._C
        if not ask._dispatch_has_kernel_for_dispatch_key("aten::empty.memory_format", KEY):
            return None
        kernels = {key: set(ask._dispatch_get_registrations_for_dispatch_key(key)) for key in TENSOR_KEYS}
        fallback = {name for name in kernels[KEY] if _is_fallback(ask._dispatch_dump(name))}
        return BackendKernels(
            release=torch.__version__.partition("+")[0],
            kernels={**kernels, KEY: kernels[KEY] - fallback},
            fallback=fallback,
            source=f"the dispatcher of the installed torch {torch.__version__}",
        )


def _is_fallback(dump: str) -> bool:
    return any(line.startswith(f"{KEY}: ") and FALLBACK_FILE in line for line in dump.splitlines())


@functools.cache
def _table(release: str, wheel: Path | None, folder: Path | None) -> BackendKernels:
    if wheel is not None:
        source = sources.from_wheel(wheel)
    else:
        here = sources.installed()
        if here is None or here[0] != release:
            raise TableError(f"there is no yaml of torch {release}", f"Name its wheel in {sources.VARIABLE}.")
        source = sources.from_file(here[1], f"native_functions.yaml of the installed torch {release}")
    found = entries.kernels(source.text, KEY, source.what)
    if folder is None:
        return BackendKernels(release, found, source.what, source.sha256, whole=False, notes=(BY_HAND, WITHOUT_OPS))
    ops = sources.xpu_ops(folder)
    for key, operators in entries.kernels(ops.yaml.text, KEY, ops.yaml.what).items():
        found.setdefault(key, set()).update(operators)
    fallback = ops.fallback - found.get(KEY, set())
    what = f"{source.what}, and {ops.yaml.what}"
    return BackendKernels(release, found, what, whole=False, fallback=fallback, notes=(BY_HAND,))
