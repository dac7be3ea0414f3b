"""The audit as tables of words, which ``terminal`` and ``page`` draw in their ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mpsprobe.assembling import REGISTERED_ONLY
from mpsprobe_coverage.knowledge.judging.lists import Lists
from mpsprobe_tables.audit.modules import ModuleAudit
from mpsprobe_tables.audit.result import Audit, ReleaseAudit, disagreements
from mpsprobe_tables.audit.scoring import Score
from mpsprobe_tables.audit.untested import MISSING, NATIVE, RAISED, Untested

TITLES: dict[Lists, str] = {"none": "mechanism alone", "neighbours": "with neighbouring lists", "own": "with own list"}
SHORT: dict[Lists, str] = {"none": "mechanism", "neighbours": "neighbours", "own": "own list"}
OTHERWISE = (MISSING, REGISTERED_ONLY, NATIVE, RAISED)
READINGS = ("device", "outcome")
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
    """Each row by verdicts alone, and by the outcome of the test."""
    scores = audited.scores
    grid = Grid("Recall / precision", ("test", *_headings(scores)))
    first = next(iter(scores.values()))
    for row in first.outcome:
        verdicts, outcomes = ([getattr(one, which).get(row, Score()) for one in scores.values()] for which in READINGS)
        grid.rows.append((row, *_figures(verdicts, outcomes)))
    for name, gradient in ((FORWARD_ROWS, False), (GRADIENT_ROWS, True)):
        if audited.row(next(iter(scores)), gradient).tests:
            grid.rows.append((name, *_row(audited, gradient)))
    return replace(grid, numbers=frozenset(range(1, len(grid.headings))))


def _headings(modes: Iterable[Lists]) -> tuple[str, ...]:
    titles = [SHORT[mode] for mode in modes]
    verdicts, outcomes = ([f"{what}: {title}" for title in titles] for what in ("verdicts alone", "outcome"))
    return "tests", "fail", "reference raises", *verdicts, *outcomes


def _row(audited: ReleaseAudit, gradient: bool) -> tuple[str, ...]:
    modes = list(audited.scores)
    return _figures(
        [audited.verdicts(mode, gradient) for mode in modes], [audited.row(mode, gradient) for mode in modes]
    )


def _figures(verdicts: Sequence[Score], outcomes: Sequence[Score]) -> tuple[str, ...]:
    fail = outcomes[0].failing
    counts = (outcomes[0].tests, fail, fail - verdicts[0].failing)
    return *map(str, counts), *map(counted, verdicts), *map(share, outcomes)


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


def releases(audit: Audit, gradient: bool = False) -> Grid:
    """Every release in a row: all forward tests, or all gradient tests."""
    headings = ("torch", *_headings(audit.modes))
    title = f"Recall / precision, release by release{', gradients' if gradient else ''}"
    grid = Grid(title, headings, numbers=frozenset(range(1, len(headings))))
    tested = (one for one in audit.releases if one.row(audit.modes[0], gradient).tests)
    grid.rows.extend((one.release, *_row(one, gradient)) for one in tested)
    return grid


def releases_by_dtype(audit: Audit, mode: Lists) -> Grid:
    """Release by release, a column for each dtype: by verdicts alone, and how many references raise."""
    headings = ("torch", *audit.dtypes)
    grid = Grid(TITLES[mode].capitalize(), headings, numbers=frozenset(range(1, len(headings))))
    for one in audit.releases:
        scored = one.scores[mode]
        cells = (
            (scored.device[dtype], scored.outcome[dtype]) if dtype in scored.outcome else None for dtype in audit.dtypes
        )
        grid.rows.append(
            (
                one.release,
                *("-" if cell is None else f"{share(cell[0])} ({cell[1].failing - cell[0].failing})" for cell in cells),
            )
        )
    return grid


def modules(audits: Sequence[ModuleAudit]) -> Grid:
    """Every release in a row: what becomes of the tests of modules, and what the marks say."""
    headings = (
        "torch", "tests", "expected to fail", "of them refused", "numbers", "skipped", "of them refused",
        "without a mark", "of them refused", "recall / precision",
    )  # fmt: skip
    grid = Grid("Modules: recall / precision", headings, numbers=frozenset(range(1, len(headings))))
    for one in audits:
        counts: list[int] = [len(one.tests)]
        counts += [one.count("fail"), one.count("fail", "refused"), one.count("numbers")]
        counts += [one.count("skip"), one.count("skip", "refused"), one.count("pass"), one.count("pass", "refused")]
        found, marked = one.count("fail") - one.count("fail", "runs"), one.refused - one.count("pass", "refused")
        shares = f"{ratio(found, one.count('fail'))} / {ratio(marked, one.refused)}"
        grid.rows.append((one.release, *map(str, counts), shares))
    return grid


def disagreeing_modules(audits: Sequence[ModuleAudit]) -> Grid:
    """Tests of modules that do not do what the marks let expect, those with the same cause together."""
    grid = Grid("Modules that disagree", ("module", "dtypes", "test", "expected", "cause", "torch"))
    found: dict[tuple[str, ...], dict[str, dict[str, None]]] = {}
    for audit in audits:
        for one in audit.disagreements:
            key = one.module, f"{'gradient' if one.gradient else 'forward'}, {one.mode}", one.expected, one.cause
            found.setdefault(key, {}).setdefault(audit.release, {})[one.dtype] = None
    for (module, test, expected, cause), by_release in found.items():
        dtypes = dict.fromkeys(dtype for them in by_release.values() for dtype in them)
        grid.rows.append((module, ", ".join(dtypes), test, expected, cause, ", ".join(by_release)))
    return grid


def untested(one: Untested) -> Grid:
    """What becomes of samples that no test has: kind by kind, by what the verdicts rest on."""
    outcomes = dict.fromkeys(outcome for found in one.counts.values() for outcome in sorted(found))
    sources = sorted(outcomes.keys() - set(OTHERWISE))
    shown = [*sources, *(outcome for outcome in OTHERWISE if outcome in outcomes)]
    titles = (f"refused: {outcome}" if outcome in sources else outcome for outcome in shown)
    grid = Grid(f"Samples that no test has, torch {one.release}", ("sample", "entries", *titles))
    for kind, found in one.counts.items():
        grid.rows.append((kind, str(found.total()), *(str(found[outcome] or "-") for outcome in shown)))
    return replace(grid, numbers=frozenset(range(1, len(grid.headings))))


def share(score: Score) -> str:
    """Recall and precision in one cell."""
    if not score.hits + score.missed + score.false:
        return "-"
    return f"{score.recall:.3f} / {score.precision:.3f}"


def counted(score: Score) -> str:
    """The same, with how many of those that are expected to fail were found."""
    shown = share(score)
    return shown if shown == "-" else f"{shown} ({score.hits}/{score.failing})"


def ratio(part: int, whole: int) -> str:
    """A share with three places."""
    return f"{part / whole:.3f}" if whole else "-"
