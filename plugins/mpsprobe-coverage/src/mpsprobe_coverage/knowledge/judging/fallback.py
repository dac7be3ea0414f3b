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
  written into it does not reach the original, so it is not a view.
- A generator is passed on as it is, and the CPU kernel refuses one of MPS (``check_generator`` in
  ``aten/src/ATen/core/Generator.h``). Without one, random operators fall back.
- What is written into the tensors of a list is copied back from 2.1 on; before, it was silently lost.
- A collective (``c10d``) returns before it is done, when the copies back are made already: its results are lost
  (pytorch issue 173808). Since pull request 173954 it raises instead, with the variable too.
"""

from __future__ import annotations

from typing import Any, Literal

import torch

from mpsprobe.protocols import Backend
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.keys import has_cpu_kernel
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

VIEW = "no {label} kernel, and a view operator cannot fall back to the CPU: that would give a copy"
NO_CPU_KERNEL = "no {label} kernel, and no CPU kernel to fall back to"
FACTORY = "no {label} kernel, and what makes a tensor on a device cannot fall back to the CPU in torch {release}"
LOST = "no {label} kernel: raises, and with {variable} what it writes into its tensors is lost"
COLLECTIVE = "no {label} kernel, and a collective cannot fall back to the CPU: its results would be lost"
MISSING = "no {label} kernel: raises, or runs on the CPU with {variable}"
RAISES = "no {label} kernel: raises"
ON_THE_CPU = "no {label} kernel: the backend runs it on the CPU"
NO_SPARSE = "no kernel for sparse tensors on {label}"
NO_SPARSE_FALLBACK = "no kernel for sparse tensors on {label}, and those cannot fall back to the CPU"
GENERATOR = "no {label} kernel, and the CPU kernel refuses a generator of {label}"

Without = tuple[Literal["missing", "unsupported", "fallback"], str]


def without_kernel(func: Any, name: str, table: KernelTable, key: str) -> Without:
    """Verdict and reason for an operator, called ``name`` there, that a release has no kernel for under ``key``."""
    verdict, reason = _without(func, name, table, key)
    backend = table.backend
    return verdict, reason.format(label=backend.label, variable=backend.variable, release=table.release)


def _without(func: Any, name: str, table: KernelTable, key: str) -> Without:
    backend = table.backend
    if key != backend.key:
        return no_sparse(backend)
    if backend.without_kernel == "cpu":
        return "fallback", ON_THE_CPU
    if backend.variable is None:
        return "missing", RAISES
    if func.is_view:
        return "unsupported", VIEW
    if torch._C._dispatch_has_kernel(name) and not has_cpu_kernel(name):  # else the installed torch cannot know
        return "unsupported", NO_CPU_KERNEL
    arguments, results = func._schema.arguments, func._schema.returns
    if not table.at_least("2.4") and any(map(_holds_tensors, results)) and not any(map(_holds_tensors, arguments)):
        return "unsupported", FACTORY
    if any("c10d.Work" in str(result.type) for result in results):
        return "unsupported", COLLECTIVE
    if not table.at_least("2.1") and any(str(a.type).startswith("List[") and a.is_write for a in arguments):
        return "missing", LOST
    return "missing", MISSING


def no_sparse(backend: Backend) -> Without:
    """Verdict and reason for an operator on sparse tensors that has no kernel for them."""
    if backend.variable is None:
        return "missing", NO_SPARSE.format(label=backend.label)
    return "unsupported", NO_SPARSE_FALLBACK.format(label=backend.label)


def rules_of(_operator: str, table: KernelTable) -> tuple[Rule, ...]:
    backend = table.backend
    return () if backend.variable is None else (Rule("fallback", _refused_generator, (backend.label,)),)


def sparse_rules_of(table: KernelTable) -> tuple[Rule, ...]:
    """The rule for sparse calls of an operator that is made of others."""
    return (Rule("fallback", _no_sparse_kernel, (table.backend,)),)


def _refused_generator(call: Call, label: str) -> Judgement | None:
    """Of a random operator without a kernel the CPU kernel takes the backend's generator for a mistake."""
    if not call.generator:
        return None
    evidence = "check_generator in ATen/core/Generator.h"
    return refused(GENERATOR.format(label=label), source="branch", evidence=evidence)


def _no_sparse_kernel(call: Call, backend: Backend) -> Judgement | None:
    """A composite kernel that is for dense tensors alone: it raised for the sparse ones of the call."""
    if call.raised is None:
        return None
    verdict, reason = no_sparse(backend)
    return Judgement(verdict, reason, "branch", call.raised)


def _holds_tensors(argument_or_result: Any) -> bool:
    return "Tensor" in str(argument_or_result.type)
