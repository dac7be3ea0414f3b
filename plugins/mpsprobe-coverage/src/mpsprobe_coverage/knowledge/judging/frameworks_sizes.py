"""Sizes with which an MPSGraph ends the process: its arrays have limits, which also hold for what it keeps between.

Each entry has the thread that reports it. What a kernel only hands to a graph and takes from it is judged by what the
library shows (``graphs.py``).
"""

from __future__ import annotations

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.conditions import Condition

_LIMIT = 1 << 32
_BYTES = "ends the process: MPSNDArray asserts that it has no more than 2**32 bytes, and {} has"
_ELEMENTS = "ends the process: MPSNDArray asserts that it has no more than 2**32 elements, and the product has"

_TILES = "raises: Output size of the matrix multiplication is larger than currently supported by the MPS backend"


def _masked(call: Call) -> str | None:
    spec = call.inputs[0]
    return _BYTES.format("the tensor") if spec.nbytes > _LIMIT else None


def _scores(call: Call) -> str | None:
    query, key = call.inputs[:2]
    if len(query.shape) < 2 or not query.shape[-1]:
        return None
    scores = query.nbytes // query.shape[-1] * key.shape[-2]
    return _BYTES.format("the matrix of scores") if scores > _LIMIT else None


def _large_entry(call: Call) -> str | None:
    """Tiles are made of whole entries of the batch."""
    shape = call.outputs[0].shape if call.outputs else ()
    return _TILES if len(shape) == 3 and shape[1] * shape[2] >= _LIMIT else None


def _product(call: Call) -> str | None:
    return _ELEMENTS if call.outputs and call.outputs[0].numel > _LIMIT else None


SIZES: tuple[Condition, ...] = (
    # Indexing.mm, masked_fill__mps: a Metal kernel from 2.7 on
    Condition(
        ("masked_fill",), _masked, "pytorch issue 143477; mended by PR 147369", "2.0.0", "2.6.0", macos="15.0"
    ),
    # Attention.mm; the scores are none of its tensors, so calls with small ones are asked about, too
    Condition(
        ("_scaled_dot_product_attention_math_for_mps",), _scores, "pytorch issue 149261", "2.5.0", "2.7.1", macos="15.0"
    ),
    # LinearAlgebra.mm, bmm_out_mps_impl: computes in tiles from 2.5 on
    Condition(("bmm",), _large_entry, "pytorch issues 141909, 171026", "2.5.0", "2.5.1"),
    Condition(
        ("bmm",), _product, "pytorch issue 134177", "2.0.0", "2.4.1", macos="14.0"
    ),
)  # fmt: skip
