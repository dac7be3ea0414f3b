"""JSON that is read through a window, whole and damaged; profiles of TensorFlow, and files that pretend to be some."""

from __future__ import annotations

import gzip
import json
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_profile import HOST, field, profile
from trace_files import packed, write

from mpsprobe.errors import ReportError
from mpsprobe.schemas import ProfileCell
from mpsprobe_devices.traces import stream, tensorflow
from mpsprobe_devices.traces.report import import_trace
from mpsprobe_devices.traces.stream import TraceFile

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)


def trace(folder: Path, content: str | bytes) -> TraceFile:
    path = folder / "t.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return TraceFile(path)


def events(folder: Path, content: str | bytes) -> list[Any]:
    return list(trace(folder, content).events())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    found=st.lists(values, max_size=6),
    head=st.dictionaries(st.text().filter(lambda key: key != "traceEvents"), values, max_size=3),
    size=st.integers(1, 9),
    indent=st.sampled_from([None, 2]),
)
def test_any_json_comes_back_however_little_is_read_at_once(
    found: list[Any], head: dict[str, Any], size: int, indent: int | None, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "CHUNK", size)
        source = trace(tmp_path, json.dumps({**head, "traceEvents": found, "after": 12345}, indent=indent))
        assert list(source.events()) == found
    assert source.head == {**head, "after": 12345} and source.problem is None


def test_the_head_is_there_before_the_first_event(tmp_path: Path) -> None:
    source = trace(tmp_path, '{"a": {"b": 1}, "traceEvents": [1, 2], "c": 3}')
    assert next(source.events()) == 1 and source.head == {"a": {"b": 1}}
    # A list of events is a trace too, and may end without its bracket.
    assert events(tmp_path, '[{"ph": "X"}, {"ph": "M"}]') == [{"ph": "X"}, {"ph": "M"}]
    source = trace(tmp_path, '[{"ph": "X"},')
    assert list(source.events()) == [{"ph": "X"}] and source.problem is not None


def test_words_for_no_number_become_none_or_a_float_and_any_text_is_read(tmp_path: Path) -> None:
    for word in ("nan", "-nan", "inf", "-inf", "N/A", "nan(ind)", "-Infinity"):
        first, second = events(tmp_path, f'{{"traceEvents": [{{"a": {word}, "b": "{word}"}}, {{"a": 1}}]}}')
        assert first["a"] is None or first["a"] == float("-inf")
        assert first["b"] == word and second == {"a": 1}
    text = b'\xef\xbb\xbf{"traceEvents": ["a\nb\x01", "\xff", "\\ud800"]}'
    assert events(tmp_path, text) == ["a\nb\x01", "\ufffd", "\ud800"]


@pytest.mark.parametrize("size", [1, 7, 30])
def test_words_in_texts_stay_wherever_the_window_ends(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "CHUNK", size)
    one = '{"a": [nan, inf ,-N/A], "b": "a nan, \\\\\\" nan \\\\", "c": nan, "nan": "nanx"}'
    found = {"a": [None] * 3, "b": 'a nan, \\" nan \\', "c": None, "nan": "nanx"}
    assert events(tmp_path, f'{{"traceEvents": [{one}, {one}, 7]}}') == [found, found, 7]


def test_many_words_for_no_number_are_read_once(tmp_path: Path) -> None:
    words = ",".join(["nan"] * 20_000)
    begun = time.thread_time()
    assert events(tmp_path, f'{{"traceEvents": [[{words}]]}}') == [[None] * 20_000]
    assert time.thread_time() - begun < 1, "0.02 s; 4 s where each word is read from the start"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("trace.json", "trace.xplane.pb"):
        if hasattr(os, "mkfifo"):
            os.mkfifo(tmp_path / name)
            with pytest.raises(ReportError, match="not a regular file"):
                import_trace(tmp_path / name)


