"""The audit as tables, and the document around them that a terminal draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mpsprobe.assembling import REGISTERED_ONLY
from mpsprobe_coverage.knowledge.judging.lists import Lists
from mpsprobe_exporters.document import Column, Document, Row, Section, Table, bullets
from mpsprobe_tables.audit.modules import ModuleAudit
from mpsprobe_tables.audit.result import Audit, ReleaseAudit, disagreements
from mpsprobe_tables.audit.scoring import Score
from mpsprobe_tables.audit.untested import MISSING, NATIVE, RAISED, Untested

TITLES: dict[Lists, str] = {"none": "Mechanism alone", "neighbours": "With neighbouring lists", "own": "With own list"}
SHORT: dict[Lists, str] = {"none": "mechanism", "neighbours": "neighbours", "own": "own list"}
OTHERWISE = (MISSING, REGISTERED_ONLY, NATIVE, RAISED)
COUNTS = ("tests", "fail", "reference raises")
VERDICTS, OUTCOME = "verdicts alone", "outcome"
DISAGREEING = {"missed": "Expected to fail, and not predicted", "false": "Predicted to fail, and expected to pass"}


def document(audit: Audit) -> Document:
    """What a terminal shows: of several releases a row each, then one release in detail."""
    focus = audit.focus
    scope = f"{audit.entries} OpInfo entries" if not audit.only else ", ".join(audit.only)
    by_release = (releases(audit), releases(audit, gradient=True)) if len(audit.releases) > 1 else ()
    named = [lists(focus), *(disagreeing(focus, kind) for kind in DISAGREEING), exceptions(focus)]
    others = [*map(untested, audit.untested), modules(audit.modules), disagreeing_modules(audit.modules)]
    return Document(
        "Audit",
        headline=f"torch {focus.release} against the expectations of its own tests",
        alerts=[f"internal error: {line}" for line in audit.internal],
        lines=[f"{scope}, {audit.samples:,} samples, traced with torch {audit.torch_version}"],
        sections=[
            *(_section(half) for table in (*by_release, figures(focus)) for half in _halves(table)),
            Section("Most important", bullets(two_figures(focus))),
            *map(_section, named),
            Section("Dtypes that the CPU has and MPS does not claim", bullets(beyond(focus))),
            *map(_section, others),
        ],
    )


def _section(table: Table) -> Section:
    count = f" ({len(table.rows)})" if table.entries else ""
    return Section(f"{table.caption}{count}", [table] if table.rows else [])


def _halves(table: Table) -> Iterator[Table]:
    """The two readings of the figures below each other: a screen has no room for both."""
    titles = [column.title for column in table.columns]
    for reading, counts in ((VERDICTS, COUNTS[2:]), (OUTCOME, COUNTS[:2])):
        shown = [0, *(at for at, title in enumerate(titles) if title in counts or title.startswith(f"{reading}: "))]
        columns = tuple(table.columns[at]._replace(title=titles[at].removeprefix(f"{reading}: ")) for at in shown)
        caption = f"{table.caption}, {'by' if reading == VERDICTS else 'of the'} {reading}"
        yield Table(columns, [[row[at] for at in shown] for row in table.rows], caption)


def _numbers(caption: str, titles: Sequence[str], rows: Iterable[Row]) -> Table:
    return Table((Column(titles[0]), *(Column(title, "number") for title in titles[1:])), list(rows), caption)


def _entries(caption: str, titles: Sequence[str], rows: Iterable[Row]) -> Table:
    return Table(tuple(map(Column, titles)), list(rows), caption, entries=True)


def figures(audited: ReleaseAudit) -> Table:
    """Each row by verdicts alone, and by the outcome of the test."""
    scores = list(audited.scores.values())
    rows = [
        (row, *_figures([score.device.get(row, Score()) for score in scores], [score.outcome[row] for score in scores]))
        for row in scores[0].outcome
    ]
    for name, gradient in (("all forward", False), ("all gradient", True)):
        if audited.row(next(iter(audited.scores)), gradient).tests:
            rows.append((name, *_row(audited, gradient)))
    return _numbers("Recall / precision", ("test", *_titles(audited.scores)), rows)


def _titles(modes: Iterable[Lists]) -> tuple[str, ...]:
    titles = [SHORT[mode] for mode in modes]
    return *COUNTS, *(f"{reading}: {title}" for reading in (VERDICTS, OUTCOME) for title in titles)


def _row(audited: ReleaseAudit, gradient: bool) -> tuple[str, ...]:
    modes = list(audited.scores)
    return _figures(
        [audited.verdicts(mode, gradient) for mode in modes], [audited.row(mode, gradient) for mode in modes]
    )


def _figures(verdicts: Sequence[Score], outcomes: Sequence[Score]) -> tuple[str, ...]:
    fail = outcomes[0].failing
    counts = (outcomes[0].tests, fail, fail - verdicts[0].failing)
    cells = [f" ({verdict.hits}/{verdict.failing})" if _share(verdict) != "-" else "" for verdict in verdicts]
    return (
        *map(str, counts),
        *(f"{_share(verdict)}{count}" for verdict, count in zip(verdicts, cells, strict=True)),
        *map(_share, outcomes),
    )


def lists(audited: ReleaseAudit) -> Table:
    """What was predicted of the tests that each list names, by mechanism alone where that was run."""
    scored = next(iter(audited.scores.values())).lists
    rows = (
        (name, *(str(count or "-") for count in (of.tests, of.refused, of.raises, of.random, of.runs)))
        for name, of in scored.items()
    )
    return _numbers("By list", ("list", "tests", "refused", "reference raises", "random", "not predicted"), rows)


def two_figures(audited: ReleaseAudit) -> Iterator[str]:
    """The two figures that matter most, in a sentence each and mode."""
    for mode, scored in audited.scores.items():
        named, passing = scored.unimplemented, scored.refused_float32
        total = sum(named.values())
        left = ", ".join(entry for entry, refused in named.items() if not refused)
        recall = f"{total} are refused (recall {ratio(total, len(named))})" + (f"; not {left}" if left else "")
        yield f"{TITLES[mode]}: of {len(named)} entries listed as unimplemented for every dtype, {recall}"
        refused = (
            f"{len(passing)} are refused: {', '.join(passing)}" if passing else "none is refused (precision 1.000)"
        )
        yield f"{TITLES[mode]}: of what passes in float32, {refused}"


def beyond(audited: ReleaseAudit) -> Iterator[str]:
    """Dtypes that MPS does not claim."""
    for mode, (refused, of) in audited.beyond.items():
        if of:
            yield f"{TITLES[mode]}: {refused} of {of} are refused (recall {ratio(refused, of)})"


def disagreeing(audited: ReleaseAudit, kind: str) -> Table:
    """Tests that were ``missed``, or falsely predicted (``false``), with the cause and the mode."""
    many, missed = len(audited.scores) > 1, kind == "missed"
    titles = ["entry", "dtypes", "test", *(["list"] if missed else []), "cause", *(["by"] if many else [])]
    rows = (
        (
            ", ".join(group.entries),
            ", ".join(group.dtypes),
            "gradient" if group.gradient else "forward",
            *([", ".join(group.lists)] if missed else []),
            group.cause,
            *(["both" if len(group.by) == len(audited.scores) else TITLES[group.by[0]].lower()] if many else []),
        )
        for group in disagreements(audited)
        if group.kind == kind
    )
    return _entries(DISAGREEING[kind], titles, rows)


def exceptions(audited: ReleaseAudit) -> Table:
    """Lines of the table that took tests out."""
    rows = (
        (
            ", ".join(dict.fromkeys(test.entry for test in tests)),
            ", ".join(dict.fromkeys(test.dtype for test in tests)),
            ", ".join(line.lists),
            line.what,
            line.evidence,
        )
        for line, tests in audited.excepted.items()
    )
    return _entries("Left out, with evidence", ("entries", "dtypes", "list", "what it is", "evidence"), rows)


def releases(audit: Audit, gradient: bool = False) -> Table:
    """Every release in a row: all forward tests, or all gradient tests."""
    title = f"Recall / precision, release by release{', gradients' if gradient else ''}"
    tested = (release for release in audit.releases if release.row(audit.modes[0], gradient).tests)
    return _numbers(
        title, ("torch", *_titles(audit.modes)), ((tried.release, *_row(tried, gradient)) for tried in tested)
    )


def releases_by_dtype(audit: Audit, mode: Lists) -> Table:
    """Release by release, a column for each dtype: by verdicts alone, and how many references raise."""
    rows = []
    for release in audit.releases:
        verdicts, outcomes = release.scores[mode].device, release.scores[mode].outcome
        cells = (
            f"{_share(verdicts[dtype])} ({outcomes[dtype].failing - verdicts[dtype].failing})"
            if dtype in outcomes
            else "-"
            for dtype in audit.dtypes
        )
        rows.append((release.release, *cells))
    return _numbers(TITLES[mode], ("torch", *audit.dtypes), rows)


def modules(audits: Sequence[ModuleAudit]) -> Table:
    """Every release in a row: what becomes of the tests of modules, and what the marks say."""
    titles = (
        "torch", "tests", "expected to fail", "of them refused", "numbers", "skipped", "of them refused",
        "without a mark", "of them refused", "recall / precision",
    )  # fmt: skip
    rows = []
    for audit in audits:
        counts: list[int] = [len(audit.tests)]
        counts += [audit.count("fail"), audit.count("fail", "refused"), audit.count("numbers")]
        counts += [
            audit.count("skip"),
            audit.count("skip", "refused"),
            audit.count("pass"),
            audit.count("pass", "refused"),
        ]
        failing, marked = (
            audit.count("fail") - audit.count("fail", "runs"),
            audit.refused - audit.count("pass", "refused"),
        )
        shares = f"{ratio(failing, audit.count('fail'))} / {ratio(marked, audit.refused)}"
        rows.append((audit.release, *map(str, counts), shares))
    return _numbers("Modules: recall / precision", titles, rows)


def disagreeing_modules(audits: Sequence[ModuleAudit]) -> Table:
    """Tests of modules that do not do what the marks let expect, those with the same cause together."""
    groups: dict[tuple[str, ...], dict[str, dict[str, None]]] = {}
    for audit in audits:
        for disagreement in audit.disagreements:
            key = (
                disagreement.module,
                f"{'gradient' if disagreement.gradient else 'forward'}, {disagreement.mode}",
                disagreement.expected,
                disagreement.cause,
            )
            groups.setdefault(key, {}).setdefault(audit.release, {})[disagreement.dtype] = None
    rows = (
        (
            module,
            ", ".join(dict.fromkeys(dtype for them in by_release.values() for dtype in them)),
            *rest,
            ", ".join(by_release),
        )
        for (module, *rest), by_release in groups.items()
    )
    return _entries("Modules that disagree", ("module", "dtypes", "test", "expected", "cause", "torch"), rows)


def untested(tried: Untested) -> Table:
    """What becomes of samples that no test has: kind by kind, by what the verdicts rest on."""
    outcomes = dict.fromkeys(outcome for count in tried.counts.values() for outcome in sorted(count))
    sources = sorted(outcomes.keys() - set(OTHERWISE))
    shown = [*sources, *(outcome for outcome in OTHERWISE if outcome in outcomes)]
    titles = (f"refused: {outcome}" if outcome in sources else outcome for outcome in shown)
    rows = (
        (kind, str(count.total()), *(str(count[outcome] or "-") for outcome in shown))
        for kind, count in tried.counts.items()
    )
    return _numbers(f"Samples that no test has, torch {tried.release}", ("sample", "entries", *titles), rows)


def _share(score: Score) -> str:
    if not score.hits + score.missed + score.false:
        return "-"
    return f"{score.recall:.3f} / {score.precision:.3f}"


def ratio(part: int, whole: int) -> str:
    """A share with three places."""
    return f"{part / whole:.3f}" if whole else "-"
