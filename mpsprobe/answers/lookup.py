"""Finds the answer to a question: the cache is asked first, then the plugins that know answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mpsprobe.answers import folder
from mpsprobe.answers.question import Question
from mpsprobe.environment import installed
from mpsprobe.errors import MpsprobeError, PluginError, ReportError, UnknownName, UsageError, install_command
from mpsprobe.plugins.registry import get_registry
from mpsprobe.settings import advisory_files
from mpsprobe.streams import write_stdout
from mpsprobe.suggestions import printable

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report

KINDS_OF = {"coverage": ("coverage", "coverage-matrix"), "fit": ("fit",)}
"""The kinds of reports that answer a command."""
_CACHE = "cache"
_SAME, _ANY = "same", "any"
_TABLE, _JSON, _OURS = "table", "json", "mpsprobe-exporters"


class Answer:
    """A report that was worked out before.

    Args:
        source: ``cache``, or the distribution that knows it.
        document: the report as JSON has it, with the field ``recalled``.
    """

    def __init__(self, source: str, document: dict[str, Any]) -> None:
        self.source, self.document = source, document

    def report(self) -> Report | None:
        """The report, as a model; ``None`` where the cache has none after all.

        Raises:
            PluginError: a plugin gave no report.
        """
        from mpsprobe.schemas.report import parse_report

        try:
            return parse_report(json.dumps(self.document), self.source)
        except ReportError as error:
            if self.source == _CACHE:
                return None
            raise PluginError(f"{self.source} answered with no report: {error.message}") from error

    def write(self, format_name: str | None, everything: bool = False) -> bool:
        """Write it to standard output as ``table`` or ``json``, if no model of pydantic is needed for that.

        Args:
            format_name: ``table`` for ``None``.
            everything: a terminal shows what nobody needs to act, too.
        """
        from mpsprobe.views import view

        registry, name = get_registry(), format_name or _TABLE
        owner = registry.owner("exporter", name) if name in (_TABLE, _JSON) else None
        if owner is None or owner.found.distribution != _OURS:
            return False
        seen = view(self.document)
        if seen is None or has_failed(seen):
            return False
        if name == _JSON:
            write_stdout(json.dumps(seen, indent=2))
        else:
            write_stdout(registry.exporter(name).render_for_terminal(seen, everything))
        return True


def find(question: Question, atlas: bool | None = None) -> Answer | None:
    """The answer to ``question``; ``None`` where it has to be worked out.

    Args:
        atlas: whether a plugin's answer is wanted, of whatever versions; ``None``: where a run would say the same.

    Raises:
        UsageError: a plugin's answer is wanted, and no plugin has one.
        PluginError: a plugin gave the report of another command.
        MpsprobeError: nobody knows it, and torch is not there to work it out.
    """
    if question.key and not atlas and (found := folder.find(question.key, question.asked)) is not None:
        made, document = found
        recalled = {"source": _CACHE, "made": made, "notes": []}
        if document.get("kind") in KINDS_OF[question.command]:
            return Answer(_CACHE, {**document, "recalled": recalled})
    if atlas is False:
        return None
    alone = not atlas and not installed(["torch"]) and _framework(question.workload) in ("torch", None)
    answer, reasons = _of_plugins(question, _ANY if atlas or alone else _SAME)
    if answer is None and not (atlas or alone) and _framework(question.workload) is None:
        answer, _ = _of_plugins(question, _ANY)
    if answer is not None or not (atlas or alone):
        return answer
    why = "; ".join(reasons) or "no plugin is there that knows answers"
    if alone:
        needs = f"{why}; to work it out takes" if reasons else f"{question.command} needs the package"
        raise MpsprobeError(f"{needs} torch, which is not installed", f"Install it: {install_command('torch')}")
    hint = (
        "Leave --atlas out: then it is worked out." if reasons else f"Install it: {install_command('mpsprobe-atlas')}"
    )
    raise UsageError(f"--atlas has no answer: {why}", hint)


def keep(question: Question, report: Report) -> None:
    """Keep what came of the work, unless it may be another one next time."""
    if question.key and not has_failed(report) and question.is_lasting:
        folder.keep(question.key, question.asked, report.model_dump(mode="json"))


def has_failed(report: Any) -> bool:
    """Whether a run did not come to its end: a package that is installed meanwhile may cure it."""
    cells = [report, *getattr(report, "releases", ())]
    return any(getattr(cell, "failure", None) is not None for cell in cells)


def _of_plugins(question: Question, wanted: str) -> tuple[Answer | None, list[str]]:
    """The answer of the first plugin that has one, and why those before it have none."""
    if own := advisory_files():
        return None, [f"nobody has compared {printable(own[0])}, an advisory file of yours"]
    reasons: list[str] = []
    for known, plugin in get_registry().known_answers(question.asked, wanted):
        if known.report is None:
            reasons += [known.reason] if known.reason else []
            continue
        kind = known.report.get("kind")
        if kind not in KINDS_OF[question.command]:
            raise PluginError(f"{plugin.owner} answered with a '{printable(str(kind))}'")
        recalled = {"source": plugin.owner, "made": known.made, "notes": [*known.notes]}
        return Answer(plugin.owner, {**known.report, "recalled": recalled}), reasons
    return None, reasons


def _framework(workload: str) -> str | None:
    """What it is written in; ``None`` where no plugin is there that could build it."""
    try:
        return str(get_registry().workload_and_owner(workload).declaration.framework)
    except UnknownName:
        return None
    except MpsprobeError:  # said later
        return "torch"
