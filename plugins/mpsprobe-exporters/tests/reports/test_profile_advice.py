"""Each recommendation follows from figures of the report, and only from those."""

from __future__ import annotations

from typing import Any

import pytest

from mpsprobe.schemas import DurationStatistics, MemoryUse, ProfileCell, Trace
from mpsprobe_devkit.testing import sample_cell, sample_profile_report, sample_trace
from mpsprobe_exporters.reports.profile_advice import Advice, recommendations

US = 1_000


def advised(*cells: ProfileCell, **more: Any) -> list[Advice]:
    report = sample_profile_report().model_copy(update={"cells": list(cells), **more})
    return recommendations(report)


def cell(**more: Any) -> ProfileCell:
    return sample_cell().model_copy(update={"dtype": "float16", **more})


def step(found: ProfileCell, **more: Any) -> DurationStatistics:
    assert found.step is not None
    return found.step.model_copy(update=more)


def test_what_asks_for_nothing() -> None:
    assert advised(cell()) == []
    assert advised() == []
    cost = sample_profile_report().cells[0].fallbacks[0]
    small = [cost.model_copy(update={"operator": f"aten::op{i}", "duration_ns": 2 * US}) for i in range(5)]
    assert advised(cell(fallbacks=small)) == []
    # Precision is asked for where nobody tried it.
    assert [one.kind for one in advised(cell(dtype="float32"))] == ["precision"]
    assert advised(cell(dtype="float32"), cell(dtype="bfloat16", device="mps")) == []
    assert advised(cell(dtype="float32", device="cpu")) == []


def slow_kernels(trace: Trace, times: int) -> Trace:
    durations = [
        spent // times if trace.categories[trace.category[index]] == "kernel" else spent
        for index, spent in enumerate(trace.duration_ns)
    ]
    return trace.model_copy(update={"duration_ns": durations})


def test_a_device_that_waits_is_host_bound_unless_the_probe_made_it_wait() -> None:
    waiting = slow_kernels(sample_trace(), 4)
    [one] = advised(cell(trace=waiting))
    assert one.kind == "host-bound" and one.found.startswith("The device works for 190 µs of a step of 1.00 ms (19%)")
    assert one.share == pytest.approx(0.81, abs=0.005)
    slow = sample_profile_report().cells[0].operators
    assert {operator.source for operator in slow} == {"slow mode"}
    assert advised(cell(trace=waiting, operators=slow)) == []
    assert advised(cell(trace=sample_trace())) == []


def test_a_host_that_is_outside_operators() -> None:
    trace = sample_trace()
    host = ["other" if one in ("kernel", "copy", "launch", "operator") else one for one in trace.categories]
    [one] = advised(cell(device="cpu", trace=trace.model_copy(update={"categories": host})))
    assert one.kind == "host-bound" and "inside operators; the rest is Python" in one.found


def test_many_tiny_kernels() -> None:
    count = 400
    columns = {**{name: [0] * count for name in ("track", "flow", "name", "category")}, "detail": [-1] * count}
    times = {"start_ns": [index * 5 * US for index in range(count)], "duration_ns": [4 * US] * count}
    kinds = {"names": ["k"], "categories": ["kernel"], "tracks": [{"name": "queue", "kind": "device"}]}
    [one] = advised(cell(trace=Trace.model_validate({**kinds, **columns, **times})))
    said = "400 kernels a step take 4.00 µs on average; to start one takes as long."
    assert (one.kind, one.found) == ("tiny kernels", said)


def test_copies_that_nothing_hides() -> None:
    trace = sample_trace()
    sizes = [80 * US if trace.names[trace.name[i]].endswith("to CPU") else d for i, d in enumerate(trace.duration_ns)]
    found = advised(cell(trace=trace.model_copy(update={"duration_ns": sizes})))
    assert [one.found for one in found] == ["For 12% of the profiled steps tensors are copied while no kernel runs."]


def test_steps_that_differ_and_the_beginning_of_a_run() -> None:
    warmup, phases = cell().warmup, cell().phases
    assert warmup is not None
    said = [
        (cell(step=step(cell(), spread=0.3)), "Steps vary by 30% of their median."),
        (cell(step=step(cell(), high_ns=1.2e6)), "The median is known only to lie between 1.00 ms and 1.20 ms."),
        (cell(step=step(cell(), count=30, outliers=4)), "4 of 30 steps are outliers, the longest takes 1.50 ms."),
        (cell(warmup=warmup.model_copy(update={"stable": False})), "The steps had not settled after 3 warm-up steps."),
        (cell(first_call_ns=[2_000_000_000]), "The first call takes 2.00 s, as long as 2,000 steps."),
        (cell(phases={**phases, "optimizer": phases["forward"]}), "The optimizer takes 500 µs, 50% of a step."),
    ]
    assert [[one.found for one in advised(changed)] for changed, _ in said] == [[words] for _, words in said]
    assert [one.kind for changed, _ in said for one in advised(changed)] == [
        *("noise", "noise", "outliers", "warm-up", "first call", "optimizer")
    ]


def test_memory_near_its_end_and_beyond() -> None:
    near = MemoryUse(source="allocator", peak_reserved_bytes=47 * 10**9)
    failed = sample_profile_report().cells[1].model_copy(update={"dtype": "float16"})
    first, second = advised(cell(memory=near), failed)
    assert first.found == "It did not fit into memory." and first.where == "mps, batch 512, sequence 128"
    assert "a smaller batch (batch 2 fits)" in first.remedy
    assert second.found == "47.0 GB of the device's 48.0 GB were in use at the peak."
    assert advised(cell(memory=near.model_copy(update={"peak_reserved_bytes": 10**9}))) == []


def test_a_device_that_is_slower_and_batches_that_no_longer_help() -> None:
    def timed(device: str, spent: int, batch: int = 2) -> ProfileCell:
        return sample_cell(device, spent, batch).model_copy(update={"dtype": "float16"})

    [one] = advised(timed("mps", 9_000), sample_cell("cpu").model_copy(update={"dtype": "float16"}))
    assert (one.kind, one.found) == ("slower", "A step takes 9.00 times as long as on cpu.")
    [one] = advised(*(timed("mps", spent, batch) for spent, batch in ((1_000, 2), (1_500, 4), (2_900, 8))))
    assert (one.kind, one.found) == ("saturated", "Batch 8 gives +3% samples/s over batch 4.")


def test_what_costs_most_comes_first_and_what_several_need_is_there_once() -> None:
    costs = sample_profile_report().cells[0].fallbacks
    costs[1:] = [costs[1].model_copy(update={"duration_ns": 250 * US})]
    cells = [
        cell(batch_size=index, fallbacks=[costs[0].model_copy(update={"duration_ns": index * 100 * US}), costs[1]])
        for index in range(1, 4)
    ]
    first, second = (one for one in advised(*cells) if one.kind == "fallback")
    assert first.share == pytest.approx(0.3) and first.where == "mps, batch 3, sequence 128"
    assert first.also == ("mps, batch 2, sequence 128", "mps, batch 1, sequence 128")
    assert second.share == pytest.approx(0.25) and len(second.also) == 2
