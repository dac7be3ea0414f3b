"""The audit as tables of words, which ``terminal`` and ``page`` draw in their ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mpsprobe_coverage.judging.lists import Lists
from mpsprobe_tables.audit.result import Audit, ReleaseAudit, disagreements
from mpsprobe_tables.audit.scoring import Score, total

TITLES: dict[Lists, str] = {"none": "mechanism alone", "neighbours": "with neighbouring lists", "own": "with own list"}
FORWARD_ROWS = "all forward"
GRADIENT_ROWS = "all gradient"


@dataclass(frozen=True)
class Grid:
    """A table: its cells are plain text; ``numbers`` are the columns to align to the right."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    numbers: frozenset[int] = frozenset()


def figures(audited: ReleaseAudit) -> Grid:
    """Recall and precision of each row; the last column is the device's verdict alone, by mechanism."""
    modes = list(audited.scores)
    headings = ("test", "tests", "fail", *(TITLES[mode] for mode in modes), "verdicts alone")
    grid = Grid("Recall / precision", headings, numbers=frozenset(range(1, len(headings))))
    first = audited.scores[modes[0]]
    for row in first.outcome:
        outcomes = [audited.scores[mode].outcome.get(row, Score()) for mode in modes]
        grid.rows.append(_figures(row, outcomes, first.device.get(row, Score())))
    for name, gradient in ((FORWARD_ROWS, False), (GRADIENT_ROWS, True)):
        verdicts = total(s for row, s in first.device.items() if row.startswith("gradient") == gradient)
        outcomes = [audited.row(mode, gradient) for mode in modes]
        if outcomes[0].tests:
            grid.rows.append(_figures(name, outcomes, verdicts))
    return grid


def _figures(row: str, outcomes: Sequence[Score], verdicts: Score) -> tuple[str, ...]:
    first = outcomes[0]
    return row, str(first.tests), str(first.hits + first.missed), *map(share, outcomes), share(verdicts)


def lists(audited: ReleaseAudit) -> Grid:
    """What was predicted of the tests that each list names, by mechanism alone where that was run."""
    headings = ("list", "tests", "refused", "reference raises", "random", "not predicted")
    grid = Grid("By list", headings, numbers=frozenset(range(1, len(headings))))
    for name, of in next(iter(audited.scores.values())).lists.items():
        counts = (of.tests, of.refused, of.raises, of.random, of.runs)
        grid.rows.append((name, *(str(count) if count else "-" for count in counts)))
    return grid


def two_figures(audited: ReleaseAudit) -> Iterator[str]:
    """The two figures that matter most, in a sentence each and mode."""
    for mode, scored in audited.scores.items():
        named = scored.unimplemented
        found = sum(named.values())
        left = ", ".join(entry for entry, refused in named.items() if not refused)
        passing = scored.refused_float32
        yield (
            f"{TITLES[mode].capitalize()}: of {len(named)} entries listed as unimplemented for every dtype, "
            f"{found} are "
            f"refused (recall {ratio(found, len(named))})" + (f"; not {left}" if left else "")
        )
        yield (
            f"{TITLES[mode].capitalize()}: of what passes in float32, "
            + (f"{len(passing)} are refused: {', '.join(passing)}" if passing else "none is refused (precision 1.000)")
        )


def beyond(audited: ReleaseAudit) -> Iterator[str]:
    """Dtypes that MPS does not claim."""
    for mode, (refused, of) in audited.beyond.items():
        if of:
            yield f"{TITLES[mode].capitalize()}: {refused} of {of} are refused (recall {ratio(refused, of)})"


def disagreeing(audited: ReleaseAudit, kind: str) -> Grid:
    """Tests that were ``missed``, or falsely predicted (``false``), with the cause."""
    titles = {
        "missed": "Expected to fail, and not predicted",
        "false": "Predicted to fail, and expected to pass",
    }
    many = len(audited.scores) > 1
    headings = (
        "entry",
        "dtypes",
        "test",
        *(("list",) if kind == "missed" else ()),
        "cause",
        *(("by",) if many else ()),
    )
    grid = Grid(titles[kind], headings)
    for group in disagreements(audited):
        if group.kind == kind:
            by = "both" if len(group.by) == len(audited.scores) else TITLES[group.by[0]]
            grid.rows.append(
                (
                    ", ".join(group.entries),
                    ", ".join(group.dtypes),
                    "gradient" if group.gradient else "forward",
                    *((", ".join(group.lists),) if kind == "missed" else ()),
                    group.cause,
                    *((by,) if many else ()),
                )
            )
    return grid


def exceptions(audited: ReleaseAudit) -> Grid:
    """Lines of the table that took tests out."""
    grid = Grid("Left out, with evidence", ("entries", "dtypes", "list", "what it is", "evidence"))
    for line, tests in audited.excepted.items():
        names = ", ".join(dict.fromkeys(one.entry for one in tests))
        dtypes = ", ".join(dict.fromkeys(one.dtype for one in tests))
        grid.rows.append((names, dtypes, ", ".join(line.lists), line.what, line.evidence))
    return grid


def releases(audit: Audit) -> Grid:
    """Every release in a row: all forward tests, then all gradient tests."""
    modes = audit.modes
    headings = ("torch", "tests", *(TITLES[mode] for mode in modes), *(f"gradient, {TITLES[mode]}" for mode in modes))
    grid = Grid("Recall / precision, release by release", headings, numbers=frozenset(range(1, len(headings))))
    for one in audit.releases:
        forward, gradient = ([one.row(mode, which) for mode in modes] for which in (False, True))
        grid.rows.append((one.release, str(forward[0].tests), *map(share, forward), *map(share, gradient)))
    return grid


def releases_by_dtype(audit: Audit, mode: Lists) -> Grid:
    """Release by release, a column for each dtype."""
    headings = ("torch", *audit.dtypes)
    grid = Grid(TITLES[mode].capitalize(), headings, numbers=frozenset(range(1, len(headings))))
    for one in audit.releases:
        rows = one.scores[mode].outcome
        grid.rows.append((one.release, *(share(rows[dtype]) if dtype in rows else "-" for dtype in audit.dtypes)))
    return grid


def share(score: Score) -> str:
    """Recall and precision in one cell."""
    if not score.hits + score.missed + score.false:
        return "-"
    return f"{score.recall:.3f} / {score.precision:.3f}"


def ratio(part: int, whole: int) -> str:
    """A share with three places."""
    return f"{part / whole:.3f}" if whole else "-"
