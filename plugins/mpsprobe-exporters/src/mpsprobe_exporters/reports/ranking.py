"""Which missing operators block the most architectures, and what each release gained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mpsprobe_exporters import workload_lines
from mpsprobe_exporters.document import Bar, Bars, Column, Document, Part, Section, runs, table
from mpsprobe_exporters.plain_text import one_line, plural
from mpsprobe_exporters.units import number

if TYPE_CHECKING:
    from mpsprobe.schemas import RankedOperator, RankedRelease, RankedRewrite, RankingReport
    from mpsprobe_exporters.document import Block, Fields

MOST = 25
PARTLY = "partly on the CPU, or not known"
ALONE = "those that nothing else blocks: with this kernel they would run"
FIELDS: Fields[None, RankedOperator] = (
    (Column("operator", "name", "operator"), lambda _, operator: operator.operator),
    (Column("verdict", "verdict", "verdict"), lambda _, operator: operator.verdict),
    (
        Column("blocks", "number", "blocks", about="architectures that call it"),
        lambda _, operator: len(operator.architectures),
    ),
    (Column("alone", "number", "alone", about=ALONE), lambda _, operator: len(operator.alone)),
    (Column("phases", "names", "phases", rank=2), lambda _, operator: tuple(operator.phases)),
    (Column("native since", key="native_since", rank=1), lambda _, operator: operator.native_since),
    (Column("whom", "names", "architectures", rank=3), lambda _, operator: tuple(operator.architectures)),
)
REWRITES: Fields[None, RankedRewrite] = (
    (Column("rewrite", "name", key="name"), lambda _, rewrite: rewrite.name),
    (
        Column("frees", "number", key="alone", about="that nothing else blocks"),
        lambda _, rewrite: len(rewrite.alone),
    ),
    (
        Column("of", "number", about="architectures that meet its operators"),
        lambda _, rewrite: len(rewrite.architectures),
    ),
    (Column("operators", "names", rank=1), lambda _, rewrite: tuple(rewrite.operators)),
)
RELEASES: Fields[None, RankedRelease] = (
    (Column("torch"), lambda _, release: release.torch),
    (Column("all native", "number", about="architectures"), lambda _, release: release.clean),
    (Column("blocked", "number", about="architectures"), lambda _, release: release.blocked),
    (Column("no longer block", "names", rank=1), lambda _, release: tuple(release.operators)),
    (Column("no longer blocked", "names", rank=2), lambda _, release: tuple(release.architectures)),
    (Column("blocked now", "names", rank=3), lambda _, release: tuple(release.lost)),
)


def document(report: RankingReport) -> Document:
    release, made_with = one_line(report.torch, 40), workload_lines.made_with(report.environment)
    freed = f"With rewrites in the place of operators, {number(report.rewritten)} of the blocked would run"
    return Document(
        title=f"Which kernel next, torch {release}",
        headline=headline(report),
        tone="bad" if report.operators else "good",
        lines=[
            f"{plural(report.architectures, 'architecture')}, {', '.join(map(one_line, report.phases))}",
            *_better(report),
            *([freed] if report.rewritten else []),
            f"Predicted: traced on {workload_lines.when(report.made)} with {made_with}",
        ],
        sections=[
            Section("Operators that block the most architectures", _ranked(report.operators), depth="lead"),
            Section("Operators that run on the CPU", _ranked(report.fallbacks), depth="lead"),
            Section("What rewrites of operators free", [*table(REWRITES, None, report.rewrites, "Rewrites")]),
            Section("What each release gained", [*_bars(report), *table(RELEASES, None, report.releases, "Releases")]),
        ],
    )


def headline(report: RankingReport) -> str:
    """``On torch 2.15.0, 12 operators block 31 of 600 architectures; aten::x alone 9 of them``."""
    release, blocked = (
        one_line(report.torch, 40),
        {name for operator in report.operators for name in operator.architectures},
    )
    if not blocked:
        return f"On torch {release}, no operator blocks any of {plural(report.architectures, 'architecture')}"
    first = max(report.operators, key=lambda operator: len(operator.alone))
    count = f"{number(len(blocked))} of {plural(report.architectures, 'architecture')}"
    alone = f"; with {one_line(first.operator, 60)}, {number(len(first.alone))} of them would run"
    blocks = "blocks" if len(report.operators) == 1 else "block"
    counted = f"{plural(len(report.operators), 'operator')} {blocks} {count}"
    return f"On torch {release}, {counted}{alone if first.alone else ''}"


def _better(report: RankingReport) -> Iterator[str]:
    """That an older release blocks fewer: a newer one is not always better."""
    now = next((release.blocked for release in report.releases if release.torch == report.torch), None)
    best = min(report.releases, key=lambda release: release.blocked, default=None)
    if now is not None and best is not None and best.blocked < now:
        older, release = one_line(best.torch, 40), one_line(report.torch, 40)
        yield f"torch {older} blocks {number(best.blocked)}, fewer than {release} with {number(now)}"


def _ranked(operators: list[RankedOperator]) -> list[Block]:
    return table(FIELDS, None, operators, "Operators", filtered=True, most=MOST)


def _bars(report: RankingReport) -> Iterator[Block]:
    """The blocked architectures of each release; neighbours that are alike as one."""
    count = report.architectures
    if len(report.releases) < 2 or not count:
        return
    rows = []
    for run in runs(report.releases, lambda ranked: (ranked.blocked, ranked.clean)):
        newest, clean, blocked = run[0].torch, run[0].clean, run[0].blocked
        rest = max(0, count - clean - blocked)
        parts = [
            Part(clean / count, "native", f"all native: {number(clean)}"),
            Part(rest / count, "fallback", PARTLY),
            Part(blocked / count, "missing", f"blocked: {number(blocked)}"),
        ]
        label = newest if len(run) == 1 else f"{run[-1].torch}-{newest}"
        partly = f", {number(rest)} partly" if rest else ""
        rows.append(Bar(label, parts, f"{number(clean)} all native, {number(blocked)} blocked{partly}"))
    yield Bars(rows, "Architectures", [("native", "all native"), ("fallback", PARTLY), ("missing", "blocked")])
