"""Complex numbers where a kernel takes its factors as real ones: "value cannot be converted to type double …".

``c10::Scalar::toDouble`` raises for a number with an imaginary part (c10/util/TypeCast.h). Which kernels call it for
``alpha`` and ``beta`` before anything else was read in the code of macOS libraries from 2.4.1 to 2.15.0:
``addr_out_mps`` in all of them, ``structured_addmm_out_mps::impl`` up to 2.14.1; 2.15.0 calls ``toComplexDouble``.
Before 2.4 both refuse complex tensors anyway (``guard.py``).
"""

from __future__ import annotations

from packaging.version import Version

from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.conditions import COMPLEX
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.table import KernelTable

_REAL_UNTIL: dict[str, str | None] = {"aten::addmm": "2.15.0", "aten::addr": None}
"""Operator, without overload or underscore → the first release that takes complex factors."""


def rules_of(operator: str, table: KernelTable) -> tuple[Rule, ...]:
    base = operator.partition(".")[0].removesuffix("_")
    since = _REAL_UNTIL.get(base)
    is_over = since is not None and Version(table.release) >= Version(since)
    if base not in _REAL_UNTIL or is_over or operator not in table.native:
        return ()
    return (Rule("factors", _refuse, (since,), (base,), COMPLEX, only_dtypes=False),)


def _refuse(call: Call, since: str | None, base: str) -> Judgement | None:
    for name in ("alpha", "beta"):
        number = call.argument(name)
        if isinstance(number, complex) and number.imag:
            evidence = f"the kernel of {base} calls Scalar::toDouble: value cannot be converted to type double"
            return refused(f"{name} is complex: the kernel takes it as a real number", since, evidence=evidence)
    return None
