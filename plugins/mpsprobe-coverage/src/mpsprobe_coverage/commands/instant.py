"""Commands and functions that ask the cache first. Imports nothing heavy: an answer that is known needs none of it."""

# ruff: noqa: PTH110, PTH112
from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mpsprobe.plugins.registry import get_registry
from mpsprobe.streams import write_stdout
from mpsprobe_coverage.cache.entries import Answer, find, keep, key_of
from mpsprobe_coverage.cache.surroundings import digest, surroundings

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report
    from mpsprobe_coverage.cache.watching import Watch

SWITCH = "MPSPROBE_NO_CACHE"
"""The variable that switches the cache off for every command and function."""
NOT_KEPT = ("weights", "trust_remote_code", "atlas")
"""Options with which an answer depends on what no key has: on values of gigabytes, on code from elsewhere. What the
atlas says is not worked out at all."""
KINDS_OF = {"coverage": ("coverage", "coverage-matrix"), "fit": ("fit",)}
OURS = "mpsprobe-exporters"
TABLE, JSON = "table", "json"
OF_SCREEN = ("COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "TERM", "WT_SESSION")


def cache_option(command: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """``--no-cache``; ``MPSPROBE_NO_CACHE`` is the same for all commands."""
    variables = [f"MPSPROBE_{command.upper()}_NO_CACHE", SWITCH]
    return click.option(
        "--no-cache", is_flag=True, envvar=variables, help="Work the answer out anew, and do not keep it."
    )


class Question:
    """What is asked of one workload, and the answer if it is kept.

    Args:
        command: ``coverage`` or ``fit``.
        workload: as the user names it.
        options: all that the answer depends on, by the parameters' names.
        cached: whether the cache may be asked and added to.
        around: remembers the digests of the surroundings, for who asks many questions.

    Attributes:
        workload: as it was given.
        asked: all of it as data.
        answer: the one that is kept; ``None`` where there is none.
        own: whether the workload is a function in a file of the user's.
    """

    def __init__(
        self,
        command: str,
        workload: str,
        options: Mapping[str, Any],
        *,
        cached: bool,
        around: dict[bool, str] | None = None,
    ) -> None:
        self.workload = workload
        file = workload.rpartition(":")[0] or workload
        self.own = file.lower().endswith(".py")
        is_path = self.own or os.sep in workload or "/" in workload or os.path.exists(workload)
        folder = os.path.realpath(".") if is_path else None
        self.path = os.path.realpath(workload) if is_path and os.path.isdir(workload) else None
        plain = json.loads(json.dumps(dict(options), default=_plain))
        self.asked: dict[str, Any] = {"command": command, "workload": workload, "folder": folder, "options": plain}
        self.cached = cached and not any(options.get(name) for name in NOT_KEPT)
        self.key = ""
        if self.cached:
            around = {} if around is None else around
            if self.own not in around:
                around[self.own] = surroundings(get_registry(), self.own)
            self.key = key_of(self.asked, around[self.own])
        self.answer: Answer | None = find(self.key, self.asked) if self.cached else None

    def as_data(self) -> dict[str, Any]:
        """For the process that works it out."""
        return {"key": self.key, "asked": self.asked}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Question:
        """What ``as_data`` gave, in another process, without looking for the answer."""
        asked = data["asked"]
        made = cls(asked["command"], asked["workload"], asked["options"], cached=False)
        made.asked, made.key, made.cached = asked, data["key"], bool(data["key"])
        return made

    @contextlib.contextmanager
    def watched(self, earlier: Watch | None = None) -> Iterator[Watch | None]:
        """Around the work: what it reads is seen, where the answer is to be kept.

        Args:
            earlier: as ``Watch`` takes it.
        """
        if not self.cached:
            yield None
            return
        from mpsprobe_coverage.cache.watching import Watch

        with Watch(self.own, earlier if self.own else None) as watch:
            if self.path:
                watch.add_folder(self.path)
            yield watch

    def keep(self, report: Report, watch: Watch | None) -> Report | None:
        """Keep what came of the work, unless it may be another one next time; the report as it will be recalled."""
        if watch is None:
            return None
        evidence = watch.evidence()
        if watch.refusal is not None or has_failed(report):
            return None
        from mpsprobe.schemas import Recalled

        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        report = report.model_copy(update={"recalled": Recalled(source="cache", made=made)})
        try:
            text = json.dumps(report.model_dump(mode="python"), allow_nan=False)
        except ValueError:  # in a key that no schema here knows
            return None
        self.answer = Answer(self.asked, made, text, evidence)
        return report if keep(self.key, self.answer) else None

    def recalled(self) -> Report | None:
        """The report that is kept, read again; ``None`` where there is none, or it is none."""
        if self.answer is None:
            return None
        from mpsprobe.errors import ReportError
        from mpsprobe.schemas.report import parse_report

        try:
            report = parse_report(self.answer.report, "the cache")
        except ReportError:
            return None
        return report if report.kind in KINDS_OF[self.asked["command"]] else None

    def keep_text(self, how: Sequence[object], draw: Callable[[], str | bytes], code: int) -> None:
        """Keep what the exporter ``table`` draws of the answer on standard output, with the exit code."""
        if self.answer is not None and is_ours(TABLE):
            text = draw()
            if isinstance(text, str):
                keep(self.key, self.answer.with_text(as_shown(how), text, code))

    def written(
        self, format_name: str | None, output: str | None, exports: Sequence[str], how: Sequence[object]
    ) -> int | None:
        """Write the answer without reading it, and return the exit code; ``None`` where more has to be done.

        Args:
            format_name, output, exports: as the flags have them.
            how: as ``as_shown`` takes it.
        """
        name = format_name or TABLE
        if self.answer is None or exports or output not in (None, "-") or not is_ours(name):
            return None
        if name == JSON and not any(how):
            write_stdout(json.dumps(json.loads(self.answer.report), indent=2))
            return 0
        text, code = self.answer.texts.get(as_shown(how), (None, 0))
        if name != TABLE or text is None:
            return None
        write_stdout(text)
        return code


def as_shown(how: Sequence[object]) -> str:
    """The digest of how an answer is drawn on standard output: for which flags, and on which screen.

    Args:
        how: the flags that change what is written, or the exit code.
    """
    stream = sys.stdout
    screen = [stream is not None and stream.isatty(), getattr(stream, "encoding", None), *_sizes()]
    return digest([*how, *screen, *(os.environ.get(name) for name in OF_SCREEN)])


def is_ours(name: str) -> bool:
    """Whether the exporter of that name is ours, whose text depends on nothing but the report and the screen."""
    owner = get_registry().owner("exporter", name)
    return owner is not None and owner.found.distribution == OURS


def _sizes() -> Iterator[int | None]:
    for descriptor in (0, 1, 2):
        try:
            yield os.get_terminal_size(descriptor).columns
        except (OSError, ValueError):
            yield None


def has_failed(report: Any) -> bool:
    """Whether a run did not come to its end: a package that is installed meanwhile may cure it."""
    cells = [report, *getattr(report, "releases", ())]
    return any(getattr(one, "failure", None) is not None for one in cells)


def _plain(value: Any) -> Any:
    """What JSON does not have: a record of a flag's."""
    return {name: getattr(value, name) for name in value.__slots__} if hasattr(value, "__slots__") else str(value)
