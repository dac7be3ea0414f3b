"""Dtypes that an operator has no Metal kernel for: "Failed to create function state object for: hypot_dense_int_int".

Only operators whose kernel can compute in no other way are judged (``kernels/kernel_facts.py``), and of these only
calls where it is certain which dtype the name of the kernel is made from. The type of the result stands in the name,
too: in every release whole numbers have kernels by element for float32 (``div_true_dense_float_long``), and for no
other floating-point result, such as the default dtype may ask for. From 2.13 on those of one operand convert it.
"""

from __future__ import annotations

import functools
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from packaging.version import Version

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import dtype_name
from mpsprobe_coverage.knowledge.judging.conditions import BOOL, FLOATING, INTEGRAL
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.kernel_facts import CONVERTING, METAL_TYPES, NAMED, facts_releases, load_facts
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

_TYPE_OF = {getattr(torch, dtype): metal for metal, dtype in METAL_TYPES.items()}
_CONVERTING_RESULT = "2.13.0"
_OF_TORCHVISION = re.compile(
    r"torchvision::(nms|deform_conv2d|(ps_)?roi_(align|pool)|_(ps_)?roi_(align|pool)_backward)"
)
"""They have Metal kernels for float32 and float16 alone: ``REGISTER_NMS_OP(float);`` and its like in the Metal source
inside ``_C.so`` of each release for macOS, 0.16.0 to 0.29.2. Each kernel is named after the first tensor."""
_OPERANDS = {NAMED: 0, "unary": 1, "binary": 2, "ternary": 3}


@dataclass(frozen=True)
class MetalKernels:
    """An operator that computes with Metal kernels alone, and the types that these are there for."""

    # How many tensors kernels that compute by element read; 0 where another kernel is named after the first tensor, or,
    # without a tensor, after the result.
    operands: int
    types: frozenset[str]  # of Metal, of its input, marked as in ``KernelFacts.kernels``
    converts: bool  # a kernel that reads one tensor converts its result to the dtype that was asked for
    names: tuple[str, ...] = field(compare=False)  # of the kernels: operations (`exp`) or patterns (`col2im_kernel_{}`)
    operator: str = field(compare=False)
    release: str = field(compare=False)  # of torch
    library: str = field(default="", compare=False)  # which has the kernels, if not torch

    @property
    def taken(self) -> frozenset[torch.dtype]:
        """Those with a kernel that reads them as they are."""
        return frozenset(dtype for dtype, metal in _TYPE_OF.items() if metal in self.types)

    def refuse(self, call: Call) -> Judgement | None:
        if any(spec.numel == 0 for spec in call.outputs):  # nothing to compute: no kernel is asked for
            return None
        dtypes = self._dtypes(call)
        wanted = _wanted(dtypes, call)
        if not wanted or not self.types.isdisjoint(wanted):
            return self._of_result(dtypes, call)
        names = " and ".join(dict.fromkeys(map(dtype_name, dtypes)))
        listed = ", ".join(sorted(METAL_TYPES[metal] for metal in self.types if metal in METAL_TYPES))
        return refused(
            f"no Metal kernel '{' or '.join(self.names)}' for {names}",
            _taken_since(self.operator, self.operands, wanted),
            source="metal",
            evidence=f"{self.library or f'torch {self.release}'} has it for {listed}",
        )

    def _of_result(self, dtypes: tuple[torch.dtype, ...], call: Call) -> Judgement | None:
        if not self.operands or self.converts or len(set(dtypes)) != 1 or len(call.outputs) != 1:
            return None
        read, made = dtypes[0], call.outputs[0].dtype
        if read not in INTEGRAL | BOOL or made not in FLOATING or made is torch.float32:
            return None
        return refused(
            f"no Metal kernel '{' or '.join(self.names)}' for a result of {dtype_name(made)}",
            _CONVERTING_RESULT if self.operands == 1 else None,
            source="metal",
            evidence=f"torch {self.release} has none that ends in {_TYPE_OF[made]}_{_TYPE_OF[read]}",
        )

    def _dtypes(self, call: Call) -> tuple[torch.dtype, ...]:
        """The dtypes that the name of the kernel is made from; empty where that is not certain."""
        dtypes = _operands(call)
        if self.operands:
            return dtypes if dtypes is not None and len(dtypes) == self.operands else ()
        if not dtypes:
            return () if dtypes is None or len(call.outputs) != 1 else (call.outputs[0].dtype,)
        return dtypes[:1]


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    kernels = kernels_of(operator, table.release)
    if kernels is None:
        return ()
    return (Rule("metal", _refuse, (kernels,), dtypes=frozenset(_TYPE_OF) - kernels.taken),)


