"""Files of the cache: whole or not there, bounded, and never trusted."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpsprobe.answers import folder
from mpsprobe.answers.folder import MAGIC, find, keep

ASKED = {"command": "coverage", "workload": "bert-base", "options": {"phase": "training"}}
REPORT = {"kind": "coverage", "operators": []}
DOCUMENT: dict[str, Any] = {"asked": ASKED, "made": "2026-11-22T19:30:00Z", "report": REPORT}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "mpsprobe" / "answers"


def packed(document: object) -> bytes:
    return sealed(zlib.compress(json.dumps(document).encode()))


def sealed(content: bytes) -> bytes:
    return MAGIC + hashlib.sha256(b"key" + content).digest() + content


def test_what_is_kept_is_found(place: Path) -> None:
    assert keep("key", ASKED, REPORT)
    made, report = find("key", ASKED) or ("", {})
    assert report == REPORT and made.endswith("Z")
    assert find("key", {**ASKED, "workload": "gpt2"}) is None
    assert find("another", ASKED) is None
    assert [one.name for one in place.iterdir()] == ["key.answer"]
    assert folder.write("key", packed(DOCUMENT))  # what the cases below are damaged copies of
    assert find("key", ASKED) == (DOCUMENT["made"], REPORT)
    assert not keep("nan", ASKED, {"kind": float("nan")})


HOSTILE: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "another format": lambda: b"mpsprobe answer 1\n" + packed(DOCUMENT)[len(MAGIC) :],
    "cut off": lambda: packed(DOCUMENT)[:-9],
    "not compressed": lambda: sealed(json.dumps(DOCUMENT).encode()),
    "not JSON": lambda: sealed(zlib.compress(b"import os")),
    "a pickle": lambda: sealed(b"\x80\x04cos\nsystem\n(S'exit'\ntR."),
    "a list": lambda: packed([DOCUMENT]),
    "deep": lambda: sealed(zlib.compress(b"[" * 100_000)),
    "another question": lambda: packed({**DOCUMENT, "asked": [ASKED]}),
    "no time": lambda: packed({**DOCUMENT, "made": 5}),
    "a report that is none": lambda: packed({**DOCUMENT, "report": "{}"}),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_entry_is_no_answer(what: str) -> None:
    assert folder.write("key", HOSTILE[what]())
    assert find("key", ASKED) is None


def test_it_unpacks_to_no_more_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "LARGEST_TEXT", 10_000)
    assert folder.write("key", packed({**DOCUMENT, "made": "x" * 20_000}))
    assert find("key", ASKED) is None


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 10_000), value=st.integers(0, 255))
def test_a_changed_byte_is_no_answer_or_the_same(at: int, value: int) -> None:
    whole = bytearray(packed(DOCUMENT))
    whole[at % len(whole)] = value
    assert folder.write("key", bytes(whole))
    assert find("key", ASKED) in (None, (DOCUMENT["made"], REPORT))


def test_what_somebody_else_may_write_is_not_read(place: Path) -> None:
    keep("key", ASKED, REPORT)
    if hasattr(os, "getuid"):
        (place / "key.answer").chmod(0o666)
        assert find("key", ASKED) is None
        (place / "key.answer").unlink()
        os.mkfifo(place / "key.answer")  # nobody writes: it is not waited for
        assert find("key", ASKED) is None


def test_another_answer_in_its_place_is_none(place: Path) -> None:
    keep("other", ASKED, REPORT)  # the same question, in other surroundings
    (place / "other.answer").rename(place / "key.answer")
    assert find("key", ASKED) is None


def test_a_folder_in_its_place(place: Path) -> None:
    (place / "key.answer").mkdir(parents=True)
    assert find("key", ASKED) is None
    assert not keep("key", ASKED, REPORT)
    assert [one.name for one in place.iterdir()] == ["key.answer"]


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "mpsprobe").write_text("no folder")
    assert find("key", ASKED) is None
    assert not keep("key", ASKED, REPORT)
    assert folder.kept() == [] and folder.clear() == (0, 0)


def test_a_full_disk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert not keep("key", ASKED, REPORT)
    assert list(place.iterdir()) == []


def test_the_oldest_go(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MOST_ENTRIES", 3)
    place.mkdir(parents=True)
    for name, time in {"1-2.unfinished": 1, "1-3.unfinished": 4_000_000_000}.items():  # a clock was put back
        (place / name).write_bytes(b"half")
        os.utime(place / name, (time, time))
    for number in range(5):
        folder.write(f"{number}", b"x" * 10)
        os.utime(place / f"{number}.answer", (1_000_000 + number,) * 2)
    folder.write("5", b"x" * 10)
    assert sorted(one.name for one in place.iterdir()) == ["3.answer", "4.answer", "5.answer"]
    monkeypatch.setattr(folder, "MOST_BYTES", 25)
    folder.write("6", b"x" * 10)
    assert sorted(one.name for one in place.iterdir()) == ["5.answer", "6.answer"]
    assert not folder.write("7", b"x" * (folder.LARGEST + 1))
    monkeypatch.setattr(folder, "LATEST", 5)  # of years that no calendar has
    assert {one.written for one in folder.kept()} == {5}


def test_several_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads one of the answers, whole; the bound takes them away meanwhile."""
    monkeypatch.setattr(folder, "MOST_ENTRIES", 2)
    text = "{}" * 1000

    def work(number: int) -> list[object]:
        wrong: list[object] = []
        for turn in range(40):
            key = f"{(number + turn) % 4}"
            keep(key, ASKED, {"of": key, "text": text})
            found = find(key, ASKED)
            wrong += [] if found is None or found[1] == {"of": key, "text": text} else [found]
        return wrong

    with ThreadPoolExecutor(8) as pool:
        assert not [*chain.from_iterable(pool.map(work, range(8)))]
