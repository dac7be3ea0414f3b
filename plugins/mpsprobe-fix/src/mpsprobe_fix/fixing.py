"""From the files of a program to their edits: facts of all of them first, then each by itself."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

import libcst as cst

from mpsprobe_fix.editing import edit
from mpsprobe_fix.facts import Program, facts_of, parsed
from mpsprobe_fix.files import Found, Source
from mpsprobe_fix.place import Change
from mpsprobe_fix.rule import Rule

Seen = Mapping[str, Mapping[int, Sequence[tuple[str, str]]]]
"""What a run found, by file and line."""


@dataclass
class Patch:
    """Attributes:
    texts: the new text of each file that changes, by its name.
    """

    texts: dict[str, str] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    decisions: list[Change] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def fixed(
    found: Found, rules: Sequence[Rule], seen: Seen | None = None, before: Patch | None = None, release: str = ""
) -> Patch:
    """The edits of ``rules`` to all files of ``found``, for a ``release`` of torch, which is the installed one where
    that says nothing else; a second call goes on from the patch ``before``.
    """
    patch = before or Patch(complaints=list(found.complaints))
    programs: dict[str, Program] = {}
    for source in found.sources:
        program = parsed(source.code)
        if not isinstance(program, str):
            programs[source.name] = program
        elif before is None:
            patch.complaints.append(f"{source.name}: {program}; not changed")
    facts = facts_of(programs.values(), found.settings)
    facts.release = tuple(map(int, re.findall(r"\d+", release)[:2])) or _installed()
    refused = (one for lines in (seen or {}).values() for some in lines.values() for one in some)
    facts.refused = {operator for kind, operator in refused if kind == "operator"}
    for source in found.sources:
        there = (seen or {}).get(source.name, {})
        if source.name in patch.texts:
            source = source.edited(patch.texts[source.name])
        program = parsed(source.code) if source.name in patch.texts else programs.get(source.name, "")
        if isinstance(program, str):
            continue
        try:
            made = edit(program, source.name, facts, rules, there)
        except (cst.ParserSyntaxError, RecursionError):
            patch.complaints.append(f"{source.name}: libcst does not parse it; not changed")
            continue
        patch.changes += made.changes
        known = {(one.rule, one.file, one.text) for one in patch.decisions if before is not None}
        patch.decisions += [one for one in made.decisions if (one.rule, one.file, one.text) not in known]
        if made.code != program.code:
            patch.texts[source.name] = source.after(made.code)
    return patch


def _installed() -> tuple[int, ...]:
    try:
        return tuple(map(int, re.findall(r"\d+", version("torch"))[:2]))
    except PackageNotFoundError:
        return (99,)


def diff(sources: Iterable[Source], patch: Patch) -> str:
    """A unified diff that ``patch`` and ``git apply`` take."""
    parts = []
    for source in sources:
        if source.name in patch.texts:
            old, new = (text.splitlines(keepends=True) for text in (source.text, patch.texts[source.name]))
            before, after = (_quoted(f"{side}/{source.name.lstrip('/')}") for side in "ab")
            parts += [
                line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
                for line in difflib.unified_diff(old, new, before, after)
            ]
    return "".join(parts)


def _quoted(name: str) -> str:
    """A name as git writes it: one with control characters, or none of UTF-8, in quotes with octal numbers."""
    if name.isprintable() and not {'"', "\\"} & {*name}:
        return name
    plain = (chr(one) if 32 <= one < 127 and one not in b'"\\' else f"\\{one:03o}" for one in os.fsencode(name))
    return f'"{"".join(plain)}"'
