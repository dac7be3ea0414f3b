"""What is said about MPSGraphs that are compiled for new shapes."""

from __future__ import annotations

from example_reports import mixed

from mpsprobe.schemas import GraphCount, GraphGrowth
from mpsprobe_exporters.table import TableExporter

GROWTH = GraphGrowth(
    varied="seq-len", first=1, last=512, tried=[1, 256, 512], fixed=GraphCount(least=0, most=2),
    each=GraphCount(least=3, most=10), total=GraphCount(least=1536, most=5122), padded_to=64,
    padded=GraphCount(least=24, most=82),
)  # fmt: skip


def test_how_many_lengths_grow() -> None:
    report = mixed()
    first = report.operators[0].model_copy(update={"graph": "may", "graphs": 3})
    report = report.model_copy(update={"growth": GROWTH, "operators": [first, *report.operators[1:]]})
    text = " ".join(TableExporter().render(report).split())
    assert "seq-len 1 to 512 compile 1,536 to 5,122 graphs: 3 to 10 for each value" in text
    assert "Padded to multiples of 64 they compile 24 to 82." in text
    assert f"because of {first.operator}" in text and "at most 3 in this run" in text


def test_nothing_without_it() -> None:
    assert "MPSGraph" not in TableExporter().render(mixed())
