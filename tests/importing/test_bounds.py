"""Files made to take memory: what is kept for each different thing is bounded, and the report says what it left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpsprobe.importing import columns, events
from mpsprobe.importing.report import import_trace
from mpsprobe.schemas.profile import ProfileReport
from tests.importing.trace_files import write

USUAL = {"ph": "X", "ts": 0, "dur": 1, "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1}


def _read(tmp_path: Path, *made: dict[str, Any]) -> ProfileReport:
    return import_trace(write(tmp_path, [USUAL, *({**USUAL, **one} for one in made)]))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, names in ((columns, "ROWS NAMES DETAILS"), (events, "ROWS OPEN")):
        for name in names.split():
            monkeypatch.setattr(module, f"MOST_{name}", 3)
    monkeypatch.setattr(events, "MOST_EVENTS", 12)


def test_too_many_of_one_kind(tmp_path: Path) -> None:
    for made, note in (
        ([{"tid": n} for n in range(8)], "events of more than 10,000 threads or curves, left out: 5"),
        ([{"pid": n} for n in range(8)], "events of more than 10,000 threads or curves, left out: 5"),
        ([{"name": f"a{n}"} for n in range(8)], "events of more than 3 names, left out: 6"),
        ([{"ph": "C", "name": f"a{n}", "args": {"value": 1}} for n in range(8)], "threads or curves, left out: 5"),
        ([{"cat": "timed_step", "tid": n} for n in range(8)], "threads or curves, left out: 5"),
        ([{"ph": "B", "ts": n} for n in range(8)], "events that begin while 3 others have not ended, left out: 5"),
        ([{"args": {"shapes": f"[{n}]"}} for n in range(8)], "of which there are more than 250,000: 5"),
        ([{"ts": n} for n in range(20)], "only the first 12 events of the file could be read: it has more than"),
        ([{"ph": "M", "name": "thread_name", "args": {"name": "x"}, "tid": n} for n in range(20)], "only the first 1 "),
    ):
        report = _read(tmp_path, *made)
        assert note in " ".join(one for cell in report.cells for one in cell.notes)
        assert len(report.cells[0].operators) <= 3
        trace = report.cells[0].trace
        assert trace is not None and len(trace.tracks) <= 3 and len(trace.details) <= 3


def test_a_place_is_free_again_when_an_event_ends_and_a_thread_may_have_no_name(tmp_path: Path) -> None:
    pairs = [{"ph": phase, "ts": n} for n in range(5) for phase in "BE"]
    report = _read(tmp_path, *pairs, {"tid": "\ud800"})
    assert not any("have not ended" in one for one in report.cells[0].notes)
    trace = report.cells[0].trace
    assert trace is not None and trace.tracks[1].name == "thread \N{REPLACEMENT CHARACTER}"
    assert report.model_dump_json()
