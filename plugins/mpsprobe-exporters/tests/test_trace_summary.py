"""What a trace comes to, counted by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.schemas import Trace
from mpsprobe_devkit.testing import sample_trace
from mpsprobe_exporters.trace_summary import copies, divide, kernels, merged, overlap

US = 1_000
intervals = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda one: (one[0], one[0] + one[1])))


def test_kernels_and_copies() -> None:
    [gemm] = kernels(sample_trace(2))
    assert gemm == ("gemm_float", 4, 2 * (160 + 280) * US, 160 * US, 280 * US)
    assert copies(sample_trace(2)) == [("CPU to MPS", 2, 80 * US, 2 * 786_432), ("MPS to CPU", 2, 80 * US, 2 * 786_432)]
    trace = sample_trace(1)
    details = [{"bytes": "9" * 400} for _ in trace.details]
    assert [one.bytes for one in copies(trace.model_copy(update={"details": details}))] == [None, None]


def test_a_step_divides_into_parts_that_exclude_each_other() -> None:
    found = divide(sample_trace(2))
    assert found is not None
    # Of each step of 1000 µs: kernels 130-290 and 600-880; copies 305-345 and 400-440; the fallback 300-450 without
    # them; operators 20-170 and 520-620 without kernels: 20-130 and 520-600.
    assert (found.steps, found.kernels, found.total_ns) == (2, 4, 2_000 * US)
    assert (found.kernel_ns, found.copy_ns, found.fallback_ns) == (880 * US, 160 * US, 140 * US)
    assert found.operator_ns == 2 * (110 + 80) * US
    parts = (found.kernel_ns, found.copy_ns, found.fallback_ns, found.operator_ns, found.other_ns)
    assert sum(parts) == found.total_ns
    assert found.busy == 0.52
    huge = divide(sample_trace(1).model_copy(update={"duration_ns": [10**400] * 15}))
    assert huge is not None and float(huge.total_ns) == 1e18, "what no run gives is bounded"


def test_without_steps_the_whole_trace_counts_as_one_and_nothing_divides_into_nothing() -> None:
    trace = sample_trace(2)
    found = divide(trace.model_copy(update={"categories": ["other" if c == "step" else c for c in trace.categories]}))
    assert found is not None and (found.steps, found.total_ns) == (1, 2_000 * US)
    assert divide(Trace()) is None
    trace = sample_trace(1)
    assert divide(trace.model_copy(update={"duration_ns": [0] * len(trace.start_ns), "start_ns": [5] * 15})) is None


@given(intervals, intervals)
def test_overlap_is_that_of_sets(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    def points(found: list[tuple[int, int]]) -> set[int]:
        return {point for start, end in found for point in range(start, end)}

    assert points(merged(one)) == points(one)
    assert all(before[1] < after[0] for before, after in zip(merged(one), merged(one)[1:], strict=False))
    assert overlap(merged(one), merged(other)) == len(points(one) & points(other))
