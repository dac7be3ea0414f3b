"""Calls that a registered kernel leaves to the CPU, by their size or dtype: it copies there, computes, and copies back.

PyTorch warns once, or not at all. The conditions were read in the machine code of the kernels in the macOS libraries
of 2.0.0 to 2.15.0, and compared with PyTorch's source of near commits; every other place where a kernel makes a copy on
the CPU depends on a macOS before 15. Files are those of aten/src/ATen/native/mps/operations.
"""

from __future__ import annotations

from collections.abc import Callable

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import TensorSpec
from mpsprobe_coverage.knowledge.judging.conditions import COMPLEX, LONG, Condition, Conditions, Dtypes
from mpsprobe_coverage.knowledge.judging.size import SIZES
from mpsprobe_coverage.knowledge.kernels.markers import MARKER_STRINGS

THREADGROUP_MEMORY = 32768
"""Bytes: ``maxThreadgroupMemoryLength`` of the GPUs in Apple silicon (Apple's Metal feature set tables). PyTorch's own
warning names the same number."""
SVD_ELEMENTS = 8192
_EIGH_ELEMENTS = 12288
_QR_COLUMNS = 512
_SILENT = "a copy on the CPU in the code of the kernel, without a message"


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


def _entry(operators: str, why: Callable[[Call], str | None], marker: str, dtypes: Dtypes | None = None) -> Condition:
    return Condition(operators, why, MARKER_STRINGS[marker][0], marker=marker, dtypes=dtypes)


_SVD = "_linalg_svd linalg_lstsq"  # lstsq_kernel_mps calls linalg_svd

LEFT_TO_CPU = Conditions(
    "left_to_cpu",
    "fallback",
    "message",
    (
        # LinearAlgebra.mm: svd_kernel_mps, eigh_kernel_mps (which stages the eigenvectors too), linalg_qr_out_impl_mps
        _entry(_SVD, _large(1), "svd_threadgroup"),
        Condition(_SVD, _small(SVD_ELEMENTS), _SILENT, before="2.14.1", marker="svd_threadgroup"),
        _entry("_linalg_eigh", _large(2), "eigh_threadgroup"),
        Condition("_linalg_eigh", _small(_EIGH_ELEMENTS), _SILENT, marker="eigh_threadgroup"),
        _entry("linalg_qr", _qr, "qr_512"),
        # Indexing.mm, nonzero_mps and nonzero_out_mps; Pooling.mm, avg_pool2d_template
        _entry("nonzero", _complex, "nonzero_complex", COMPLEX),
        _entry("avg_pool2d", _divisor, "avg_pool_divisor_int64", LONG),
    ),
    lambda why, _: f"the kernel leaves it to the CPU: {why}",
    sizes=SIZES,
)
rules_of = LEFT_TO_CPU.rules_of
