"""The data files of mpsprobe-coverage: what is written comes back, and damage is reported."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.errors import TableError
from mpsprobe_coverage.judging import lists
from mpsprobe_coverage.judging.lists import Learned
from mpsprobe_coverage.kernels import kernel_facts, releases
from mpsprobe_coverage.kernels.format import MAGIC, apply, data_file, decode, to_table
from mpsprobe_coverage.kernels.kernel_facts import KernelFacts, decode_facts, facts_releases, load_facts
from mpsprobe_coverage.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.kernels.releases import data_folder
from mpsprobe_coverage.kernels.table import (
    COMPOSITE_LABELS,
    DEFINED,
    MPS_ERROR,
    MPS_FALLBACK,
    MPS_PYTHON,
    KernelTable,
)
from mpsprobe_tables.encoding import encode_facts, encode_lists, encode_table

NAMES = st.builds("{}::{}".format, st.sampled_from(["aten", "torchvision"]), st.text("abz_.", min_size=1, max_size=4))
ALL_LABELS = [DEFINED, MPS_FALLBACK, MPS_ERROR, MPS_PYTHON, *COMPOSITE_LABELS, "MPS", "SparseMPS"]
LABELS = st.frozensets(st.sampled_from(ALL_LABELS), min_size=1, max_size=4)
KEYED = st.dictionaries(st.sampled_from(["MPS", "SparseMPS"]), st.lists(NAMES, min_size=1).map(tuple), max_size=2)
TABLES = st.builds(
    KernelTable,
    family=st.just(MPS_FAMILY),
    release=st.sampled_from(["2.13.0", "2.14.1"]),
    library=st.just("torch"),
    wheel=st.text(max_size=10),
    sha256=st.text(max_size=10),
    commit=st.none() | st.text(max_size=10),
    macos_minimum=st.none() | st.just("14.0"),
    requires_torch=st.text(max_size=10),
    labels=st.dictionaries(NAMES, LABELS, max_size=8),
    markers=st.frozensets(st.text(max_size=5), max_size=3),
    only_in_binary=KEYED,
    only_declared=KEYED,
)


def _read_back(data: bytes, base: KernelTable | None) -> KernelTable:
    file = decode(data, "a.table")
    labels = {} if base is None else {o: " ".join(sorted(found)) for o, found in base.labels.items()}
    apply(file.changes, labels)
    return to_table(MPS_FAMILY, file.header, labels)


@given(TABLES, st.none() | TABLES)
def test_a_table_comes_back_from_its_difference(table: KernelTable, base: KernelTable | None) -> None:
    data = encode_table(table, base)
    assert _read_back(data, base) == table
    assert encode_table(table, base) == data


@given(TABLES)
def test_nothing_but_provenance_is_written_where_nothing_changed(table: KernelTable) -> None:
    assert decode(encode_table(table, table), "a.table").changes == {}


@given(TABLES, st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_byte_is_told(table: KernelTable, position: int, change: int) -> None:
    data = bytearray(encode_table(table, None))
    data[position % len(data)] ^= change
    with pytest.raises(TableError, match=r"a\.table is damaged") as caught:
        decode(bytes(data), "a.table")
    assert "Reinstall" in str(caught.value.hint)


@given(TABLES, st.integers(0, 10**6))
def test_a_truncated_file_is_told(table: KernelTable, length: int) -> None:
    data = encode_table(table, None)
    with pytest.raises(TableError):
        decode(data[: length % len(data)], "a.table")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"operators": 1}', b'{"operators": {"MPS": {"aten": 1}}}', b"\xff"]
)
def test_a_file_with_the_right_checksum_and_other_content_is_told(body: bytes) -> None:
    with pytest.raises(TableError):
        decode(f"{MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body, "a.table")


def test_a_header_that_lacks_something_is_told() -> None:
    with pytest.raises(TableError):
        to_table(MPS_FAMILY, {"release": "2.13.0"}, {})


def test_a_later_reader_may_add_keys() -> None:
    table = KernelTable(MPS_FAMILY, "2.13.0", {"aten::abs": frozenset({"MPS"})})
    file = decode(encode_table(table, None), "a.table")
    assert to_table(MPS_FAMILY, {**file.header, "stubs": []}, {"aten::abs": "MPS"}) == table


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
NEW_KERNELS = {"exp": "cast:half float half", "fmax": "float", "sin": ""}


def test_a_file_of_facts_holds_what_changed() -> None:
    file = decode_facts(encode_facts(NEW, OLD), "x")
    assert (file.release, file.base, file.header["sha256"]) == ("2.13.0", "2.12.0", "bb")
    assert file.kernels == NEW_KERNELS
    assert file.changes == {"aten::fmax": "binary:fmax binary:maximum", "aten::put_": ""}


def test_the_first_file_of_facts_has_no_base_and_holds_everything() -> None:
    file = decode_facts(encode_facts(OLD, None), "x")
    assert file.base is None
    assert file.changes == {"aten::exp": "unary:exp", "aten::put_": "stub:put_stub"}
    assert decode_facts(encode_facts(OLD, OLD), "x").changes == {}


@given(st.data())
def test_a_damaged_file_of_facts_is_an_error(data: st.DataObject) -> None:
    content = encode_facts(NEW, OLD)
    at = data.draw(st.integers(0, len(content) - 1))
    changed = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
    for broken in (changed, content[:at]):
        with pytest.raises(TableError, match="torch-x is damaged"):
            decode_facts(broken, "torch-x")


def _signed(document: Any) -> bytes:
    body = json.dumps(document).encode()
    return f"{kernel_facts.MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def test_later_facts_do_not_disturb() -> None:
    document = json.loads(encode_facts(NEW, OLD).partition(b"\n")[2])
    file = decode_facts(_signed({**document, "later": {"a": 1}}), "x")
    assert (file.changes, file.kernels) == ({"aten::fmax": "binary:fmax binary:maximum", "aten::put_": ""}, NEW_KERNELS)


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


def test_the_shipped_facts_are_what_encoding_them_gives() -> None:
    base = None
    for release in facts_releases():
        facts = load_facts(release)
        assert encode_facts(facts, base) == (data_folder() / f"torch-{release}.kernels").read_bytes()
        base = facts


def test_the_lists_come_back_and_say_what_changed() -> None:
    known = (
        Learned(("2.12.0",), {"aten::relu": {"int8": "relu"}}, {}, {"aten::relu": frozenset({"bool", "int16"})}),
        Learned(("2.13.0",), {}, {}, {"aten::relu": frozenset({"bool"})}),
    )
    data = encode_lists(known, {"torch": "2.13.0"})
    assert lists.decode(data) == known
    assert encode_lists(known, {"torch": "2.13.0"}) == data
    again = encode_lists((known[0], known[0]), {})
    assert b'"refused": {},\n   "unclaimed": {},\n   "accepted": {}' in again
