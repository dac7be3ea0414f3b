"""The data files: what every advisory must be, whatever it says."""

from __future__ import annotations

import re
from itertools import pairwise

import torch
from packaging.version import Version

from mpsprobe_coverage.advisories.model import SUBJECT, Condition
from mpsprobe_coverage.advisories.store import all_advisories, data_folder
from mpsprobe_coverage.calls.keys import operator_name
from mpsprobe_coverage.kernels.mps import MPS_FAMILY, load_table
from mpsprobe_coverage.kernels.names import resolve_operators
from mpsprobe_coverage.kernels.releases import torch_releases

ADVISORIES = all_advisories()


def _arguments(operator: str) -> set[str]:
    """The names of an operator's arguments in the installed torch."""
    namespace, name = operator.split("::")
    packet = getattr(getattr(torch.ops, namespace), name.split(".")[0])
    overloads = [getattr(packet, one) for one in packet.overloads()]
    [func] = [one for one in overloads if operator_name(one) == operator]
    return {argument.name for argument in func._schema.arguments}


def _names(condition: Condition) -> set[str]:
    subject, relation, wanted = condition
    texts = [subject, *([wanted] if isinstance(wanted, str) and relation not in ("is", "is not") else [])]
    found = [SUBJECT.fullmatch(text) for text in texts]
    return {one["name"] for one in found if one is not None}


def test_identifiers_are_unique_and_in_one_file_each() -> None:
    text = "".join(entry.read_text(encoding="utf-8") for entry in data_folder().iterdir())
    found = re.findall(r'^id = "(.*)"$', text, flags=re.MULTILINE)
    assert sorted(found) == [one.id for one in ADVISORIES]
    assert len(found) == len(set(found)) >= 20


def test_operators_are_those_of_the_tables_and_native_where_they_are_wrong() -> None:
    for advisory in ADVISORIES:
        names = [f"{name}.default" if name.count(".") == 0 else name for name in advisory.operators]
        assert resolve_operators(names, MPS_FAMILY.operators)
        assert resolve_operators(advisory.reached_from, MPS_FAMILY.operators) or not advisory.reached_from
        concerned = [one for one in torch_releases() if advisory.affects(one, load_table(one).macos_minimum)]
        for release in (advisory.torch.since or next(iter(advisory.torch.seen), concerned[-1]), concerned[-1]):
            verdicts = [load_table(release).verdict(name) for name in advisory.operators]
            assert "native" in verdicts, (advisory.id, release)


def test_releases_that_are_named_exist_and_a_range_has_no_hole() -> None:
    for advisory in ADVISORIES:
        affected = advisory.torch
        assert {one for one in (affected.since, *affected.seen, affected.fixed) if one} <= set(torch_releases())
        assert all(Version(one).major in (12, 13, 14, 15, 26, 27) for one in advisory.macos.seen)
        inside = [advisory.affects(release) for release in torch_releases()]
        assert sum(one != other for one, other in pairwise([False, *inside, False])) == 2, advisory.id
        assert all(map(advisory.affects, affected.seen)), advisory.id
        assert not affected.fixed or not advisory.affects(affected.fixed), advisory.id


def test_conditions_are_about_arguments_that_an_operator_has() -> None:
    free = {"phase", *(f"{kind}{number}" for kind in ("tensor", "output") for number in range(4))}
    for advisory in ADVISORIES:
        arguments = set().union(*map(_arguments, advisory.operators))
        for condition in (*advisory.when, *(one for group in advisory.when_any for one in group)):
            assert _names(condition) <= arguments | free, (advisory.id, condition)


def test_texts_are_short_sentences_and_each_names_a_thread_of_pytorch() -> None:
    for advisory in ADVISORIES:
        assert not advisory.title.endswith(".") and len(advisory.title) <= 110, advisory.id
        assert not advisory.condition.endswith(".") and len(advisory.condition) <= 320, advisory.id
        for text in (advisory.symptom, advisory.workaround, advisory.basis):
            assert text.endswith(".") and text[0].isupper(), advisory.id
        assert any(re.fullmatch(r"pytorch/pytorch#\d+", source) for source in advisory.sources), advisory.id
        assert len(set(advisory.sources)) == len(advisory.sources), advisory.id
