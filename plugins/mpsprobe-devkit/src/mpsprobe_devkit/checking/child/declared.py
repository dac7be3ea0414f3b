"""Judges what hooks return: everything that is wrong with each declaration, not only the first thing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from mpsprobe.declarations import PHASES, DoctorFinding, WorkloadDeclaration
from mpsprobe.plugins.catalogue import is_name
from mpsprobe.suggestions import an, nearest
from mpsprobe_devkit.checking.findings import Finding, finding
from mpsprobe_devkit.checking.hooks import HookFunction

LONGEST_SUMMARY = 120  # characters; lists have it behind two more columns
LEVELS = ("ok", "note", "warning", "error")
TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "int": (int,), "str | None": (str, type(None))}


def judged_declarations(
    answer: Any, kind: str, hook: HookFunction, expected: type[Any]
) -> tuple[list[Finding], list[tuple[Any, bool]]]:
    """What is wrong with the answer of a hook that lists, and its declarations, each with whether it is right.

    Those that could not even be written down (a field of another type) are left out.
    """
    if answer is None or isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        message = f"{hook.hook} returns {an(type(answer).__name__)} instead of a list of {expected.__name__}"
        return [finding("wrong-answer", message, hook.where)], []
    findings: list[Finding] = []
    declarations: list[tuple[Any, bool]] = []
    seen: set[str] = set()
    for position, declaration in enumerate(answer):
        if type(declaration) is not expected:
            got = type(declaration).__name__
            message = f"element {position} of what {hook.hook} returns is {an(got)} instead of {an(expected.__name__)}"
            findings.append(finding("wrong-type", message, hook.where))
            continue
        wrong = list(_wrong(declaration, kind, hook))
        name = declaration.name
        typed = not list(_wrong_fields(declaration, "", hook))
        if typed and name in seen:
            wrong.append(finding("duplicate-name", f"the {kind} '{name}' is declared twice", hook.where))
        elif typed:
            seen.add(name)
            declarations.append((declaration, not any(one.level == "error" for one in wrong)))
        findings += wrong
    return findings, declarations


def judged_resolution(answer: Any, name: str, hook: HookFunction) -> list[Finding]:
    """What is wrong with the answer of ``mpsprobe_resolve_workload`` to ``name``."""
    if type(answer) is not WorkloadDeclaration:
        message = (
            f"{hook.hook} returns {an(type(answer).__name__)} for '{name}' instead of a WorkloadDeclaration or None"
        )
        return [finding("wrong-answer", message, hook.where)]
    return list(_wrong(answer, "workload", hook, open_names=True))


def judged_doctor_findings(answer: Any, hook: HookFunction) -> list[Finding]:
    """What is wrong with the answer of ``mpsprobe_doctor``."""
    if answer is None or isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        message = f"{hook.hook} returns {an(type(answer).__name__)} instead of a list of DoctorFinding"
        return [finding("wrong-answer", message, hook.where)]
    findings = []
    for position, one in enumerate(answer):
        if type(one) is not DoctorFinding:
            message = (
                f"element {position} of what {hook.hook} returns is {an(type(one).__name__)} instead of a DoctorFinding"
            )
            findings.append(finding("wrong-type", message, hook.where))
            continue
        findings += _wrong_fields(one, f"the finding {position}", hook)
        if isinstance(one.level, str) and one.level not in LEVELS:
            findings.append(_not_one_of(f"the finding {position}", "level", one.level, LEVELS, hook))
    return findings


def _wrong(declaration: Any, kind: str, hook: HookFunction, *, open_names: bool = False) -> Iterator[Finding]:
    name = declaration.name
    what = f"the {kind} '{name}'" if isinstance(name, str) else an(kind)
    fields = list(_wrong_fields(declaration, what, hook))
    yield from fields
    if isinstance(name, str) and not open_names and not is_name(name):
        yield finding("bad-name", f"'{name}' is not a name that {an(kind)} can have", hook.where)
    if isinstance(declaration.summary, str):
        yield from _wrong_summary(declaration.summary, what, hook)
    target = declaration.target
    if isinstance(target, str):
        module, colon, attribute = target.partition(":")
        if not (module and colon and attribute) or any(not part for part in target.replace(":", ".").split(".")):
            message = f"{what} has the target '{target}', which is not of the form 'package.module:attribute'"
            yield finding("bad-field", message, hook.where)
    if not fields:
        yield from _wrong_values(declaration, what, hook)


def _wrong_fields(record: Any, what: str, hook: HookFunction) -> Iterator[Finding]:
    """Fields of another type than the dataclass says; dataclasses check none by themselves."""
    for field in dataclasses.fields(record):
        value, annotation = getattr(record, field.name), str(field.type)
        if annotation == "tuple[str, ...]":
            right = isinstance(value, (tuple, list)) and all(isinstance(item, str) for item in value)
        elif annotation in TYPES:
            right = isinstance(value, TYPES[annotation])
        else:
            continue
        if not right:
            message = f"{what} has {an(type(value).__name__)} as its {field.name}, which should be {annotation}"
            yield finding("bad-field", message, hook.where)


def _wrong_summary(summary: str, what: str, hook: HookFunction) -> Iterator[Finding]:
    if not summary.strip():
        yield finding("bad-summary", f"{what} has an empty summary", hook.where)
    elif not summary.isprintable():
        yield finding("bad-summary", f"{what} has line breaks or control characters in its summary", hook.where)
    elif len(summary) > LONGEST_SUMMARY:
        message = f"{what} has a summary of {len(summary)} characters, more than {LONGEST_SUMMARY}"
        yield finding("bad-summary", message, hook.where)


def _wrong_values(declaration: Any, what: str, hook: HookFunction) -> Iterator[Finding]:
    """Values of the right type that mean nothing."""
    for phase in getattr(declaration, "phases", ()):
        if phase not in PHASES:
            yield _not_one_of(what, "phases", phase, PHASES, hook)
    for field in ("phases", "frameworks", "kinds"):
        if not getattr(declaration, field, True):
            yield finding("bad-field", f"{what} has no {field}, so nothing would ever use it", hook.where)
    extension = getattr(declaration, "extension", None)
    if extension is not None:
        folder = declaration.folder
        if folder and extension:
            message = f"{what} writes a folder and has the extension '{extension}', which only files have"
            yield finding("bad-field", message, hook.where, "Give it extension=''.")
        elif not folder and (not extension.startswith(".") or len(extension) < 2 or not extension.isprintable()):
            message = f"{what} has the extension '{extension}', which should be like '.txt'"
            yield finding("bad-field", message, hook.where)
    for requirement in getattr(declaration, "requires", ()):
        if _is_no_requirement(requirement):
            message = f"{what} requires '{requirement}', which is not a requirement like 'torchvision>=0.20'"
            yield finding("bad-field", message, hook.where)


def _is_no_requirement(text: str) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(text)
    except InvalidRequirement:
        return True
    return False


def _not_one_of(what: str, field: str, value: str, known: Iterable[str], hook: HookFunction) -> Finding:
    near = nearest(value, known, count=1)
    hint = f"Did you mean '{near[0]}'?" if near else f"It is one of {', '.join(known)}."
    return finding("bad-field", f"{what} has '{value}' in its {field}", hook.where, hint)
