"""The data files with what is known of single kernels: what those of the package say."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from mpsprobe.errors import TableError
from mpsprobe_coverage.kernels.kernel_facts import (
    MAGIC,
    METAL_TYPES,
    KernelFacts,
    decode_facts,
    facts_releases,
    load_facts,
)
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import data_folder, torch_releases

OLD = KernelFacts(
    "2.12.0",
    "aa",
    {"exp": frozenset({"float", "half"}), "sin": frozenset({"float"})},
    {"aten::exp": frozenset({"unary:exp"}), "aten::put_": frozenset({"stub:put_stub"})},
)
NEW = KernelFacts(
    "2.13.0",
    "bb",
    {"exp": frozenset({"float", "half", "cast:half"}), "fmax": frozenset({"float"})},
    {"aten::exp": frozenset({"unary:exp"}), "aten::fmax": frozenset({"binary:fmax", "binary:maximum"})},
)


def test_the_kernels_and_the_stubs_of_an_operator() -> None:
    assert NEW.operations("aten::fmax") == {"binary": {"fmax", "maximum"}}
    assert NEW.unset_stubs("aten::fmax") == frozenset()
    assert OLD.unset_stubs("aten::put_") == {"put_stub"}
    assert OLD.operations("aten::put_") == {}
    assert OLD.operations("aten::unknown") == {}


def _signed(document: Any) -> bytes:
    body = json.dumps(document).encode()
    return f"{MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body


@pytest.mark.parametrize(
    "document",
    [
        [],
        None,
        {},
        {"base": None, "release": "2.13.0", "sha256": "", "kernels": [], "operators": {}},
        {"base": None, "release": "2.13.0", "sha256": "", "kernels": {"float": 1}, "operators": {}},
        {"base": None, "release": "2.13.0", "sha256": "", "kernels": {}, "operators": {"unary:exp": {"aten": "exp"}}},
    ],
)
def test_a_file_of_another_form_is_an_error(document: Any) -> None:
    with pytest.raises(TableError, match="damaged"):
        decode_facts(_signed(document), "x")


def test_every_release_has_a_file_of_the_same_wheel() -> None:
    assert facts_releases() == torch_releases()
    assert load_facts("0.1.0").operators == {}
    for release in facts_releases():
        facts = load_facts(release)
        assert facts.sha256 == load_table(release).sha256


def test_the_files_are_small() -> None:
    sizes = [len((data_folder() / f"torch-{release}.kernels").read_bytes()) for release in facts_releases()]
    assert sum(sizes) < 150_000


@pytest.mark.parametrize("release", ["2.8.0", "2.13.0", "2.15.0"])
def test_what_is_known_is_about_operators_and_dtypes_that_there_are(release: str) -> None:
    facts, table = load_facts(release), load_table(release)
    assert set(facts.operators) <= table.native
    for types in facts.kernels.values():
        assert {metal.removeprefix("cast:") for metal in types} <= set(METAL_TYPES)
    for operator in facts.operators:
        for names in facts.operations(operator).values():
            assert names <= set(facts.kernels)


@pytest.mark.parametrize(
    ("release", "operator", "kind", "name", "lacking"),
    [
        ("2.13.0", "aten::exp.out", "unary", "exp", set()),
        ("2.13.0", "aten::hypot", "binary", "hypot", {"int", "long", "float2"}),
        ("2.8.0", "aten::erf.out", "unary", "erf", {"float2"}),
        ("2.13.0", "aten::upsample_bicubic2d", "named", "upsample_bicubic2d_{}", {"uchar", "long"}),
    ],
)
def test_what_the_wheels_say(release: str, operator: str, kind: str, name: str, lacking: set[str]) -> None:
    facts = load_facts(release)
    assert facts.operations(operator) == {kind: {name}}
    assert {"float", "half", "bfloat"} <= facts.kernels[name]
    assert facts.kernels[name].isdisjoint(lacking)


def test_put_has_no_kernel_in_1_13() -> None:
    facts = load_facts("1.13.1")
    assert facts.unset_stubs("aten::put_") == {"put_stub"}