def _refuse(call: Call, kernels: MetalKernels) -> Judgement | None:
    return kernels.refuse(call)


def kernels_of(operator: str, release: str) -> MetalKernels | None:
    if _OF_TORCHVISION.fullmatch(operator):
        name = operator.removeprefix("torchvision::").lstrip("_")
        kernel = f"{'deformable_im2col' if name == 'deform_conv2d' else name}_{{}}"
        return MetalKernels(0, frozenset({"float", "half"}), False, (kernel,), operator, release, "torchvision")
    return _kernels(release).get(operator)


@functools.cache
def _kernels(release: str) -> dict[str, MetalKernels]:
    facts = load_facts(release)
    kernels = {}
    for operator in facts.operators:
        kinds = facts.operations(operator)
        names = sorted(frozenset[str]().union(*kinds.values()))
        types = frozenset[str]().union(*(facts.kernels[name] for name in names))
        kind = NAMED if NAMED in kinds else next(iter(kinds), None)
        if kind in _OPERANDS and (kind == NAMED or len(kinds) == 1):
            converts = _OPERANDS[kind] == 1 and Version(release) >= Version(_CONVERTING_RESULT)
            kernels[operator] = MetalKernels(_OPERANDS[kind], types, converts, tuple(names), operator, release)
    return kernels


def _operands(call: Call) -> tuple[torch.dtype, ...] | None:
    """Dtypes of the tensors that the operator reads; None when a plain number stands in the place of one."""
    dtypes: list[torch.dtype] = []
    for argument in call.func._schema.arguments:
        if argument.is_out:
            continue
        value: Any = call.argument(argument.name)
        if isinstance(value, torch.Tensor):
            dtypes.append(value.dtype)
        elif isinstance(value, (list, tuple)):
            dtypes += [item.dtype for item in value if isinstance(item, torch.Tensor)]
        elif isinstance(value, (bool, int, float, complex)) and str(argument.type) == "Tensor":
            return None
    return tuple(dtypes)


def _wanted(dtypes: tuple[torch.dtype, ...], call: Call) -> frozenset[str]:
    """The Metal types one of which a kernel must read, marked where it must also convert; empty: not known."""
    if not dtypes or any(dtype not in _TYPE_OF for dtype in dtypes):
        return frozenset()
    if len(set(dtypes)) == 1:
        return frozenset({_TYPE_OF[dtypes[0]]})
    if len(dtypes) != 2 or len(call.outputs) != 1:
        return frozenset()
    # Operands of two dtypes meet in a third, which the kernel is named after; or in that of the result.
    common = {*dtypes, call.outputs[0].dtype}
    with suppress(RuntimeError):  # uint16 and its like meet no other dtype
        common.add(torch.promote_types(*dtypes))
    types = {_TYPE_OF[dtype] for dtype in common if dtype in _TYPE_OF}
    return frozenset(types | {CONVERTING + metal for metal in types})


@functools.cache
def _taken_since(operator: str, operands: int, wanted: frozenset[str]) -> str | None:
    """The first release from which on each release is known to have such a kernel."""

    def takes(release: str) -> bool:
        kernels = _kernels(release).get(operator)
        return kernels is not None and kernels.operands == operands and not kernels.types.isdisjoint(wanted)

    return since_without_gap(facts_releases(), takes)
