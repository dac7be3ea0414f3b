"""What single kernels refuse although they are registered: dtypes, sizes, arguments.

Each module here stands for one source of such knowledge and has a function ``rules(table)`` that gives, for the release
of ``table``, operator name → rules. ``rules_for`` puts them together; the device asks them at every call of such an
operator, in the order of ``_MODULES``, and takes the first refusal.
"""

from __future__ import annotations

from mpsprobe_coverage.device.refusals.call import Call, Rule, Rules
from mpsprobe_coverage.kernels.table import KernelTable

_MODULES: tuple[object, ...] = ()


def rules_for(table: KernelTable) -> Rules:
    """The rules for the release of ``table``, by operator name (``aten::addr.out``)."""
    found: dict[str, tuple[Rule, ...]] = {}
    for module in _MODULES:
        for operator, rules in module.rules(table).items():  # type: ignore[attr-defined]
            found[operator] = (*found.get(operator, ()), *rules)
    return found


__all__ = ["Call", "Rule", "Rules", "rules_for"]
