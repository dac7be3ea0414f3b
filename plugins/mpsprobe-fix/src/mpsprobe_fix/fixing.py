"""From the files of a program to their edits: facts of all of them first, then each by itself. libcst walks over the
statements that rules are about; the others are text, as is the head of a file.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, get_args, get_type_hints

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from mpsprobe_fix.facts import IMPORTS, Facts, Program, facts_of, first_line, imported, lines_of, parsed
from mpsprobe_fix.files import Found, Source
from mpsprobe_fix.place import Change, Place, guarded
from mpsprobe_fix.rule import PACKAGES, Edit, Rule

WORDS = re.compile(
    r"cuda|nccl|float64|double|complex128|pin_memory|num_workers|8bit|load_in_|tf32|flash|torch\.compile|autocast|"
    r"GradScaler|DataParallel|DDP\b|device_ids|deepspeed|\.to\(\s*\d|device=\d|torch\.load|float16|half\b|"
    rf"{'|'.join(sorted(PACKAGES))}"
)
"""What a line has where a rule has something to say."""
_STATEMENTS = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
_HEADS = (*IMPORTS, ast.Try, ast.If, ast.With)
_IMPORT, _ASSIGNED, _DEFINED = 1, 2, 3


@dataclass
class Edited:
    """What became of a file."""

    code: str
    changes: list[Change]
    decisions: list[Change]


def edit(
    program: Program, file: str, facts: Facts, rules: Iterable[Rule], seen: Mapping[int, Any] | None = None
) -> Edited:
    """``program`` after the edits of ``rules``; ``seen`` has what a run found, by line.

    Raises:
        libcst.ParserSyntaxError: it is no Python of a version that libcst reads.
    """
    met = {*_met(program, facts), *(seen or ())}
    place = Place(program, file, facts, seen or {})
    table: dict[type[cst.CSTNode], list[tuple[Rule, Edit]]] = {}
    for rule in rules:
        for change in rule.edits:
            kinds = next(iter(get_type_hints(change).values()))
            for kind in get_args(kinds) or [kinds]:
                table.setdefault(kind, []).append((rule, change))
    made, done = "", 0
    for first, last in _with_lines(program, met):
        wrapper = MetadataWrapper(cst.parse_module("".join(program.lines[first - 1 : last])), unsafe_skip_copy=True)
        place.enter(first - 1, wrapper.resolve(PositionProvider))
        made += "".join(program.lines[done : first - 1]) + wrapper.module.visit(_Walk(place, table, met)).code
        done = last
    return Edited(_with_head(made + "".join(program.lines[done:]), place), place.changes, place.decisions)


def _met(program: Program, facts: Facts) -> Iterator[int]:
    """Lines where a rule may have something to say: those with a word of theirs, and calls that a Mac refuses."""
    ours = [re.escape(name) for name, full in program.names.items() if WORDS.search(full)]
    words = re.compile("|".join([WORDS.pattern, *ours, *map(re.escape, (*facts.settings, *facts.types))]))
    yield from (number for number, line in enumerate(program.lines, 1) if words.search(line))
    for node in program.nodes:
        if isinstance(node, ast.Call) and facts.lacks(program.qualified(node.func), node.lineno in program.sized):
            yield node.lineno


def _with_lines(program: Program, met: set[int]) -> Iterator[tuple[int, int]]:
    """First and last line of each statement of the file that has a line of ``met``: libcst sees no others, for it takes
    a hundred times as long as Python. Statements on one line are one.
    """
    spans: list[tuple[int, int]] = []
    for statement in program.tree.body:
        first, last = first_line(statement), statement.end_lineno or 0
        if spans and spans[-1][1] == first:
            first, _ = spans.pop()
        spans.append((first, last))
    return ((first, last) for first, last in spans if not met.isdisjoint(range(first, last + 1)))


class _Walk(cst.CSTTransformer):
    """Asks the rules about each node, from the leaves up."""

    def __init__(self, place: Place, table: Mapping[type[cst.CSTNode], list[tuple[Rule, Edit]]], met: set[int]) -> None:
        super().__init__()
        self._met = met
        self._place = place
        self._table = table

    def on_visit(self, node: cst.CSTNode) -> bool:
        self._place.around.append(node)
        decorated = isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.decorators
        seen = decorated or not isinstance(node, _STATEMENTS)
        return bool(seen) or not self._met.isdisjoint(self._place.lines(node))

    def on_leave(self, original: Any, updated: Any) -> Any:
        place = self._place
        place.around.pop()
        result = updated
        rules = self._table.get(type(original))
        if rules and not place.kept(original):
            place.original = original
            only_cuda = guarded(place)
            for rule, change in rules:
                if only_cuda and not rule.everywhere:
                    continue
                place.rule = rule.name
                made = change(result, place)
                if made is not None:
                    place.changes.append(Change(rule.name, place.file, place.line(original)))
                    result = made
                    if type(result) is not type(original):
                        break
        if isinstance(original, _STATEMENTS) and (comments := place.comments()):
            first, *rest = result if isinstance(result, cst.FlattenSentinel) else [result]
            first = first.with_changes(leading_lines=[*first.leading_lines, *comments])
            return cst.FlattenSentinel([first, *rest]) if rest else first
        return result


def _with_head(code: str, place: Place) -> str:
    """``code`` with what its edits need at its head: behind the imports that come with that of torch, and before the
    first statement that needs it.
    """
    if not place.heads and not place.needs_torch:
        return code
    torch, body = place.torch, ast.parse(code).body
    bound = [_bound_by(one) for one in body]
    start = next((number for number, names in enumerate(bound) if _has_torch(names)), None)
    needed = {*place.heads, *([torch] if start is None else [])}
    at = start or 0
    for number in range(at, len(body)):
        statement = body[number]
        is_text = number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        used = {inner.id for inner in ast.walk(statement) if isinstance(inner, ast.Name)}
        if not ((bound[number] and isinstance(statement, _HEADS)) or is_text) or used & needed:
            break
        at = number + 1
    while 0 < at < len(body) and body[at].lineno == body[at - 1].end_lineno:
        at -= 1
    wanted = sorted(place.heads.values(), key=_kind)
    if place.needs_torch and not any(names.get(torch) == "torch" for names in bound[:at]):
        wanted.insert(0, "import torch" if torch == "torch" else f"import torch as {torch}")
    if not wanted:
        return code
    lines = lines_of(code)
    line = (body[at - 1].end_lineno or 0) if at else first_line(body[0]) - 1
    before = _kind(ast.unparse(body[at - 1])) if at else 0
    text = "" if not line or lines[line - 1].endswith(("\n", "\r")) else "\n"
    for code_of_head in wanted:
        kind = _kind(code_of_head)
        gap = 2 if _DEFINED in (kind, before) else int((before, kind) == (_IMPORT, _ASSIGNED))
        text += "\n" * (gap if before else 0) + code_of_head.rstrip() + "\n"
        before = kind
    if before == _DEFINED:
        blank = next((number for number, text in enumerate(lines[line:]) if text.strip()), 2)
        text += "\n" * (2 - blank)
    end = re.search(r"\r\n|\r|\n", code)
    return "".join(lines[:line]) + text.replace("\n", end[0] if end else "\n") + "".join(lines[line:])


def _kind(code: str) -> int:
    """What a statement is, in the order in which they stand at the head."""
    match = re.match(r"(import |from )|[\w ,]+ = |(def |class )", code)
    return 4 if not match else _IMPORT if match[1] else _DEFINED if match[2] else _ASSIGNED


def _bound_by(statement: ast.stmt) -> dict[str, str]:
    """What imports of a statement bind, also in a ``try``."""
    if not isinstance(statement, _HEADS):
        return {}
    nodes = ast.walk(statement)
    return {name: full for node in nodes if isinstance(node, IMPORTS) for name, full in imported(node).items()}


def _has_torch(names: Mapping[str, str]) -> bool:
    return any(full.split(".")[0] == "torch" for full in names.values())


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
    gathered: Found, rules: Sequence[Rule], seen: Seen | None = None, before: Patch | None = None, release: str = ""
) -> Patch:
    """The edits of ``rules`` to all files of ``found``, for a ``release`` of torch, which is the installed one where
    that says nothing else; a second call goes on from the patch ``before``.
    """
    patch = before or Patch(complaints=list(gathered.complaints))
    programs: dict[str, Program] = {}
    sources = [
        source.edited(patch.texts[source.name]) if source.name in patch.texts else source for source in gathered.sources
    ]
    for source in sources:
        read = parsed(source.code)
        if isinstance(read, Program):
            programs[source.name] = read
        elif before is None:
            patch.complaints.append(f"{source.name}: {read}; not changed")
    facts = facts_of([*programs.values()], gathered.settings)
    facts.release = tuple(map(int, re.findall(r"\d+", release)[:2])) or _installed()
    refused = (refusal for lines in (seen or {}).values() for some in lines.values() for refusal in some)
    facts.refused = {operator for kind, operator in refused if kind == "operator"}
    for source in sources:
        program = programs.get(source.name)
        if program is None:
            continue
        try:
            made = edit(program, source.name, facts, rules, (seen or {}).get(source.name, {}))
        except (cst.ParserSyntaxError, RecursionError):
            patch.complaints.append(f"{source.name}: libcst does not parse it; not changed")
            continue
        patch.changes += made.changes
        known = {(decision.rule, decision.file, decision.text) for decision in patch.decisions if before is not None}
        patch.decisions += [
            decision for decision in made.decisions if (decision.rule, decision.file, decision.text) not in known
        ]
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
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in os.fsencode(name))
    return f'"{"".join(plain)}"'
