"""Whether anything but its registration shows that a kernel takes the dtypes of a call.

A registration says nothing of dtypes. What does are PyTorch's tests, as far as ``lists.py`` knows what they call, and
the Metal kernels in the library (``metal.py``). Where neither speaks the verdict stays ``native``, and its evidence is
``REGISTERED_ONLY``. This is asked once for each distinct call, when a report is made.

A test of one form of an operator counts for all: ``add.Tensor``, ``add_.Tensor`` and ``add.out`` are one kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import torch

from mpsprobe.assembling import REGISTERED_ONLY
from mpsprobe_coverage.knowledge.calls.keys import overload_named
from mpsprobe_coverage.knowledge.calls.spec import dtype_name
from mpsprobe_coverage.knowledge.judging import metal
from mpsprobe_coverage.knowledge.judging.judgement import Judgement
from mpsprobe_coverage.knowledge.judging.lists import lists_about
from mpsprobe_coverage.knowledge.judging.signatures import dtypes_in
from mpsprobe_coverage.knowledge.kernels.table import MPS, KernelTable

_TESTED_BESIDE: Mapping[str, frozenset[str]] = {
    # Pull requests 155005 and 174945. The samples of the lists ask for gradients, with which attention goes elsewhere.
    "_scaled_dot_product_attention_math_for_mps": frozenset({"float32", "float16", "bfloat16"}),
    # test_bernoulli, test_normal and test_uniform in test/test_mps.py; random numbers are nothing that lists compare.
    "bernoulli": frozenset({"float32"}),
    "normal": frozenset({"float32"}),
    "uniform": frozenset({"float32"}),
    # Optimizers whose ``supports_fused_on`` in torch/testing/_internal/common_optimizers.py names MPS.
    "_fused_adam": frozenset({"float32"}),
    "_fused_adamw": frozenset({"float32"}),
    "_fused_sgd": frozenset({"float32"}),
}
"""What other tests of PyTorch run on MPS than those of the lists."""
_ALLOCATING = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "resize", "set"})

Dtypes = frozenset[torch.dtype]


def with_proof(operator: str, judgement: Judgement, dtypes: Dtypes, table: KernelTable) -> Judgement:
    """``judgement`` on a call whose tensors have ``dtypes``; its evidence says so where nothing proves it."""
    if judgement.verdict != "native" or judgement.source not in ("registration", "branch"):
        return judgement
    if table.backend.key != MPS or _is_proven(operator, dtypes, table):
        return judgement
    return judgement._replace(evidence=REGISTERED_ONLY)


def _is_proven(operator: str, dtypes: Dtypes, table: KernelTable) -> bool:
    base, kernels = _base(operator), metal.kernels_of(operator, table.release)
    names = frozenset(map(dtype_name, dtypes))
    return (
        base in _ALLOCATING
        or _is_view(operator)
        or names <= _TESTED_BESIDE.get(base, frozenset())
        or names in _tested(table.release).get(base, ())
        or (kernels is not None and dtypes <= kernels.taken)
    )


@functools.cache
def _tested(release: str) -> dict[str, set[frozenset[str]]]:
    """Operator → sets of dtypes that tests of the lists that speak for ``release`` call it with, and pass."""
    tested: dict[str, set[frozenset[str]]] = {}
    for voice in lists_about(release, "own"):
        for operator, signatures in voice.accepted.items():
            dtypes = tested.setdefault(_base(operator), set())
            dtypes.update(frozenset(dtypes_in(signature)) for signature in signatures)
    return tested


@functools.cache
def _is_view(operator: str) -> bool:
    """Whether it returns another look at its argument and computes nothing."""
    try:
        return bool(overload_named(operator).is_view)
    except AttributeError:  # the release has it, the installed torch does not
        return False


@functools.cache
def _base(operator: str) -> str:
    """``aten::add_.Tensor`` → ``add``."""
    name = operator.partition("::")[2].partition(".")[0]
    return name if name.startswith("__") else name.rstrip("_")
