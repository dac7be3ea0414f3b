"""Each rule is tested by its two examples."""

from __future__ import annotations

import ast

import pytest

from mpsprobe_fix.editing import edit
from mpsprobe_fix.facts import facts_of
from mpsprobe_fix.rule import Rule
from mpsprobe_fix.rules import RULES

# What a run found at line 3 of an example.
SEEN = {
    "missing-operator": {3: [("operator", "aten::_linalg_eigvals")]},
    "float64-seen": {3: [("float64", "aten::copy_")]},
    "contiguous": {3: [("contiguous", "aten::log.out")]},
}


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_makes_its_example_after_out_of_the_one_before(rule: Rule) -> None:
    made = edit(rule.before, "a.py", facts_of([ast.parse(rule.before)], {}), [rule], SEEN.get(rule.name))
    assert made.code == rule.after
    again = edit(made.code, "a.py", facts_of([ast.parse(made.code)], {}), RULES.values())
    assert (again.code, again.changes) == (made.code, [])
