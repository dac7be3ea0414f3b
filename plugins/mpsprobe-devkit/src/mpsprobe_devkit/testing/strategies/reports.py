"""Reports of every kind, and traces. Any valid one: counts and sums need not agree with each other."""

from __future__ import annotations

from typing import get_args

from hypothesis import strategies as st

from mpsprobe.schemas import (
    CheckpointReport,
    ComparisonReport,
    Counter,
    CoverageReport,
    FitReport,
    MatrixReport,
    ProfileReport,
    RankingReport,
    Report,
    SeveralReport,
    Trace,
    Track,
    UnknownReport,
    UpgradeReport,
)
from mpsprobe.schemas.report import KINDS
from mpsprobe.schemas.trace import Category
from mpsprobe_devkit.testing.strategies.schemas import LARGEST, OWN, records
from mpsprobe_devkit.testing.strategies.texts import texts

MOST_EVENTS = 6
SECOND_NS = 10**9


def coverage_reports() -> st.SearchStrategy[CoverageReport]:
    """Any valid coverage report."""
    return records(CoverageReport)


def matrix_reports() -> st.SearchStrategy[MatrixReport]:
    """Any valid report on many releases."""
    return records(MatrixReport)


def several_reports() -> st.SearchStrategy[SeveralReport]:
    """Any valid report on several workloads."""
    return records(SeveralReport)


def profile_reports() -> st.SearchStrategy[ProfileReport]:
    """Any valid profile, with traces."""
    return records(ProfileReport)


def comparison_reports() -> st.SearchStrategy[ComparisonReport]:
    """Any valid comparison, of profiles or of coverage."""
    return records(ComparisonReport)


def checkpoint_reports() -> st.SearchStrategy[CheckpointReport]:
    """Any valid report on a checkpoint."""
    return records(CheckpointReport)


def fit_reports() -> st.SearchStrategy[FitReport]:
    """Any valid report of what fits on a Mac."""
    return records(FitReport)


def upgrade_reports() -> st.SearchStrategy[UpgradeReport]:
    """Any valid report on two releases."""
    return records(UpgradeReport)


def ranking_reports() -> st.SearchStrategy[RankingReport]:
    """Any valid ranking of operators."""
    return records(RankingReport)


def unknown_reports(kinds: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[UnknownReport]:
    """Reports that no schema describes: of another kind, or of a version that is yet to come.

    Args:
        kinds: of which kinds; any text by default.
    """
    values = st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | texts() | st.lists(texts(), max_size=2)
    keys = texts().filter(lambda key: key not in ("kind", "schema_version"))
    return st.builds(
        lambda kind, version, more: UnknownReport.model_validate({**more, "kind": kind, "schema_version": version}),
        texts() if kinds is None else kinds,
        st.integers(2, 99),
        st.dictionaries(keys, values, max_size=3),
    )


def reports() -> st.SearchStrategy[Report]:
    """Any valid report of a kind that mpsprobe knows."""
    return st.one_of([records(model) for model in KINDS.values()])


def reports_of(*kinds: str) -> st.SearchStrategy[Report]:
    """Any valid report of one of ``kinds``: what an exporter declares that it reads.

    Raises:
        KeyError: mpsprobe knows no such kind.
    """
    return st.one_of([records(KINDS[kind]) for kind in kinds])


@st.composite
def _traces(draw: st.DrawFn) -> Trace:
    names = draw(st.lists(texts(), min_size=1, max_size=3))
    categories = draw(st.lists(st.sampled_from(get_args(Category)), min_size=1, max_size=3))
    tracks = draw(st.lists(records(Track), min_size=1, max_size=2))
    details = draw(st.lists(st.dictionaries(texts(), texts(), max_size=2), max_size=2))
    count = draw(st.integers(0, MOST_EVENTS))

    def column(lowest: int, highest: int) -> list[int]:
        return draw(st.lists(st.integers(lowest, highest), min_size=count, max_size=count))

    return Trace(
        names=names,
        categories=categories,
        tracks=tracks,
        details=details,
        name=column(0, len(names) - 1),
        category=column(0, len(categories) - 1),
        track=column(0, len(tracks) - 1),
        detail=column(-1, len(details) - 1),
        flow=column(0, 2),
        start_ns=sorted(column(0, SECOND_NS)),
        duration_ns=column(0, SECOND_NS),
        counters=draw(st.lists(_counters(), max_size=2)),
        truncated=draw(st.integers(0, LARGEST)),
    )


@st.composite
def _counters(draw: st.DrawFn) -> Counter:
    times = sorted(draw(st.lists(st.integers(0, SECOND_NS), max_size=4)))
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    values = draw(st.lists(numbers, min_size=len(times), max_size=len(times)))
    return Counter(name=draw(texts()), times_ns=times, values=values)


def traces() -> st.SearchStrategy[Trace]:
    """Any valid trace: its columns agree, its events are in order; they need not nest."""
    return _traces()


OWN[Trace] = traces
OWN[Counter] = _counters
