"""Complex numbers where a kernel takes its factors as real ones: "value cannot be converted to type double …".

``c10::Scalar::toDouble`` raises for a number with an imaginary part (c10/util/TypeCast.h). Which kernels call it for
``alpha`` and ``beta`` before anything else was read in the code of macOS libraries from 2.4.1 to 2.15.0:
``addr_out_mps`` in all of them, ``structured_addmm_out_mps::impl`` up to 2.14.1; 2.15.0 calls ``toComplexDouble``.
Before 2.4 both refuse complex tensors anyway (``messages_linear_algebra``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from packaging.version import Version

from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.refusals.call import Call, Rule
from mpsprobe_coverage.device.refusals.messages_guards import COMPLEX
from mpsprobe_coverage.kernels.table import KernelTable

FACTORS = ("alpha", "beta")
_REAL_UNTIL: dict[str, str | None] = {"aten::addmm": "2.15.0", "aten::addr": None}
"""Operator, without overload or underscore → the first release that takes complex factors."""


@dataclass(frozen=True)
class RealFactors:
    """The factors of a product are taken as real numbers."""

    accepted_since: str | None
    evidence: str = field(compare=False)

    @property
    def dtypes(self) -> frozenset[torch.dtype]:
        return COMPLEX

    @property
    def only_dtypes(self) -> bool:
        """False: a test that passes without such a number does not contradict the rule."""
        return False

    def __call__(self, call: Call) -> Refusal | None:
        for name in FACTORS:
            number = call.argument(name)
            if isinstance(number, complex) and number.imag:
                reason = f"{name} is complex: the kernel takes it as a real number"
                return Refusal(reason, self.accepted_since, source="message", evidence=self.evidence)
        return None


def rules(table: KernelTable) -> dict[str, tuple[Rule, ...]]:
    """A rule for each overload of these operators that has a kernel."""
    found = {operator: rules_of(operator, table) for operator in table.native}
    return {operator: made for operator, made in found.items() if made}


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    """The rule of one operator, if there is one."""
    base = operator.partition(".")[0].removesuffix("_")
    if table.library != "torch" or base not in _REAL_UNTIL or operator not in table.native:
        return ()
    since = _REAL_UNTIL[base]
    if since is not None and Version(table.release) >= Version(since):
        return ()
    evidence = f"the kernel of {base} calls Scalar::toDouble: value cannot be converted to type double"
    return (RealFactors(since, evidence),)
