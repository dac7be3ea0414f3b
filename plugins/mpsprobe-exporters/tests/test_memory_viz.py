"""The snapshot that PyTorch's page of memory opens: only opcodes that it reads, and the allocations of the report."""

from __future__ import annotations

import pickle
import pickletools
from typing import Any

import pytest

from mpsprobe.errors import ReportError
from mpsprobe.schemas import AllocatingCall, Allocation, AllocationList, CoverageReport
from mpsprobe_devkit.testing import sample_coverage_report
from mpsprobe_exporters.memory_viz import MemoryVizExporter
from mpsprobe_exporters.pickling import TOGETHER, pickled

MIB = 2**20
KNOWN = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "BINUNICODE", "LONG1", "MEMOIZE", "LONG_BINGET", "MARK", "APPENDS"}
KNOWN |= {"SETITEMS", "STOP"}
REPORT = sample_coverage_report()
CALL = AllocatingCall(operator="aten::linear", module="encoder.layer.0", call_site="modeling_bert.py:164")
STORAGES = [
    Allocation(
        bytes=3000, category="parameters", begins=0, ends=None, module="encoder", segment=0, offset=0, size=3072
    ),
    Allocation(
        bytes=5, category="temporary", begins=1, ends=3, phase="forward", call=0, segment=0, offset=3072, size=256
    ),
    Allocation(
        bytes=MIB + 1, category="temporary", begins=2, phase="forward", call=0, segment=1, offset=0, size=MIB + 256
    ),
]
LIST = AllocationList(storages=STORAGES, calls=[CALL], segments=[8 * MIB, 32 * MIB])


def report(found: AllocationList | None) -> CoverageReport:
    assert REPORT.memory is not None
    return REPORT.model_copy(update={"memory": REPORT.memory.model_copy(update={"allocations": found})})


def read(data: bytes) -> Any:
    """As the page reads it: its ``unpickle`` knows these opcodes, and puts the items of one on JavaScript's stack."""
    opcodes = {opcode.name for opcode, _, _ in pickletools.genops(data)}
    assert not opcodes - KNOWN and TOGETHER <= 100_000
    return pickle.loads(data)


def snapshot(found: AllocationList) -> Any:
    return read(MemoryVizExporter().render(report(found)))


def test_events_of_storages_and_of_heaps_and_where_they_are() -> None:
    (events,) = snapshot(LIST)["device_traces"]
    small, large = 2 * MIB, 12 * MIB
    assert [(one["action"], one["addr"], one["size"]) for one in events] == [
        ("snapshot", 0, 0),
        ("segment_alloc", small, 8 * MIB),
        ("alloc", small, 3000),
        ("alloc", small + 3072, 5),
        ("segment_alloc", large, 32 * MIB),
        ("alloc", large, MIB + 1),
        ("free_requested", small + 3072, 5),
        ("free_completed", small + 3072, 5),
    ]
    # Without it the page of 2026 stops at a snapshot in which everything has a category.
    assert "unknown" in {one.get("category") for one in events}
    (events,) = snapshot(LIST)["device_traces"]
    lines = [[f"{frame['filename']}:{frame['line']}:{frame['name']}" for frame in one["frames"]] for one in events]
    assert lines[2] == ["module:0:encoder", "before the step:0:parameters"]
    assert lines[3] == ["modeling_bert.py:164:aten::linear", "module:0:encoder.layer.0", "forward:0:temporary"]


def test_blocks_fill_their_heaps() -> None:
    segments = snapshot(LIST)["segments"]
    for one in segments:
        assert sum(block["size"] for block in one["blocks"]) == one["total_size"]
        assert all(block["address"] + block["size"] <= one["address"] + one["total_size"] for block in one["blocks"])
    states = [[(block["state"], block["requested_size"]) for block in one["blocks"]] for one in segments]
    assert states == [
        [("active_allocated", 3000), ("inactive", 0)],
        [("active_allocated", MIB + 1), ("inactive", 0)],
    ]


def test_text_numbers_and_long_lists_survive() -> None:
    value = {"long": [*range(3 * TOGETHER)], "numbers": [0, 127, 128, 255, 2**31, 2**60, -1], "text": ["ü", "ü", ""]}
    assert read(pickled(value)) == value
    assert [opcode.name for opcode, _, _ in pickletools.genops(pickled(value))].count("APPENDS") >= 3


def test_what_is_not_in_the_list() -> None:
    (events,) = snapshot(LIST.model_copy(update={"calls": [], "segments": [8 * MIB]}))["device_traces"]
    assert [one["size"] for one in events if one["action"] == "alloc"] == [3000, 5]
    assert [frame["name"] for frame in events[3]["frames"]] == ["temporary"]
    with pytest.raises(ReportError, match="allocations"):
        MemoryVizExporter().render(report(None))
