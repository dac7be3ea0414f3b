"""Declared names: types checked, owners kept."""

from __future__ import annotations

from typing import Any

import pytest

from mpsprobe.declarations import ExporterDeclaration, WorkloadDeclaration
from mpsprobe.plugins.catalogue import Catalogue, checked
from mpsprobe.plugins.discovery import CORE, FoundPlugin
from mpsprobe.plugins.loading import HookFailed, Plugin


def _workload(name: Any = "a", target: Any = "m:f", **fields: Any) -> WorkloadDeclaration:
    return WorkloadDeclaration(name=name, target=target, summary="x", **fields)


def _plugin(name: str) -> Plugin:
    return Plugin(FoundPlugin(name, name, "1.0", f"{name}_plugin"))


def test_a_wrong_answer_is_told_in_words() -> None:
    for answer, problem in (
        (None, "returned a NoneType, not a list of WorkloadDeclaration"),
        ("text", "returned a str, not a list"),
        (7, "returned an int, not a list"),
        (["x"], "returned a str in its list"),
        ([ExporterDeclaration("a", "m:f", "x", ".x")], "returned an ExporterDeclaration in its list"),
        ([_workload(name=3)], "has an int as its name, which should be str"),
        ([_workload(name="")], "is not a name"),
        ([_workload(name="Upper Case")], "is not a name"),
        ([_workload(target="module.attribute")], "not of the form 'package.module:attribute'"),
        ([_workload(phases="training")], "has a str as its phases, which should be tuple"),
        ([_workload(requires=(1,))], "has a tuple as its requires"),
        ([_workload(), _workload()], "is declared twice"),
    ):
        with pytest.raises(HookFailed) as caught:
            checked(answer, "mpsprobe_workloads", WorkloadDeclaration)
        assert "mpsprobe_workloads" in str(caught.value) and problem in str(caught.value)


def test_a_right_answer_is_returned_as_a_list() -> None:
    assert checked((_workload(),), "hook", WorkloadDeclaration) == [_workload()]
    assert checked([_workload(phases=["training"])], "hook", WorkloadDeclaration)
    typed = [_workload(name="My Folder/x.py:f")]  # as the user typed it
    assert checked(typed, "hook", WorkloadDeclaration, open_names=True) == typed


def test_a_name_of_two_plugins_belongs_to_neither() -> None:
    catalogue = Catalogue("workload")
    one, two, three = _plugin("one"), _plugin("two"), _plugin("three")
    catalogue.add(one, [_workload("a"), _workload("b")])
    assert list(catalogue.refusals()) == []
    catalogue.add(two, [_workload("a")])
    [refusal] = catalogue.refusals()
    assert refusal == ("one 1.0 and two 1.0", "nobody has the workload 'a': declared by one 1.0 and two 1.0")
    catalogue.add(three, [_workload("a")])
    [refusal] = catalogue.refusals()
    assert refusal[1].endswith("'a': declared by one 1.0 and two 1.0 and three 1.0")
    assert "also declared by two 1.0 and three 1.0" in one.problems[-1]
    assert list(catalogue.usable()) == ["b"]
    assert catalogue.conflicts == {"a": [one, two, three]}
    assert catalogue.declared_by(one) == ["a", "b"]


def test_nobody_takes_a_command_away_from_the_core() -> None:
    catalogue = Catalogue("command")
    core, taker = Plugin(CORE), _plugin("taker")
    catalogue.add(core, [_workload("plugins")])
    catalogue.add(taker, [_workload("plugins")])
    [refusal] = catalogue.refusals()
    assert refusal[1] == "mpsprobe itself has the command 'plugins': what taker 1.0 declares is left out"
    assert taker.problems == ["it declares the command 'plugins', which mpsprobe itself has"]
    assert catalogue.entries["plugins"].plugin is core
    assert catalogue.conflicts == {}


def test_many_shared_names_are_one_line_for_each_group_of_plugins() -> None:
    catalogue = Catalogue("workload")
    for name, numbers in {"one": range(7), "two": range(5), "three": [6]}.items():
        catalogue.add(_plugin(name), [_workload(f"n{number}") for number in numbers])
    assert [line for _, line in catalogue.refusals()] == [
        "nobody has the workload 'n0', 'n1', 'n2' and 2 more: declared by one 1.0 and two 1.0",
        "nobody has the workload 'n6': declared by one 1.0 and three 1.0",
    ]
