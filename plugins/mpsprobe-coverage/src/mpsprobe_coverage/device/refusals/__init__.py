"""What single kernels refuse although they are registered: dtypes, sizes, arguments.

Each module here stands for one source of such knowledge. It has a function ``rules(table)`` that gives, for the release
of ``table``, operator name → rules, and ``rules_of(operator, table)`` for one operator. ``rules_for`` puts them
together; the device asks them at every call of such an operator, in the order of ``_MODULES``, and takes the first
refusal. The lists of PyTorch's own tests (``listed``) come last, and what they show to be taken no other rule refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mpsprobe_coverage.device.refusals import listed, messages, metal, numbers, sizes, stubs
from mpsprobe_coverage.device.refusals.call import Call, Rule, Rules
from mpsprobe_coverage.device.refusals.listed import Lists
from mpsprobe_coverage.kernels.table import KernelTable

_MODULES: tuple[Any, ...] = (messages, numbers, sizes, metal, stubs)


class ReleaseRules(Mapping[str, tuple[Rule, ...]]):
    """The rules of one release by operator name, worked out when an operator is asked for.

    A report asks thirty releases about a few operators each; all rules of all releases would take a second.
    """

    def __init__(self, table: KernelTable, lists: Lists) -> None:
        self._table, self._lists = table, lists
        self._known: dict[str, tuple[Rule, ...]] = {}

    def __getitem__(self, operator: str) -> tuple[Rule, ...]:
        found = self._known.get(operator)
        if found is None:
            own = tuple(rule for module in _MODULES for rule in module.rules_of(operator, self._table))
            own = listed.uncontradicted(operator, own, self._table, self._lists)
            found = self._known[operator] = (*own, *listed.rules_of(operator, self._table, self._lists))
        if not found:
            raise KeyError(operator)
        return found

    def __iter__(self) -> Iterator[str]:
        names = {operator for module in _MODULES for operator in module.rules(self._table)}
        return iter(sorted(names | listed.rules(self._table, self._lists).keys()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def rules_for(table: KernelTable, lists: Lists = "own") -> Rules:
    """The rules for the release of ``table``, by operator name (``aten::addr.out``).

    Args:
        lists: which lists of PyTorch's tests are a source beside the mechanism; see ``listed``.
    """
    return ReleaseRules(table, lists)


__all__ = ["Call", "Lists", "Rule", "Rules", "rules_for"]
