"""Asks plugins for an answer that they know, where the cache has none. Imports nothing heavy.

Such an answer is not kept in the cache: its plugin knows it the next time too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mpsprobe.environment import installed
from mpsprobe.errors import MpsprobeError, PluginError, UnknownName, UsageError, install_command
from mpsprobe.plugins.registry import get_registry
from mpsprobe.streams import write_stdout
from mpsprobe.suggestions import printable
from mpsprobe_coverage.commands.instant import JSON, KINDS_OF, TABLE, Question, has_failed, is_ours
from mpsprobe_coverage.commands.options import TORCH, framework

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report

SAME, ANY = "same", "any"
ATLAS = "mpsprobe-atlas"
LEAVE_OUT = "Leave --atlas out: then it is worked out."
NOBODY = "no plugin is there that knows answers"


def has_torch() -> bool:
    """Whether torch is installed; it is not imported."""
    return bool(installed([TORCH]))


def known(question: Question, atlas: bool | None, needs_torch: bool = True) -> Report | None:
    """The report that a plugin knows, as it is recalled; ``None`` where it has to be worked out.

    Args:
        atlas: whether the user asks for one, of whatever versions; ``None``: where a run would say the same.
        needs_torch: whether torch would have to work it out.

    Raises:
        UsageError: the user asks for one, and nobody knows it.
        MissingPackage: likewise, where torch is not there.
        PluginError: a plugin gave no report.
    """
    document = _document(question, atlas, needs_torch and not has_torch())
    if document is None:
        return None
    from pydantic import ValidationError

    from mpsprobe.schemas.report import KINDS

    kind, owner = document.get("kind"), document["recalled"]["source"]
    try:
        if kind not in KINDS_OF[question.asked["command"]]:
            raise PluginError(f"{owner} answered with a '{printable(str(kind))}'")
        return KINDS[kind].model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise PluginError(f"{owner} answered with no report: {printable(where)}: {first['msg']}") from error


def written(question: Question, atlas: bool | None, format_name: str | None, everything: bool) -> bool:
    """Write the answer that a plugin knows to standard output, if that needs no model of pydantic.

    Args:
        atlas: as ``known`` takes it.
        format_name, everything: as the flags have them.
    """
    name = format_name or TABLE
    if question.answer is not None or name not in (TABLE, JSON) or not is_ours(name):
        return False
    registry = get_registry()
    try:
        alone = atlas is None and not has_torch() and framework([question.workload], registry) == TORCH
        document = _document(question, atlas, alone)
    except MpsprobeError:  # is said when the other flags were looked at
        return False
    if document is None:
        return False
    from mpsprobe.views import view

    seen = view(document)
    if seen is None or has_failed(seen):
        return False
    if name == JSON:
        write_stdout(json.dumps(seen, indent=2, default=vars))
    else:
        write_stdout(registry.exporter(name).render_for_terminal(seen, everything))
    return True


def _document(question: Question, atlas: bool | None, alone: bool) -> dict[str, Any] | None:
    """What ``known`` reads, from the first plugin that knows it.

    Args:
        alone: nobody can work it out.
    """
    if atlas is False:
        return None
    wanted = ANY if atlas or alone else SAME
    document, reasons = _answered(question, wanted)
    if document is None and wanted == SAME and _is_unknown(question.workload):
        document, _ = _answered(question, ANY)
    if document is not None or wanted == SAME:
        return document
    why = "; ".join(filter(None, reasons)) or NOBODY
    if alone:
        raise NotKnown(why, bool(reasons))
    install = f"Install it: {install_command(ATLAS)}"
    raise UsageError(f"--atlas has no answer: {why}", LEAVE_OUT if reasons else install)


def _answered(question: Question, wanted: str) -> tuple[dict[str, Any] | None, list[str | None]]:
    """The answer of the first plugin that has one, and why those before it have none."""
    reasons: list[str | None] = []
    for answer, plugin in get_registry().known_answers(question.asked, wanted):
        if answer.report is not None:
            recalled = {"source": plugin.owner, "made": answer.made, "notes": [*answer.notes]}
            return {**answer.report, "recalled": recalled}, reasons
        reasons.append(answer.reason)
    return None, reasons


def _is_unknown(workload: str) -> bool:
    """Whether no plugin is there that could build it."""
    try:
        get_registry().workload_and_owner(workload)
    except MpsprobeError as error:
        return isinstance(error, UnknownName)
    return False


class NotKnown(MpsprobeError):
    """Nobody knows the answer, and torch is not there to work it out.

    Args:
        why: nobody does.
        asked: whether somebody could have.
    """

    def __init__(self, why: str, asked: bool) -> None:
        install = install_command("torch")
        if asked:
            message = f"{why}; to work it out takes torch, which is not installed"
        else:
            message = "coverage needs the package torch, which is not installed"
        super().__init__(message, f"Install it: {install}")