def test_a_file_that_is_cut_off_gives_what_it_has(tmp_path: Path) -> None:
    whole = '{"traceEvents": [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}, {"n": 3, "s": "c"}]}'
    for cut in range(20, 75, 5):
        source = trace(tmp_path, whole[:cut])
        assert [one["n"] for one in source.events()] == [1, 2, 3][: (cut - 15) // 20]
        assert source.problem is not None


def test_compressed_files_whole_and_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    count = 5000
    path.write_text(json.dumps({"traceEvents": [{"n": index * 7919 % 10007} for index in range(count)]}))
    whole = TraceFile(packed(path))
    assert len(list(whole.events())) == count and whole.problem is None
    half = TraceFile(packed(path, packed(path).stat().st_size // 2))
    assert 0 < len(list(half.events())) < count
    assert half.problem is not None and "compressed" in half.problem


def test_what_is_no_trace_is_refused_in_words(tmp_path: Path) -> None:
    for content, says in (
        ("", "is empty"),
        (" \n", "is empty|ends too early"),
        ("hello", "not JSON"),
        (b"\x00\x01\x02", "not JSON"),
        ('{"traceEvents": ', "ends too early"),
        ('{"a": 1}', "no 'traceEvents'"),
        ('{"kind": "profile", "cells": []}', "mpsprobe export"),
        ('{"traceEvents": {}}', "no 'traceEvents'"),
        ('{"a" 1}', "key is missing"),
        ('{"a": ' + "[" * 100_000, "cannot be read|cut off"),
        ('{"a": ' + "9" * 5000 + ', "traceEvents": []}', "cannot be read"),
        (b"\x1f\x8b", "compressed|empty"),
        (b"\x1f\x8bnonsense that is not gzip", "compressed|empty"),
    ):
        with pytest.raises(ReportError) as raised:
            events(tmp_path, content)
        assert any(one in str(raised.value) for one in says.split("|")), str(raised.value)
        assert raised.value.hint


def test_damage_in_the_middle_keeps_what_stood_before(tmp_path: Path) -> None:
    source = trace(tmp_path, '{"traceEvents": [{"n": 1}, {"n": }, {"n": 3}]' + " " * 40 + "}")
    assert list(source.events()) == [{"n": 1}]
    assert source.problem is not None and "no JSON any more at '}, {" in source.problem


def test_a_value_without_end_stops_at_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LONGEST_VALUE", 1 << 20)
    source = trace(tmp_path, '{"traceEvents": [1, "' + "a" * (5 << 20))
    assert list(source.events()) == [1]
    assert source.problem is not None and "longer than" in source.problem


def test_it_tells_how_much_was_read_and_what_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": list(range(1000))}))
    progress: list[int] = []
    assert len(list(TraceFile(path, progress.append).events())) == 1000
    assert sum(progress) == path.stat().st_size
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ReportError, match="cannot read"):
            list(TraceFile(path).events())


def test_what_unpacks_to_far_more_than_its_size_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpsprobe_devices.traces.stream.NO_BOMB", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents":[{"ph":"X"},' + b" " * (20 << 20) + b"{}]}"))
    source = TraceFile(path)
    assert list(source.events()) == [{"ph": "X"}]
    assert source.problem is not None and "64 times their size" in source.problem
    source = trace(tmp_path, "[" + "{}," * 300_000 + "{}]")
    assert sum(1 for _ in source.events()) == stream.FEW_EVENTS
    assert source.problem is not None and "for every 8 of its bytes" in source.problem


def in_json() -> list[dict[str, Any]]:
    def done(name: str, ts: float, dur: float, tid: int, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "name": name, "pid": HOST, "tid": tid, "ts": ts, "dur": dur, "args": args}

    return [
        {"ph": "M", "name": "process_name", "pid": HOST, "args": {"name": "/host:CPU"}},
        {"ph": "M", "name": "thread_name", "pid": HOST, "args": {"name": "python"}, "tid": 1},
        done("train", 5, 90, 1, step_num="0"), done("train", 105, 90, 1, step_num="1"),
        done("Conv2D", 15, 30, 2, long_name="model/conv/Conv2D:Conv2D"),
        done("Conv2D", 115, 40, 2, long_name="model/conv/Conv2D:Conv2D"),
    ]  # fmt: skip


def imported(folder: Path, data: bytes) -> ProfileCell:
    (folder / "vm.xplane.pb").write_bytes(data)
    report = import_trace(folder / "vm.xplane.pb")
    assert report.workloads[0].name == "vm"
    [cell] = report.cells
    return cell


def test_operators_have_their_own_names_and_steps_are_steps(tmp_path: Path) -> None:
    cell = imported(tmp_path, profile())
    assert [one.duration_ns for one in cell.steps] == [90_000, 90_000]
    [conv] = [one for one in cell.operators if one.operator == "Conv2D"]
    assert (conv.calls, conv.self_host_ns, conv.modules) == (2, 65_000, ["model/conv"])  # the launch is not its own
    assert cell.trace is not None
    names = {cell.trace.names[one] for one in cell.trace.name}
    assert {"implicit_gemm", "MemcpyH2D", "cuLaunchKernel"} <= names and "ThreadpoolListener::Record" not in names
    assert sum(cell.trace.names[one] == "Conv2D" for one in cell.trace.name) == 2  # not the row that says it again
    assert cell.device == "cuda"


def test_the_json_of_the_trace_viewer_is_the_same(tmp_path: Path) -> None:
    [cell] = import_trace(write(tmp_path, in_json())).cells
    assert [one.duration_ns for one in cell.steps] == [90_000, 90_000] and cell.device == "cpu"
    [conv] = cell.operators
    assert (conv.operator, conv.calls, conv.self_host_ns, conv.modules) == ("Conv2D", 2, 70_000, ["model/conv"])


def test_what_is_none_is_refused(tmp_path: Path) -> None:
    for data in (b"", b"\x0a", b"{}", b"\x0a\xff\xff\xff\xff\x0f", b"\x80" * 100, field(1, "x" * 50)):
        with pytest.raises(ReportError, match=r"has no events?"):
            imported(tmp_path, data)
    with pytest.raises(ReportError, match="cannot read"):
        import_trace(tmp_path / "missing.xplane.pb")
    cut_off = imported(tmp_path, profile()[:-60])
    assert len(cut_off.steps) == 2 and any("cut off or damaged" in note for note in cut_off.notes)


def test_what_no_profile_has_so_many_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorflow, "MOST_ROWS", 5)
    for many in (profile() + field(1, b"") * 9, profile() + field(1, field(3, b"") * 99)):
        assert any("more than 5 devices or rows" in note for note in imported(tmp_path, many).notes)
    facts = field(1, field(3, field(4, field(4, b"") * 1001)))
    assert any("more than 1,000 fields" in note for note in imported(tmp_path, profile() + facts).notes)
    with (tmp_path / "vm.xplane.pb").open("wb") as file:
        file.truncate(2**31 - 1)  # a hole: field 0, which there is not
    tracemalloc.start()
    with pytest.raises(ReportError, match="no profile of TensorFlow"):
        import_trace(tmp_path / "vm.xplane.pb")
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
