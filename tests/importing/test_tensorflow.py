"""Profiles of TensorFlow: its JSON, its protocol buffers, and files that only pretend to be some."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mpsprobe.errors import MpsprobeError, ReportError
from mpsprobe.importing.report import import_trace
from mpsprobe.schemas import ProfileCell
from tests.fuzz.changing import bytes_changed
from tests.importing.trace_files import write

HOST, GPU = 1, 2


def varint(value: int) -> bytes:
    """As protobuf writes a whole number."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def named(number: int, name: str, shown: str = "") -> bytes:
    return field(1, number) + field(2, field(1, number) + field(2, name) + (field(4, shown) if shown else b""))


def event(name: int, start_us: int, duration_us: int, *facts: bytes) -> bytes:
    times = field(1, name) + field(2, start_us * 1_000_000) + field(3, duration_us * 1_000_000)
    return times + b"".join(field(4, one) for one in facts)


def plane(number: int, name: str, lines: dict[str, list[bytes]], names: list[bytes], facts: list[bytes]) -> bytes:
    def fields(number: int, values: Iterable[bytes]) -> bytes:
        return b"".join(field(number, one) for one in values)

    headings = [field(1, place) + field(2, title) + field(3, 5000) for place, title in enumerate(lines, 1)]
    written = [heading + fields(4, events) for heading, events in zip(headings, lines.values(), strict=True)]
    return field(1, field(1, number) + field(2, name) + fields(3, written) + fields(4, names) + fields(5, facts))


def profile() -> bytes:
    launch = field(1, 2) + field(4, 9)
    steps = [event(1, start, 90, field(1, 1) + field(4, number)) for number, start in ((0, 0), (1, 100))]
    work = [event(2, 10, 30), event(2, 110, 40), event(3, 20, 5, launch), event(4, 1, 0)]
    host = plane(
        HOST,
        "/host:CPU",
        {"python": steps, "tf_Compute/7": work},
        [
            named(1, "train"), named(2, "model/conv/Conv2D:Conv2D", "Conv2D"), named(3, "cuLaunchKernel"),
            named(4, "ThreadpoolListener::Record"),
        ],
        [named(1, "step_num"), named(2, "correlation_id")],
    )  # fmt: skip
    kernels = [event(1, 30, 50, field(1, 1) + field(4, 9)), event(2, 85, 3)]
    gpu = plane(
        GPU,
        "/device:GPU:0",
        {"Stream #13(compute)": kernels, "TensorFlow Ops": [event(3, 30, 50)]},
        [named(1, "implicit_gemm"), named(2, "MemcpyH2D"), named(3, "model/conv/Conv2D:Conv2D", "Conv2D")],
        [named(1, "correlation_id")],
    )
    return host + gpu


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


def test_any_byte_may_be_wrong(tmp_path: Path) -> None:
    data, chance = profile(), random.Random(0)
    for _ in range(300):
        try:
            cell = imported(tmp_path, bytes_changed(data, chance))
        except MpsprobeError:
            continue
        assert ProfileCell.model_validate_json(cell.model_dump_json()) == cell
