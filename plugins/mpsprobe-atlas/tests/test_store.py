"""The store: what it keeps, for whom, and what it refuses; and the packed answers in it."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mpsprobe.declarations import PHASES
from mpsprobe.errors import OutputError, ReportError, UsageError
from mpsprobe.plugins.registry import get_registry
from mpsprobe_atlas import answering, shipping
from mpsprobe_atlas.answers import LARGEST_HEAD, PACKED, OperatorAnswer, joined, pack, unpack
from mpsprobe_atlas.shipping import ship, unship
from mpsprobe_atlas.store import INDEX, Key, Row, Store, WritableStore
from mpsprobe_coverage.knowledge.kernels.releases import torch_releases

SHIPPED = Path(answering.__file__).parent / "data" / "atlas"
LARGEST = 15_000_000  # bytes
ABOUT = {"versions": {"torch": "2.13.0", "transformers": "5.23.0"}, "releases": ["2.13.0"], "plan": {}}
ANSWERED = Row("bert", "real", "inference", "float32", "answered", seconds=1.5, architecture="Bert", answer=b"\0packed")
FAILED = Row("gpt", "real", "training", "float32", "failed", error="it hangs", hint="wait", attempts=3)


def made(path: Path, about: Mapping[str, Any] = ABOUT) -> Path:
    with WritableStore(path, about) as store:
        store.add(ANSWERED)
        store.add(FAILED)
    return path


def test_rows_come_back_and_a_later_sweep_goes_on(tmp_path: Path) -> None:
    path = made(tmp_path / "atlas.sqlite")
    later = Key("bert", "real", "training", "float32")
    with WritableStore(path, {**ABOUT, "plan": {"names": 2}}) as store:
        assert {row.key for row in store.rows()} == {ANSWERED.key, FAILED.key}
    with Store(path) as store:
        assert store.about() == {**ABOUT, "plan": {"names": 2}}
        assert [row.answer for row in store.rows()] == [None, None]
        assert store.row(*ANSWERED.key) == ANSWERED
        assert store.row(*FAILED.key) == FAILED
        assert store.row(*later) is None


def test_a_row_is_there_before_the_store_is_closed_and_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "atlas.sqlite"
    with WritableStore(path, ABOUT) as store:
        store.add(ANSWERED)
        with Store(path) as reader:
            assert [row.key for row in reader.rows()] == [ANSWERED.key]
        with pytest.raises(UsageError, match="another sweep is writing"):
            WritableStore(path, ABOUT)
        store.add(FAILED)
    with WritableStore(path, ABOUT) as store:
        assert len(store.rows()) == 2


def test_a_store_of_other_versions_is_not_gone_on_with(tmp_path: Path) -> None:
    path = made(tmp_path / "atlas.sqlite")
    with pytest.raises(UsageError, match=r"other versions \(torch 2.13.0, now 2.14.0\)"):
        WritableStore(path, {**ABOUT, "versions": {**ABOUT["versions"], "torch": "2.14.0"}})  # type: ignore[dict-item]


def text(path: Path) -> None:
    path.write_text("not a database, but long enough to be one for the first sixteen bytes\n" * 20)


def other(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE rows (id)")


def newer(path: Path) -> None:
    with closing(sqlite3.connect(made(path))) as database:
        database.execute("PRAGMA user_version = 3")


def with_code(path: Path) -> None:
    with closing(sqlite3.connect(made(path))) as database:
        database.execute("CREATE TRIGGER added AFTER INSERT ON rows BEGIN DELETE FROM rows; END")


def half(path: Path) -> None:
    with WritableStore(made(path), ABOUT) as store:
        for number in range(100):
            store.add(Row(f"w{number}", "real", "inference", "float32", "answered", answer=os.urandom(4000)))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


@pytest.mark.parametrize("spoil", [text, other, newer, with_code, half])
def test_a_file_that_is_no_sound_store_is_refused_and_left_alone(tmp_path: Path, spoil: Any) -> None:
    path = tmp_path / "atlas.sqlite"
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(ReportError) as refused:
        WritableStore(path, ABOUT)
    assert refused.value.hint
    with pytest.raises(ReportError), Store(path) as store:
        for row in store.rows():
            store.row(*row.key)
    assert path.read_bytes() == before


def test_a_full_disk_loses_no_row(tmp_path: Path) -> None:
    path = made(tmp_path / "atlas.sqlite")
    with WritableStore(path, ABOUT) as store:
        store._database.execute(f"PRAGMA max_page_count = {store._value('PRAGMA page_count')}")
        with pytest.raises(OutputError, match="full") as refused:
            for number in range(20):
                store.add(Row(f"w{number}", "real", "inference", "float32", "answered", answer=os.urandom(9000)))
        assert "make room" in str(refused.value.hint)
    with Store(path) as store:
        assert {ANSWERED.key, FAILED.key} <= {row.key for row in store.rows()}


def drawn(count: int, words: list[str], *releases: str) -> bytes:
    """An answer with a curve of memory for each release."""
    operators = [{"operator": "aten::mm", "verdict": "native", "modules": words[count:]}]
    reports = {one: {"torch": one, "operators": operators, "memory": {"curve": [count]}} for one in releases}
    return pack(reports, {releases[0]: {"8": "fits"}})


def test_what_a_package_ships_is_small_and_nobody_need_write_it(tmp_path: Path) -> None:
    path, target = made(tmp_path / "atlas.sqlite"), tmp_path / "atlas"
    words = [f"{random.getrandbits(64):x}" for _ in range(2000)]
    with WritableStore(path, ABOUT) as store:
        store.add(replace(ANSWERED, answer=pack({}, {})))
        for count in range(20):
            packed = drawn(count, words, "2.0.0", "2.1.0")
            store.add(Row(f"w{count}", "real", "training", "float32", "answered", answer=packed, rules="{}"))
    ship(path, target)
    assert sum(file.stat().st_size for file in target.iterdir()) < path.stat().st_size / 2
    with Store(path) as store, Store(target) as shipped:
        assert shipped.rows() == store.rows() and shipped.about() == store.about()
        assert shipped.row(*FAILED.key) == FAILED
        for key in [row.key for row in store.rows() if row.state == "answered"]:
            ours, theirs = (unpack(one.row(*key).answer) for one in (store, shipped))  # type: ignore[union-attr, arg-type]
            assert theirs.releases == ours.releases and theirs.fits == ours.fits
            if ours.releases:
                assert theirs.report("2.1.0") == ours.report("2.1.0")
                assert theirs.report("2.0.0") == {**ours.report("2.0.0"), "memory": {"curve": []}}
        heads = {row.key: unpack(row.answer or b"").findings() for row in shipped.heads()}
        assert heads == {row.key: unpack(row.answer or b"").findings() for row in store.heads()} and len(heads) == 21
    before = {file.name: file.read_bytes() for file in target.iterdir()}
    unship(target, tmp_path / "again.sqlite")
    ship(tmp_path / "again.sqlite", target)
    assert {file.name: file.read_bytes() for file in target.iterdir() if file.name != INDEX}.items() <= before.items()
    (tmp_path / "other").mkdir()
    with pytest.raises(OutputError, match="there already"):
        ship(path, tmp_path / "other")


def test_shipping_again_changes_only_blocks_with_something_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "BLOCK", 100_000)
    words, target = [f"{random.getrandbits(64):x}" for _ in range(2000)], tmp_path / "atlas"

    def shipped(number: int, answers: Mapping[int, bytes]) -> set[str]:
        with WritableStore(tmp_path / f"{number}.sqlite", ABOUT) as store:
            for count, answer in answers.items():
                store.add(Row(f"w{count}", "real", "training", "float32", "answered", answer=answer))
        ship(tmp_path / f"{number}.sqlite", target)
        return {file.name for file in target.iterdir()} - {INDEX}

    first = shipped(0, {count: drawn(count, words, "2.0.0", "2.1.0") for count in range(20)})
    assert len(first) >= 5 and shipped(1, {3: drawn(3, words, "2.0.0", "2.1.0")}) == first
    newer = shipped(2, {count: drawn(count, words, "2.0.0", "2.1.0", "2.2.0") for count in range(20)})
    assert first < newer
    changed = shipped(
        3, {7: drawn(8, words, "2.0.0", "2.1.0", "2.2.0")}
    )  # its second segment goes, its first is another
    assert len(newer - changed) == 2 and len(changed - newer) == 2
    with Store(target) as store:
        for count, like in ((6, 6), (7, 8)):
            row = store.row(f"w{count}", "real", "training", "float32")
            assert row is not None and row.answer is not None
            ours, theirs = unpack(drawn(like, words, "2.0.0", "2.1.0", "2.2.0")), unpack(row.answer)
            assert theirs.releases == ours.releases and theirs.fits == ours.fits
            assert len(theirs.segments) == (2 if count == 6 else 1)
            for release in ours.releases:
                assert theirs.report(release)["operators"] == ours.report(release)["operators"]


def test_the_shipped_one_knows_every_named_workload_on_every_release_or_says_why_not() -> None:
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) <= LARGEST
    with Store(SHIPPED) as store:
        assert tuple(store.about()["releases"]) == torch_releases()
        types = {name for name in store.about()["plan"]["names"] if name.startswith("hf:")}
        rows = store.rows()
    known = {(row.workload, row.phase) for row in rows}
    named = get_registry().workloads()
    assert {(name, phase) for name, one in named.items() for phase in one.phases if phase in PHASES} <= known
    assert types and {(name, phase) for name in types for phase in PHASES} <= known
    failed = [row.error for row in rows if row.state == "failed"]
    assert all(failed) and len(failed) < len(rows) / 10


leaves = some.none() | some.booleans() | some.integers(-(2**53), 2**53) | some.floats(allow_nan=False) | some.text()
documents = some.recursive(leaves, lambda one: some.lists(one) | some.dictionaries(some.text(), one), max_leaves=8)


@settings(max_examples=50)
@given(some.dictionaries(some.text(), some.dictionaries(some.text(), documents, max_size=4), max_size=3))
def test_what_is_packed_comes_back(reports: dict[str, dict[str, object]]) -> None:
    answers = unpack(pack(reports, {release: {"8": "fits"} for release in reports}))
    assert answers.releases == tuple(reports)
    for release, report in reports.items():
        found = answers.report(release)
        assert found == report and repr(found) == repr(report)  # 1, 1.0 and True are equal
        assert answers.fits[release] == {8: "fits"}


def test_a_release_with_the_same_findings_takes_hardly_more() -> None:
    def report(release: str, verdict: str) -> dict[str, object]:
        operators = [{"operator": f"aten::{n}", "verdict": "native", "shapes": [f"{n}x{n}"]} for n in range(200)]
        worst = {"operator": "aten::mm", "verdict": verdict, "shapes": []}
        return {"target": {"torch": release}, "operators": [worst, *operators]}

    one = {"2.0.0": report("2.0.0", "missing")}
    many = {f"2.{n}.0": report(f"2.{n}.0", "missing" if n < 3 else "native") for n in range(10)}
    assert len(pack(many, {})) < 1.5 * len(pack(one, {}))
    found = unpack(pack(many, {})).findings()
    with pytest.raises(KeyError):
        unpack(pack(many, {})).report("2.99.0")
    assert found[0] == OperatorAnswer("aten::mm", "missing", ("2.0.0", "2.1.0", "2.2.0"))
    assert OperatorAnswer("aten::mm", "native", tuple(f"2.{n}.0" for n in range(3, 10))) in found


def test_what_is_damaged_is_an_error() -> None:
    first_format = b'{"format": 1, "releases": ["2.0.0"], "lengths": [2], "operators": [], "fits": {}}'
    for data in (b"", b"x", *(joined(head, b"{}") for head in (b"[]", b"{}", b"{", first_format))):
        with pytest.raises(ReportError, match="damaged"):
            unpack(data)
    endless = joined(b" " * LARGEST_HEAD + b"{}", b"", PACKED)
    with pytest.raises(ReportError, match="damaged"):
        unpack(endless)
    with pytest.raises(ReportError, match="newer"):
        unpack(joined(b'{"format": 99}', b""))
    data = pack({"2.0.0": {"operators": []}}, {})
    [segment] = unpack(data).segments
    for damaged in (data[:-4], data[:-8] + b"damaged!", joined(segment.head, b"[" * segment.length)):
        answers = unpack(damaged)
        assert answers.releases == ("2.0.0",)
        with pytest.raises(ReportError, match="damaged"):
            answers.report("2.0.0")
