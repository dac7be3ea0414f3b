"""What ``PYTORCH_ENABLE_MPS_FALLBACK=1`` cannot send to the CPU: ``unsupported`` instead of ``missing``.

With the variable set, PyTorch registers ``mps_fallback`` for every operator without an MPS kernel
(``aten/src/ATen/mps/MPSFallback.mm``). It copies tensor arguments to the CPU, calls the CPU kernel and copies the
results back (``cpu_fallback`` in ``aten/src/ATen/native/CPUFallback.cpp``). Established from that source, and from
the code of both functions in the macOS libraries of 1.12.1 to 2.15.0:

- The fallback is registered under the key MPS alone: sparse tensors raise in every release.
- An operator without a CPU kernel raises from the dispatcher.
- ``device=`` is changed to the CPU from 2.4 on. Before, the CPU kernel of a factory was asked for an MPS tensor, and
  raised (``device_or_default(device_opt).type() == DeviceType::CPU INTERNAL ASSERT FAILED``, pytorch issue 121289).
- A view operator gets a copy in place of a view, with a warning (``error_on_views`` is false in every release). What is
  written into it does not reach the original, so it is no view.
- A generator is passed on as it is, and the CPU kernel refuses one of MPS (``check_generator`` in
  ``aten/src/ATen/core/Generator.h``). Without one, random operators fall back.
- What is written into the tensors of a list is copied back from 2.1 on; before, it was lost without a word.
"""

from __future__ import annotations

from typing import Any

import torch

from mpsprobe.protocols import Backend
from mpsprobe_coverage.device.generators import is_of_mps
from mpsprobe_coverage.device.routing.route import at_least
from mpsprobe_coverage.kernels.table import COMPOSITE_LABELS, MPS, MPS_BACKEND, KernelTable

MISSING = "no MPS kernel: raises, or runs on the CPU with PYTORCH_ENABLE_MPS_FALLBACK=1"
LOST = "no MPS kernel: raises, and with PYTORCH_ENABLE_MPS_FALLBACK=1 what it writes into its tensors is lost"
VIEW = "no MPS kernel, and a view operator cannot fall back to the CPU: that would give a copy"
NO_CPU_KERNEL = "no MPS kernel, and no CPU kernel to fall back to"
FACTORY = "no MPS kernel, and what makes a tensor on a device cannot fall back to the CPU in torch {release}"
GENERATOR = "no MPS kernel, and the CPU kernel refuses a generator of MPS"


def no_sparse(backend: Backend) -> str:
    """The reason for an operator on sparse tensors that has no kernel for them."""
    if backend is MPS_BACKEND:
        return "no kernel for sparse tensors on MPS, and those cannot fall back to the CPU"
    return f"no kernel for sparse tensors on {backend.label}"


def without_kernel(func: Any, name: str, table: KernelTable, key: str) -> tuple[str, str]:
    """Verdict and reason for an operator that ``table``'s release has no kernel for under ``key``.

    Args:
        func: the overload of the installed torch.
        name: what the release calls it.
    """
    if not table.is_mps:
        return _elsewhere(func, table.backend, key)
    if key != MPS:
        return "unsupported", no_sparse(table.backend)
    if func.is_view:
        return "unsupported", VIEW
    if not _has_cpu_kernel(name):
        return "unsupported", NO_CPU_KERNEL
    arguments = func._schema.arguments
    if not at_least(table, "2.4") and not any(_holds_tensors(a) for a in arguments) and _makes_tensors(func):
        return "unsupported", FACTORY.format(release=table.release)
    if not at_least(table, "2.1") and any(_is_list(a) and _is_written(a) for a in arguments):
        return "missing", LOST
    return "missing", MISSING


def _elsewhere(func: Any, backend: Backend, key: str) -> tuple[str, str]:
    """The same for another backend, of whose fallback only what ``Backend`` says is known."""
    if key != backend.key:
        return "missing", no_sparse(backend)
    if backend.without_kernel == "cpu":
        return "fallback", f"no {backend.label} kernel: the backend runs it on the CPU"
    if backend.variable is None:
        return "missing", f"no {backend.label} kernel: raises"
    if func.is_view:
        return "unsupported", f"no {backend.label} kernel, and a view operator cannot fall back to the CPU"
    return "missing", f"no {backend.label} kernel: raises, or runs on the CPU with {backend.variable}"


def passes_generator(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call is given a generator of MPS."""
    return any(is_of_mps(value) for value in (*args, *kwargs.values()))


def _has_cpu_kernel(name: str) -> bool:
    """In the installed torch; True where it does not have the operator, and so cannot know."""
    if not torch._C._dispatch_has_kernel(name):
        return True
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has(name, key) for key in ("CPU", *COMPOSITE_LABELS))


def _makes_tensors(func: Any) -> bool:
    return any("Tensor" in str(result.type) for result in func._schema.returns)


def _holds_tensors(argument: Any) -> bool:
    return "Tensor" in str(argument.type)


def _is_list(argument: Any) -> bool:
    return str(argument.type).startswith("List[")


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)
