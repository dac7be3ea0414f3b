"""What single kernels refuse although they are registered: dtypes, sizes, arguments.

Each module here stands for one source of such knowledge and has a function ``rules(table)`` that gives, for the release
of ``table``, operator name → rules. ``rules_for`` puts them together; the device asks them at every call of such an
operator, in the order of ``_MODULES``, and takes the first refusal. The lists of PyTorch's own tests (``listed``) come
last, and what they show to be taken no other rule refuses.
"""

from __future__ import annotations

from mpsprobe_coverage.device.refusals import listed, messages, metal, numbers, sizes, stubs
from mpsprobe_coverage.device.refusals.call import Call, Rule, Rules
from mpsprobe_coverage.device.refusals.listed import Lists
from mpsprobe_coverage.kernels.table import KernelTable

_MODULES: tuple[object, ...] = (messages, numbers, sizes, metal, stubs)


def rules_for(table: KernelTable, lists: Lists = "own") -> Rules:
    """The rules for the release of ``table``, by operator name (``aten::addr.out``).

    Args:
        lists: which lists of PyTorch's tests are a source beside the mechanism; see ``listed``.
    """
    found: dict[str, tuple[Rule, ...]] = {}
    for module in _MODULES:
        for operator, rules in module.rules(table).items():  # type: ignore[attr-defined]
            found[operator] = (*found.get(operator, ()), *rules)
    found = {operator: listed.uncontradicted(operator, rules, table, lists) for operator, rules in found.items()}
    for operator, rules in listed.rules(table, lists).items():
        found[operator] = (*found.get(operator, ()), *rules)
    return found


__all__ = ["Call", "Lists", "Rule", "Rules", "rules_for"]
