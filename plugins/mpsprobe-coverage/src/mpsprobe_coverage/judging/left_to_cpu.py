"""Calls that a registered kernel leaves to the CPU, by their size or dtype: it copies there, computes, and copies back.

PyTorch warns once, or not at all. The conditions were read in the machine code of the kernels in the macOS libraries
of 2.0.0 to 2.15.0, and compared with PyTorch's source of near commits; every other place where a kernel makes a copy on
the CPU depends on a macOS before 15. Files are those of aten/src/ATen/native/mps/operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from packaging.version import Version

from mpsprobe_coverage.calls.call import Call
from mpsprobe_coverage.calls.spec import TensorSpec
from mpsprobe_coverage.judging.guards import COMPLEX, LONG
from mpsprobe_coverage.judging.judgement import Judgement, Rule
from mpsprobe_coverage.kernels.markers import MARKER_STRINGS
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import since_without_gap, torch_releases
from mpsprobe_coverage.kernels.table import KernelTable

THREADGROUP_MEMORY = 32768
"""Bytes: ``maxThreadgroupMemoryLength`` of the GPUs in Apple silicon (Apple's Metal feature set tables). PyTorch's own
warning names the same number."""
SVD_ELEMENTS = 8192
_EIGH_ELEMENTS = 12288
_QR_COLUMNS = 512
_SILENT = "a copy on the CPU in the code of the kernel, without a message"


@dataclass(frozen=True, slots=True, eq=False)
class Leaving:
    """One condition of a kernel. Compared by identity.

    Attributes:
        marker: a message that is in the library in the releases with this condition (``kernels/markers.py``).
        operators: names without overload.
        reason: why the kernel leaves a call to the CPU; None where it does not.
        dtypes: calls without a tensor of one of these are not asked about; None for all.
        before: the first release that has the message but not the condition.
        silent: the message is another condition's: this one warns of nothing.
    """

    marker: str
    operators: tuple[str, ...]
    reason: Callable[[Call], str | None]
    dtypes: frozenset[torch.dtype] | None = None
    before: str | None = None
    silent: bool = False

    def holds(self, operator: str, table: KernelTable) -> bool:
        """Whether the kernel of ``operator`` has it in the release of ``table``."""
        ended = self.before is not None and Version(table.release) >= Version(self.before)
        name = operator.removeprefix("aten::").partition(".")[0]
        return name in self.operators and self.marker in table.markers and operator in table.native and not ended


def matrices(call: Call) -> TensorSpec | None:
    """The spec of the matrices that a decomposition is of; None where they have no element."""
    spec = call.inputs[0]
    return spec if spec.numel else None


def staged_bytes(spec: TensorSpec) -> int:
    """What one matrix of a batch takes in threadgroup memory."""
    return spec.shape[-2] * spec.shape[-1] * spec.dtype.itemsize


def _large(copies: int) -> Callable[[Call], str | None]:
    """The kernel stages each matrix so many times."""

    def reason(call: Call) -> str | None:
        spec = matrices(call)
        if spec is None or copies * staged_bytes(spec) <= THREADGROUP_MEMORY:
            return None
        return f"{copies * staged_bytes(spec)} bytes of a matrix do not fit into {THREADGROUP_MEMORY} on the GPU"

    return reason


def _small(elements: int) -> Callable[[Call], str | None]:
    def reason(call: Call) -> str | None:
        spec = matrices(call)
        return None if spec is None or spec.numel >= elements else f"fewer than {elements} elements in all matrices"

    return reason


def _qr(call: Call) -> str | None:
    spec = matrices(call)
    wide = spec is not None and min(spec.shape[-2:]) > _QR_COLUMNS
    return f"over {_QR_COLUMNS} rows and columns" if wide else None


def _complex(call: Call) -> str | None:
    return "complex numbers" if call.inputs[0].dtype in COMPLEX else None


def _divisor(call: Call) -> str | None:
    return "int64 with a divisor" if call.inputs[0].dtype in LONG and call.argument("divisor_override") else None


_SVD = ("_linalg_svd", "linalg_lstsq")  # lstsq_kernel_mps calls linalg_svd
LEAVING: tuple[Leaving, ...] = (
    # LinearAlgebra.mm: svd_kernel_mps, eigh_kernel_mps (which stages the eigenvectors too), linalg_qr_out_impl_mps
    Leaving("svd_threadgroup", _SVD, _large(1)),
    Leaving("svd_threadgroup", _SVD, _small(SVD_ELEMENTS), before="2.14.1", silent=True),
    Leaving("eigh_threadgroup", ("_linalg_eigh",), _large(2)),
    Leaving("eigh_threadgroup", ("_linalg_eigh",), _small(_EIGH_ELEMENTS), silent=True),
    Leaving("qr_512", ("linalg_qr",), _qr),
    # Indexing.mm, nonzero_mps and nonzero_out_mps; Pooling.mm, avg_pool2d_template
    Leaving("nonzero_complex", ("nonzero",), _complex, COMPLEX),
    Leaving("avg_pool_divisor_int64", ("avg_pool2d",), _divisor, LONG),
)


@dataclass(frozen=True)
class LeftToCpu:
    """A condition of one kernel. Equal in all releases that have it."""

    leaving: Leaving
    operator: str
    judge = "left_to_cpu"
    only_dtypes = False  # PyTorch's tests pass on the CPU as well

    @property
    def dtypes(self) -> frozenset[torch.dtype] | None:
        return self.leaving.dtypes

    def __call__(self, call: Call) -> Judgement | None:
        reason = self.leaving.reason(call)
        if reason is None:
            return None
        (message, *_) = MARKER_STRINGS[self.leaving.marker]
        since = since_without_gap(torch_releases(), lambda release: stays(call, self.operator, load_table(release)))
        why = f"the kernel leaves it to the CPU: {reason}"
        return Judgement("fallback", why, "message", _SILENT if self.leaving.silent else message, since)


def stays(call: Call, operator: str, table: KernelTable) -> bool:
    """Whether a kernel of the release takes the call and keeps it on the GPU."""
    return operator in table.native and all(each.reason(call) is None for each in _of(operator, table))


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    """A rule for each condition on which the kernel of ``operator`` leaves a call to the CPU."""
    return tuple(LeftToCpu(each, operator) for each in _of(operator, table))


def _of(operator: str, table: KernelTable) -> Iterator[Leaving]:
    return (each for each in LEAVING if each.holds(operator, table))
