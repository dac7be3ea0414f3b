"""What is asked about one workload: the command, the workload's name, and every option that is not as usual."""

# ruff: noqa: PTH110, PTH113
from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any

import click

from mpsprobe.answers.surroundings import digest, stamps, surroundings
from mpsprobe.errors import MpsprobeError
from mpsprobe.options import ANSWER, rare
from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions

SWITCH = "MPSPROBE_NO_CACHE"
"""The variable that switches the cache off for every command and function."""
NO = ("", "0", "f", "false", "n", "no", "off")
"""What click takes for no in a variable of a flag."""
OF_SHOWING = frozenset({
    "allow", "atlas", "everything", "exports", "fail_on", "files", "format_name", "jobs", "names", "no_cache",
    "output", "timeout",
})  # fmt: skip
"""Parameters of commands by which the same report is found or shown in another way."""
NOT_KEPT = ("weights", "trust_remote_code")
"""Options with which an answer depends on values of gigabytes, or on code from elsewhere."""


def cache_option(command: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """``--no-cache``; ``MPSPROBE_NO_CACHE`` is the same for all commands."""
    variables = [f"MPSPROBE_{command.upper()}_NO_CACHE", SWITCH]
    text = "Work the answer out anew, and do not keep it."
    return rare(ANSWER, "--no-cache", is_flag=True, envvar=variables, help=text)


class Question:
    """One question. Equal ones have one answer.

    Args:
        command: ``coverage`` or ``fit``.
        workload: as the user names it.
        options: by the names of the command's parameters; ``None``, and what is not in it, is as usual.
        usual: the values of options that nobody gave, besides those of ``RunOptions``.
        cached: whether the cache may be asked, and added to; ``None``: as the variable ``MPSPROBE_NO_CACHE`` says.

    Attributes:
        command, workload, cached: as they were given.
        options: those that are not as usual, as JSON has them.
    """

    def __init__(
        self,
        command: str,
        workload: str,
        options: Mapping[str, Any],
        *,
        usual: Mapping[str, Any] | None = None,
        cached: bool | None = None,
    ) -> None:
        self.command, self.workload = command, workload
        usual = {**(usual or {}), **{field.name: field.default for field in fields(RunOptions)}}
        given = {name: value for name, value in options.items() if value is not None and value != usual.get(name)}
        self.options: dict[str, Any] = json.loads(json.dumps(given, default=_plain))
        file = workload.rpartition(":")[0] or workload
        self._file = workload if os.path.exists(workload) else file if os.path.isfile(file) else None
        self.is_file_of_code = file.lower().endswith(".py")
        cached = os.environ.get(SWITCH, "").lower() in NO if cached is None else cached
        self.cached = cached and not self.is_file_of_code and not any(self.options.get(name) for name in NOT_KEPT)

    @classmethod
    def of_command(
        cls, command: click.Command, workload: str, given: Mapping[str, Any], *, cached: bool | None = None
    ) -> Question:
        """The question that ``command`` asks with the parameters ``given``; those that are left out are as usual."""
        usual = {param.name: param.get_default(click.Context(command)) for param in command.params if param.name}
        asked = {name: value for name, value in given.items() if name not in OF_SHOWING}
        return cls(str(command.name), workload, asked, usual=usual, cached=cached)

    @property
    def asked(self) -> dict[str, Any]:
        """All of it, as ``mpsprobe_known_answer`` gets it."""
        return {"command": self.command, "workload": self.workload, "options": self.options}

    @cached_property
    def around(self) -> str:
        """The digest of the surroundings; who asks many questions gives them that of the first."""
        return surroundings(get_registry())

    @cached_property
    def key(self) -> str:
        """The name of its answer in the cache; empty where no answer of it is kept."""
        if not self.cached:
            return ""
        path: tuple[object, ...] = ()
        if self._file:  # a checkpoint, or a file of names
            stamped = stamps(self._file)
            if stamped is None:
                return ""
            path = (os.path.realpath(self._file), *stamped)
        elif os.sep in self.workload or "/" in self.workload:
            path = (os.path.realpath("."),)
        return digest([json.dumps(self.asked, sort_keys=True), path, self.around])

    @property
    def is_lasting(self) -> bool:
        """Whether what it names is the same next time: no repository of a Hub, whose files may change."""
        try:
            return not get_registry().workload_and_owner(self.workload).declaration.guess
        except MpsprobeError:  # made by a test, or a plugin that is gone
            return False


def _plain(value: Any) -> Any:
    """What JSON does not have: a record of a flag's."""
    return {name: getattr(value, name) for name in value.__slots__} if hasattr(value, "__slots__") else str(value)
