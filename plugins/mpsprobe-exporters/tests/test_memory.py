"""Predicted memory: whether it fits, in words and as a curve, and the snapshot that PyTorch's page of memory opens."""

from __future__ import annotations

import csv
import io
import pickle
import pickletools
from typing import Any

import pytest

from mpsprobe.errors import ReportError
from mpsprobe.schemas import (
    AllocatingCall,
    Allocation,
    AllocationList,
    CoverageReport,
    JudgedWorkload,
    MatrixReport,
    MemoryFigures,
    MemoryFit,
    MemoryRange,
    SeveralReport,
)
from mpsprobe_devkit.testing import sample_coverage_report, sample_matrix_report
from mpsprobe_exporters.fitting import alerts, in_short, lines
from mpsprobe_exporters.formats.csv_rows import CsvExporter
from mpsprobe_exporters.formats.memory_viz import TOGETHER, MemoryVizExporter, pickled
from mpsprobe_exporters.html.charts import predicted
from mpsprobe_exporters.markdown import MarkdownExporter
from mpsprobe_exporters.table import TableExporter

REPORT = sample_coverage_report()
MEMORY = REPORT.memory
assert MEMORY is not None
FIT = MEMORY.fit
assert FIT is not None


def with_memory(**changed: Any) -> CoverageReport:
    return REPORT.model_copy(update={"memory": MEMORY.model_copy(update=changed)})


def with_answer(low: str, high: str, answer: str, **more: Any) -> CoverageReport:
    message = FIT.low.message if low == "raises" else None
    ends = {
        "low": FIT.low.model_copy(update={"answer": low, "message": message}),
        "high": FIT.low.model_copy(update={"answer": high}) if high == "raises" else FIT.high,
    }
    return with_memory(fit=FIT.model_copy(update={"answer": answer, **ends, **more}))


def fit_of(report: CoverageReport) -> MemoryFit:
    assert report.memory is not None and report.memory.fit is not None
    return report.memory.fit


@pytest.mark.parametrize(
    ("low", "high", "answer", "said"),
    [
        ("fits", "fits", "fits", "fits on a Mac with 1.6 GB"),
        ("pressure", "pressure", "pressure", "does not fit on a Mac with 1.6 GB: it needs 2.5 GB, 748.3 MB more than"),
        ("raises", "pressure", "unclear", "does not fit on a Mac with 1.6 GB: it needs 2.5 GB, 748.3 MB more than"),
        ("raises", "raises", "raises", "does not fit on a Mac with 1.6 GB: it needs 2.5 GB"),
    ],
)
def test_each_answer_in_a_clause(low: str, high: str, answer: str, said: str) -> None:
    report = with_answer(low, high, answer)
    assert said in in_short(report.memory, report.summary.parameters_bytes)
    enough = with_answer(low, high, answer, memory_bytes=4 * 2**30)
    clause = in_short(enough.memory, enough.summary.parameters_bytes)
    assert answer != "pressure" or "under memory pressure: it takes 1.9 GB" in clause
    assert answer != "unclear" or "fits or not on a Mac with 1.6 GB, the published figures disagree" in clause
    assert ("raises" in (low, high)) == bool(alerts(fit_of(report)))


def test_limits_are_ranges_and_what_does_not_fit_is_the_headline() -> None:
    (line,) = lines(fit_of(with_answer("fits", "fits", "fits")))[:1]
    assert "1.1 GB to 1.5 GB" in line and "1.9 GB to 2.5 GB" in line
    report = with_answer("raises", "raises", "raises").model_copy(update={"failure": None})
    drawn = " ".join(TableExporter().render(report).split())
    assert "Does not fit on a Mac with 1.6 GB" in drawn and "MPS backend out of memory" in drawn
    far = FIT.model_copy(update={"low": FIT.low.model_copy(update={"allowed_bytes": 10**12})})
    assert str(predicted(with_memory(fit=far))).count('class="level"') == 3


def of_releases() -> MatrixReport:
    """Four releases; the two in the middle need the same, but for less than can be seen."""
    sample = sample_matrix_report()
    peaks = {"2.11.0": 3_000_000_000, "2.12.0": 2_000_000_000, "2.13.0": 2_000_000_001, "2.14.0": 1_000_000_000}
    cells = []
    for release, peak in peaks.items():
        target = sample.releases[-1].target.model_copy(update={"torch": release})
        memory = MemoryFigures(peak_bytes=peak, reserved_bytes=2**32)
        cells.append(sample.releases[-1].model_copy(update={"target": target, "memory": memory}))
    return sample.model_copy(update={"releases": cells})


