"""The data files: the shipped ones are what encoding gives, what is written comes back, and damage is reported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.errors import TableError
from mpsprobe_coverage.judging import lists
from mpsprobe_coverage.judging.lists import Learned
from mpsprobe_coverage.kernels import kernel_facts, releases
from mpsprobe_coverage.kernels.compositions import composition_releases, load_compositions
from mpsprobe_coverage.kernels.format import MAGIC, apply, data_file, decode, to_table
from mpsprobe_coverage.kernels.kernel_facts import KernelFacts, decode_facts, facts_releases, load_facts
from mpsprobe_coverage.kernels.mps import MPS_FAMILY, load_table
from mpsprobe_coverage.kernels.releases import data_folder, library_releases
from mpsprobe_coverage.kernels.table import KernelTable
from mpsprobe_tables import expectations, messages, module_marks
from mpsprobe_tables.encoding import encode_compositions, encode_facts, encode_lists, encode_table
from mpsprobe_tables.expectations import DATA, expectation_releases, load_expectations

EMPTY = KernelTable(MPS_FAMILY, "2.12.1", {})
TABLE = KernelTable(
    MPS_FAMILY,
    "2.13.0",
    {"aten::abs": frozenset({"defined", "MPS"}), "torchvision::nms": frozenset({"SparseMPS"})},
    wheel="a.whl",
    sha256="aa",
    commit="c0ffee",
    macos_minimum="14.0",
    requires_torch="==2.13.0",
    markers=frozenset({"one", "two"}),
    only_in_binary={"MPS": ("aten::abs",), "SparseMPS": ("torchvision::nms", "aten::abs")},
    only_declared={"MPS": ("aten::new",)},
)
LATER = KernelTable(
    MPS_FAMILY, "2.14.1", {**TABLE.labels, "aten::abs": frozenset({"defined"}), "aten::new": frozenset({"MPS"})}
)
EXPECTED = partial(expectations.decode, base=None)


@pytest.mark.parametrize(
    ("name", "known", "load", "encode", "folder"),
    [
        *(
            (
                f"{name}-{{}}.table",
                library_releases(name),
                partial(load_table, library=name),
                encode_table,
                data_folder(),
            )
            for name in ("torch", "torchvision")
        ),
        ("torch-{}.kernels", facts_releases(), load_facts, encode_facts, data_folder()),
        ("torch-{}.compositions", composition_releases(), load_compositions, encode_compositions, data_folder()),
        ("torch-{}.messages", messages.message_releases(), messages.load_messages, messages.encode, DATA),
        ("torch-{}.expectations", expectation_releases(), load_expectations, expectations.encode, DATA),
        ("torch-{}.modules", module_marks.module_releases(), module_marks.load_marks, module_marks.encode, DATA),
    ],
)
def test_every_shipped_file_is_what_encoding_its_content_gives(
    name: str, known: Sequence[str], load: Callable[..., Any], encode: Callable[..., bytes], folder: Path
) -> None:
    wrong, base = [], None
    for release in known:
        found = load(release)
        wrong += [] if encode(found, base) == (folder / name.format(release)).read_bytes() else [release]
        base = found
    assert len(known) > 10 and not wrong


@pytest.mark.parametrize("module", [expectations, module_marks], ids=["expectations", "marks of modules"])
def test_a_file_that_does_not_fit_is_told(module: Any) -> None:
    load = load_expectations if module is expectations else module_marks.load_marks
    older, newer = load("2.12.1"), load("2.13.0")
    assert module.decode(module.encode(newer, None), "x", None) == newer
    with pytest.raises(TableError, match="x does not fit"):
        module.decode(module.encode(newer, older), "x", None)


def test_a_table_comes_back_from_its_difference() -> None:
    for table in (EMPTY, TABLE, LATER):
        for base in (None, EMPTY, TABLE, LATER):
            file = decode(encode_table(table, base), "a.table")
            labels = {} if base is None else {name: " ".join(sorted(known)) for name, known in base.labels.items()}
            apply(file.changes, labels)
            assert to_table(MPS_FAMILY, {**file.header, "later": []}, labels) == table, "a later reader may add keys"
            assert base != table or file.changes == {}
    with pytest.raises(TableError):
        to_table(MPS_FAMILY, {"release": "2.13.0"}, {})


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_file_is_told(position: int, change: int) -> None:
    for whole, read in (
        (encode_table(TABLE, EMPTY), decode),
        (encode_facts(NEW, OLD), decode_facts),
        ((DATA / "torch-2.8.0.expectations").read_bytes(), EXPECTED),
    ):
        at = position % len(whole)
        for data in (whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :], whole[:at]):
            with pytest.raises(TableError, match="x is damaged") as caught:
                read(data, "x")
            assert "Reinstall" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("magic", "read", "further"),
    [
        (MAGIC, decode, [b'{"operators": 1}', b'{"operators": {"MPS": {"aten": 1}}}']),
        (expectations.MAGIC, EXPECTED, [b'{"base": null, "sections": 1}', b'{"base": "2.8.0"}']),
    ],
    ids=["a table", "expectations"],
)
def test_a_file_with_the_right_checksum_and_other_content_is_told(
    magic: str, read: Callable[..., Any], further: Sequence[bytes]
) -> None:
    for body in (b"", b"[]", b"{}", b"\xff", *further):
        with pytest.raises(TableError, match="the data file x"):
            read(f"{magic} {hashlib.sha256(body).hexdigest()}\n".encode() + body, "x")


def _facts(release: str, kernels: dict[str, str], operators: dict[str, str]) -> KernelFacts:
    split = ({name: frozenset(known.split()) for name, known in part.items()} for part in (kernels, operators))
    return KernelFacts(release, "aa", *split)


OLD = _facts("2.12.0", {"exp": "float half", "sin": "float"}, {"aten::exp": "unary:exp", "aten::put_": "stub:put_stub"})
NEW = _facts(
    "2.13.0",
    {"exp": "float half cast:half", "fmax": "float"},
    {"aten::exp": "unary:exp", "aten::fmax": "binary:fmax binary:maximum"},
)


def test_a_file_of_facts_holds_what_changed() -> None:
    document = json.loads(encode_facts(NEW, OLD).partition(b"\n")[2])
    body = json.dumps({**document, "later": {"a": 1}}).encode()
    later = f"{kernel_facts.MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body
    for data in (encode_facts(NEW, OLD), later):
        file = decode_facts(data, "x")
        assert (file.release, file.base, file.header["sha256"]) == ("2.13.0", "2.12.0", "aa")
        assert file.kernels == {"exp": "cast:half float half", "fmax": "float", "sin": ""}
        assert file.changes == {"aten::fmax": "binary:fmax binary:maximum", "aten::put_": ""}


def test_facts_that_do_not_fit_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch-2.12.0.kernels").write_bytes(encode_facts(OLD, None))
    (tmp_path / "torch-2.13.0.kernels").write_bytes(encode_facts(NEW, None))
    monkeypatch.setattr(releases, "data_folder", lambda: tmp_path)
    _forget()
    try:
        assert load_facts("2.12.0") == OLD
        with pytest.raises(TableError, match=r"2\.13\.0\.kernels does not fit"):
            load_facts("2.13.0")
    finally:
        _forget()


def _forget() -> None:
    for cached in (releases.library_releases, load_facts, data_file):
        cached.cache_clear()  # type: ignore[attr-defined]


def test_the_lists_come_back_and_say_what_changed() -> None:
    known = (
        Learned(("2.12.0",), {"aten::relu": {"int8": "relu"}}, {}, {"aten::relu": frozenset({"bool", "int16"})}),
        Learned(("2.13.0",), {}, {}, {"aten::relu": frozenset({"bool"})}),
    )
    assert lists.decode(encode_lists(known, {"torch": "2.13.0"})) == known
    again = encode_lists((known[0], known[0]), {})
    assert b'"refused": {},\n   "unclaimed": {},\n   "accepted": {}' in again
