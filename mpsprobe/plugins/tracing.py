"""``MPSPROBE_TRACE_PLUGINS=1``: a line on standard error for each import and each hook call, with its answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from mpsprobe.plugins.containment import Outcome
from mpsprobe.plugins.loading import Plugin, describe
from mpsprobe.suggestions import printable

TRACE_VARIABLE = "MPSPROBE_TRACE_PLUGINS"
OFF = {"", "0", "false", "no", "off"}
SHOWN_ITEMS = 6  # of a list of declarations
SHOWN_CHARACTERS = 160  # of anything else


class Trace:
    """Tells what is asked of plugins, if ``MPSPROBE_TRACE_PLUGINS`` says so.

    Args:
        tell: takes each line.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = None if os.environ.get(TRACE_VARIABLE, "").strip().lower() in OFF else tell

    def loaded(self, plugin: Plugin, took_ns: int) -> None:
        """``plugin`` was imported, or not, which took ``took_ns``."""
        if self._tell is not None:
            hooks = ", ".join(plugin.hooks) or "no hooks"
            found = hooks if plugin.status == "ok" else f"{plugin.status}: {plugin.reason}"
            self._line(plugin, f"import {plugin.found.target}", found, took_ns)

    def call(self, plugin: Plugin, hook: str, arguments: Mapping[str, Any], outcome: Outcome) -> None:
        """A hook was called; ``outcome`` is what came of it."""
        if self._tell is not None:
            given = ", ".join(f"{name}={_shown(value)}" for name, value in arguments.items())
            answer = f"raised {describe(outcome.error)}" if outcome.error is not None else _shown(outcome.answer)
            self._line(plugin, f"{hook}({given})", answer, outcome.took_ns)

    def resolved(self, plugin: Plugin, target: str, took_ns: int) -> None:
        """The heavy object behind ``target`` was made."""
        if self._tell is not None:
            self._line(plugin, f"resolve {target}", "made", took_ns)

    def _line(self, plugin: Plugin, what: str, answer: str, took_ns: int) -> None:
        assert self._tell is not None
        name = f"{plugin.found.name} ({plugin.owner})"
        self._tell(printable(f"trace: {name}: {what} -> {answer} [{took_ns / 1e6:.1f} ms]"))


def _shown(value: Any) -> str:
    """A value on one short line: lists by the names in them, since a plugin may declare hundreds."""
    if isinstance(value, (list, tuple)):
        names = [str(getattr(one, "name", None) or _short(one)) for one in value]
        more = f", … {len(names) - SHOWN_ITEMS} more" if len(names) > SHOWN_ITEMS else ""
        kind = f"{type(value[0]).__name__}: " if value and hasattr(value[0], "name") else ""
        return f"[{kind}{', '.join(names[:SHOWN_ITEMS])}{more}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(map(str, list(value)[:SHOWN_ITEMS]))}{', …' if len(value) > SHOWN_ITEMS else ''}}}"
    return _short(value)


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - the plugin's own class
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