def test_releases_that_need_the_same_are_one_row() -> None:
    drawn = MarkdownExporter().render(of_releases())
    assert "Memory: needs 4.3 GB on the Mac (tensors 1.0 GB to 3.0 GB at the peak)." in drawn
    rows = [line for line in drawn.splitlines() if line.endswith("| 4.3 GB |")]
    assert [row.split(" | ")[0] for row in rows] == ["| 2.14.0", "| 2.12.0-2.13.0", "| 2.11.0"]
    listed = list(csv.reader(io.StringIO(CsvExporter().render(of_releases()), newline="")))
    assert ["(peak_bytes)", "3000000000", "2000000000", "2000000001", "1000000000"] in listed


def test_a_table_of_workloads_has_the_figures_of_the_newest_release() -> None:
    workloads = [JudgedWorkload(name="many", report=of_releases()), JudgedWorkload(name="none", error="it raises")]
    several = SeveralReport(environment=REPORT.environment, workloads=workloads)
    drawn = MarkdownExporter().render(several)
    (row,) = (line for line in drawn.splitlines() if line.startswith("| `many`"))
    assert "| 1.0 GB | 4.3 GB |" in row
    assert "peak_bytes=1000000000; allocated_bytes=0; reserved_bytes=4294967296" in CsvExporter().render(several)


@pytest.mark.parametrize(("low", "said"), [(2**30, "tensors 1.1 GB to 2.1 GB"), (None, "tensors at most 2.1 GB")])
def test_a_peak_that_depends_on_values_is_a_range(low: int | None, said: str) -> None:
    ends = MemoryRange(low_bytes=low, high_bytes=2**31, because=["aten::nonzero at rpn.py:285"])
    stopped = with_memory(range=ends)
    assert said not in " ".join(TableExporter().render(stopped).split())  # it says nothing of the whole run
    drawn = " ".join(TableExporter().render(stopped.model_copy(update={"failure": None})).split())
    assert said in drawn and "aten::nonzero at rpn.py:285" in drawn
    assert "A loop that keeps the model's output over backward() needs 427.6 MB more (19%)" in drawn


MIB = 2**20
KNOWN = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "BINUNICODE", "LONG1", "MEMOIZE", "LONG_BINGET", "MARK", "APPENDS"}
KNOWN |= {"SETITEMS", "STOP"}
CALL = AllocatingCall(operator="aten::linear", module="encoder.layer.0", call_site="modeling_bert.py:164")
FORWARD: dict[str, Any] = {"category": "temporary", "phase": "forward", "call": 0}
STORAGES = [
    Allocation(bytes=3000, category="parameters", begins=0, module="encoder", segment=0, offset=0, size=3072),
    Allocation(bytes=5, begins=1, ends=3, segment=0, offset=3072, size=256, **FORWARD),
    Allocation(bytes=MIB + 1, begins=2, segment=1, offset=0, size=MIB + 256, **FORWARD),
]
LIST = AllocationList(storages=STORAGES, calls=[CALL], segments=[8 * MIB, 32 * MIB])


def read(data: bytes) -> Any:
    """As the page reads it: its ``unpickle`` knows these opcodes, and puts the items of one on JavaScript's stack."""
    opcodes = {opcode.name for opcode, _, _ in pickletools.genops(data)}
    assert not opcodes - KNOWN and TOGETHER <= 100_000
    return pickle.loads(data)


def snapshot(found: AllocationList | None) -> Any:
    return read(MemoryVizExporter().render(with_memory(allocations=found)))


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
    lines = [[f"{frame['filename']}:{frame['line']}:{frame['name']}" for frame in one["frames"]] for one in events]
    assert lines[2] == ["module:0:encoder", "before the step:0:parameters"]
    assert lines[3] == ["modeling_bert.py:164:aten::linear", "module:0:encoder.layer.0", "forward:0:temporary"]


def test_blocks_fill_their_heaps() -> None:
    segments = snapshot(LIST)["segments"]
    for one in segments:
        assert sum(block["size"] for block in one["blocks"]) == one["total_size"]
        assert all(block["address"] + block["size"] <= one["address"] + one["total_size"] for block in one["blocks"])
    states = [[(block["state"], block["requested_size"]) for block in one["blocks"]] for one in segments]
    assert states == [[("active_allocated", 3000), ("inactive", 0)], [("active_allocated", MIB + 1), ("inactive", 0)]]


def test_text_numbers_and_long_lists_survive() -> None:
    value = {"long": [*range(3 * TOGETHER)], "numbers": [0, 127, 128, 255, 2**31, 2**60, -1], "text": ["ü", "ü", ""]}
    assert read(pickled(value)) == value
    assert [opcode.name for opcode, _, _ in pickletools.genops(pickled(value))].count("APPENDS") >= 3


def test_what_is_not_in_the_list() -> None:
    (events,) = snapshot(LIST.model_copy(update={"calls": [], "segments": [8 * MIB]}))["device_traces"]
    assert [one["size"] for one in events if one["action"] == "alloc"] == [3000, 5]
    assert [frame["name"] for frame in events[3]["frames"]] == ["temporary"]
    with pytest.raises(ReportError, match="allocations"):
        snapshot(None)
