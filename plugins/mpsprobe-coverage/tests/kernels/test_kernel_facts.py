"""The data files with what is known of single kernels: written, read back, damaged; what those of the package say."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.errors import TableError
from mpsprobe_coverage.kernels import kernel_facts
from mpsprobe_coverage.kernels.kernel_facts import (
    MAGIC,
    METAL_TYPES,
    KernelFacts,
    decode_facts,
    encode_facts,
    facts_releases,
    load_facts,
)
from mpsprobe_coverage.kernels.releases import data_folder, torch_releases
from mpsprobe_coverage.kernels.store import load_table

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


def test_a_file_holds_what_changed() -> None:
    file = decode_facts(encode_facts(NEW, OLD), "x")
    assert (file.release, file.base, file.sha256) == ("2.13.0", "2.12.0", "bb")
    assert file.kernels == {"exp": "cast:half float half", "fmax": "float", "sin": ""}
    assert file.operators == {"aten::fmax": "binary:fmax binary:maximum", "aten::put_": ""}


def test_the_first_file_has_no_base_and_holds_everything() -> None:
    file = decode_facts(encode_facts(OLD, None), "x")
    assert file.base is None
    assert file.operators == {"aten::exp": "unary:exp", "aten::put_": "stub:put_stub"}
    assert decode_facts(encode_facts(OLD, OLD), "x").operators == {}


def test_the_kernels_and_the_stubs_of_an_operator() -> None:
    assert NEW.operations("aten::fmax") == {"binary": {"fmax", "maximum"}}
    assert NEW.unset_stubs("aten::fmax") == frozenset()
    assert OLD.unset_stubs("aten::put_") == {"put_stub"}
    assert OLD.operations("aten::put_") == {}
    assert OLD.operations("aten::unknown") == {}


@given(st.data())
def test_a_damaged_file_is_an_error(data: st.DataObject) -> None:
    content = encode_facts(NEW, OLD)
    at = data.draw(st.integers(0, len(content) - 1))
    changed = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
    for broken in (changed, content[:at]):
        with pytest.raises(TableError, match="torch-x are damaged"):
            decode_facts(broken, "torch-x")


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
        {"base": None, "release": "2.13.0", "sha256": "", "kernels": {}, "operators": {"unary:exp": "exp"}},
    ],
)
def test_a_file_of_another_form_is_an_error(document: Any) -> None:
    with pytest.raises(TableError, match="damaged"):
        decode_facts(_signed(document), "x")


def test_later_facts_do_not_disturb() -> None:
    document = json.loads(encode_facts(NEW, OLD).partition(b"\n")[2])
    assert decode_facts(_signed({**document, "later": {"a": 1}}), "x") == decode_facts(encode_facts(NEW, OLD), "x")


def test_a_file_that_does_not_fit_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch-2.12.0.kernels").write_bytes(encode_facts(OLD, None))
    (tmp_path / "torch-2.13.0.kernels").write_bytes(encode_facts(NEW, None))
    monkeypatch.setattr(kernel_facts, "data_folder", lambda: tmp_path)
    _forget()
    try:
        assert load_facts("2.12.0") == OLD
        with pytest.raises(TableError, match=r"2\.13\.0 do not fit"):
            load_facts("2.13.0")
    finally:
        _forget()


def _forget() -> None:
    for cached in (facts_releases, load_facts, kernel_facts._file):
        cached.cache_clear()  # type: ignore[attr-defined]


def test_every_release_has_a_file_of_the_same_wheel() -> None:
    assert facts_releases() == torch_releases()
    assert load_facts("0.1.0") is None
    base = None
    for release in facts_releases():
        facts = load_facts(release)
        assert facts is not None
        assert facts.sha256 == load_table(release).sha256
        assert encode_facts(facts, base) == (data_folder() / f"torch-{release}.kernels").read_bytes()
        base = facts


def test_the_files_are_small() -> None:
    sizes = [len((data_folder() / f"torch-{release}.kernels").read_bytes()) for release in facts_releases()]
    assert sum(sizes) < 150_000


@pytest.mark.parametrize("release", ["2.8.0", "2.13.0", "2.15.0"])
def test_what_is_known_is_about_operators_and_dtypes_that_there_are(release: str) -> None:
    facts, table = load_facts(release), load_table(release)
    assert facts is not None
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
    assert facts is not None
    assert facts.operations(operator) == {kind: {name}}
    assert {"float", "half", "bfloat"} <= facts.kernels[name]
    assert facts.kernels[name].isdisjoint(lacking)


def test_put_has_no_kernel_in_1_13() -> None:
    facts = load_facts("1.13.1")
    assert facts is not None
    assert facts.unset_stubs("aten::put_") == {"put_stub"}
