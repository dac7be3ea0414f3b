"""The audit as the page of the documentation, whose words are in ``page.md``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any

from mpsprobe_coverage.knowledge.judging.lists import Lists
from mpsprobe_exporters.document import AMOUNTS, Table
from mpsprobe_exporters.markdown import table as markdown_table
from mpsprobe_tables.audit import tables
from mpsprobe_tables.audit.result import Audit, ReleaseAudit
from mpsprobe_tables.audit.scoring import MOST_LINES, left_to_numbers


class _Words:
    """The parts of ``page.md``, each after a comment with its name; braces are filled in as by ``str.format``."""

    def __init__(self) -> None:
        text = (files("mpsprobe_tables.audit") / "page.md").read_text(encoding="utf-8")
        self._parts = dict(re.findall(r"<!-- (\w+) -->\n(.*?)\n(?=<!--|\Z)", text, re.DOTALL))

    def __call__(self, name: str, **values: Any) -> str:
        return str(self._parts[name].format(**values))


def page(audit: Audit, command: str) -> str:
    """Markdown; ``command`` is the one that makes it again."""
    focus, words = audit.focus, _Words()
    scope = f"{audit.entries} chosen entries" if audit.only else f"{audit.entries} entries"
    parts = [
        words("top", command=command, audit=audit),
        *(words("internal", line=line) for line in audit.internal),
        words("short", one=focus),
        "\n".join(_short(words, focus, mode) for mode in focus.scores),
        words("compared", audit=audit, one=focus, scope=scope, dtypes=", ".join(audit.dtypes)),
        *_table(tables.figures(focus)),
        *_bullets(tables.two_figures(focus)),
        words("lists"),
        *_table(tables.lists(focus)),
        *_details(words, audit, focus),
        *_releases(words, audit),
        *_modules(words, audit),
        words("limits"),
    ]
    return "\n\n".join(parts) + "\n"


def _short(words: _Words, audit: ReleaseAudit, mode: Lists) -> str:
    forward, gradient = (audit.verdicts(mode, which) for which in (False, True))
    refused = forward.hits + forward.false
    return words("mode", mode=tables.TITLES[mode], forward=forward, gradient=gradient, refused=refused)


def _details(words: _Words, audit: Audit, of_release: ReleaseAudit) -> Iterator[str]:
    """Each disagreement, and what is in no figure."""
    for kind in tables.DISAGREEING:
        disagreeing = tables.disagreeing(of_release, kind)
        yield words(kind)
        yield words(f"{kind}_some" if disagreeing.rows else "none")
        yield from _table(disagreeing)
    exceptions = tables.exceptions(of_release)
    yield words("exceptions")
    yield words("exceptions_some" if exceptions.rows else "exceptions_none", most=MOST_LINES)
    yield from _table(exceptions)
    if found := left_to_numbers(of_release.scores["none"].judged) if "none" in of_release.scores else {}:
        yield words("numbers")
        yield "\n".join(words("numbers_row", row=row, left=left) for row, left in found.items())
    if lines := list(tables.beyond(of_release)):
        yield words("beyond")
        yield from _bullets(lines)


def _releases(words: _Words, audit: Audit) -> Iterator[str]:
    if len(audit.releases) > 1:
        yield words("releases", audit=audit)
        yield from _table(tables.releases(audit))
        yield from _table(tables.releases(audit, gradient=True))
        yield words("dtypes")
        for mode in audit.modes:
            yield f"### {tables.TITLES[mode]}, by dtype"
            yield from _table(tables.releases_by_dtype(audit, mode))
    if audit.untested:
        yield words("untested")
    for tried in audit.untested:
        yield f"### On torch {tried.release}"
        yield from _table(tables.untested(tried))


def _modules(words: _Words, audit: Audit) -> Iterator[str]:
    if not audit.modules:
        return
    yield words("modules", audit=audit)
    yield from _table(tables.modules(audit.modules))
    if idle := [module for module in audit.modules if module.idle]:
        names = ", ".join(dict.fromkeys(f"`{name}`" for row in idle for name in row.idle))
        yield words("idle", names=names, first=idle[0].release, last=idle[-1].release)
    yield words("marks")
    disagreeing = tables.disagreeing_modules(audit.modules)
    yield from _table(disagreeing) if disagreeing.rows else (words("none"),)


def _table(table: Table) -> Iterator[str]:
    if table.rows:
        right = [place for place, column in enumerate(table.columns) if column.kind in AMOUNTS]
        rows = ([_cell(str(cell)) for cell in row] for row in table.rows)
        yield "\n".join(markdown_table([column.title for column in table.columns], rows, right))


def _cell(text: str) -> str:
    """Text that Markdown leaves as it is: names have underscores, messages anything."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text)


def _bullets(lines: Iterable[str]) -> Iterator[str]:
    if listed := "\n".join(f"- {_cell(line)}" for line in lines):
        yield listed
