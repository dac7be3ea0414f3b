"""Asks plugins for an answer that they know, where the cache has none."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from pydantic import ValidationError

from mpsprobe.declarations import KnownAnswer
from mpsprobe.errors import MpsprobeError, PluginError, UsageError, install_command
from mpsprobe.plugins.registry import get_registry
from mpsprobe.schemas.report import KINDS, Report
from mpsprobe.suggestions import printable
from mpsprobe_coverage.cache.evidence import Evidence, stamp
from mpsprobe_coverage.commands.instant import KINDS_OF, Question

SAME, ANY = "same", "any"
LEAVE_OUT = "Leave --atlas out: then it is worked out."
NOBODY = "no plugin is there that knows answers"


def has_torch() -> bool:
    """Whether torch is installed; it is not imported."""
    try:
        importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


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
    alone = needs_torch and not has_torch()
    if atlas is False:
        return None
    reasons = []
    for answer, plugin in get_registry().known_answers(question.asked, ANY if atlas or alone else SAME):
        if answer.report is not None:
            report = _report(question, answer, plugin.owner)
            evidence = Evidence({path: stamp(path) for path in answer.files})
            question.keep_known(report, evidence)
            return report
        reasons.append(answer.reason)
    if not (atlas or alone):
        return None
    why = "; ".join(filter(None, reasons)) or NOBODY
    if alone:
        raise NotKnown(why, bool(reasons))
    install = f"Install it: {install_command(ATLAS)}"
    raise UsageError(f"--atlas has no answer: {why}", LEAVE_OUT if reasons else install)


ATLAS = "mpsprobe-atlas"


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


def _report(question: Question, answer: KnownAnswer, owner: str) -> Report:
    document: dict[str, Any] = dict(answer.report or {})
    kind = document.get("kind")
    recalled = {"source": owner, "made": answer.made, "notes": list(answer.notes)}
    try:
        if kind not in KINDS_OF[question.asked["command"]]:
            raise PluginError(f"{owner} answered with a '{printable(str(kind))}'")
        return KINDS[kind].model_validate({**document, "recalled": recalled})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise PluginError(f"{owner} answered with no report: {printable(where)}: {first['msg']}") from error
