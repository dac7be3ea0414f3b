"""What ``mpsprobe plugins check`` finds out about a plugin before a user meets it. Public: what stands here.

The plugin's own code never runs in this process: a plugin may hang, crash or print without harm to whoever checks it.
The codes of findings are stable: a CI configuration may name them. The reference of the documentation is made of them.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

__all__ = ["CODES", "Code", "Finding", "assert_plugin_sound", "check_plugin"]

GROUPS = ("package", "loading", "hooks", "targets", "contracts", "tests")
"""The parts of a check, in the order in which they are shown."""
MOST_CHARACTERS = 1000  # of a message: what a plugin says can be of any length


@dataclass(frozen=True, slots=True)
class Code:
    """One thing that can be wrong.

    Attributes:
        level: ``error`` (mpsprobe leaves the plugin or a part of it out, or a user meets a failure) or ``warning``.
        group: the part of the check that finds it, one of ``GROUPS``.
        summary, what_to_do: what it means for a user, and the advice where a finding has none of its own.
    """

    level: str
    group: str
    summary: str
    what_to_do: str


_TABLE = tomllib.loads((files("mpsprobe_devkit.checking") / "codes.toml").read_text(encoding="utf-8"))
CODES: Mapping[str, Code] = {name: Code(**code) for name, code in _TABLE.items()}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a plugin.

    Attributes:
        code, level: which kind of thing, a key of ``CODES``; ``error`` or ``warning``.
        message: what is wrong, one sentence with the offending value in it.
        where: ``path/to/file.py:12`` or ``pyproject.toml``; empty for the plugin as a whole.
        hint: what to do about it.
    """

    code: str
    level: str
    message: str
    where: str
    hint: str

    @property
    def group(self) -> str:
        """The part of the check that found it, one of ``GROUPS``."""
        return CODES[self.code].group

    def as_dict(self) -> dict[str, str]:
        """The fields as JSON takes them."""
        return dataclasses.asdict(self)


def finding(code: str, message: str, where: str = "", hint: str | None = None) -> Finding:
    """A ``Finding`` with the level of its code, its texts safe to print; without ``hint`` it has the code's advice."""
    entry = CODES[code]
    return Finding(code, entry.level, _clean(message), _clean(where), _clean(hint or entry.what_to_do))


def _clean(text: str) -> str:
    """``text`` on one line without control characters, and not longer than anybody reads."""
    text = " ".join(text[: 2 * MOST_CHARACTERS].split())
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= MOST_CHARACTERS else shown[: MOST_CHARACTERS - 1] + "…"


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Without repetitions, by the part of the check, errors first, then as they were found."""
    return sorted(dict.fromkeys(findings), key=lambda one: (GROUPS.index(one.group), one.level != "error"))


def check_plugin(
    target: str | Path, *, run_tests: bool = False, time_limit: float = 10.0, contracts: bool = True
) -> list[Finding]:
    """Everything that is wrong with a plugin, by the part of the check, errors first; empty for a sound one.

    Args:
        target: a folder with a ``pyproject.toml`` (it need not be installed), a single ``.py`` file, a wheel, or the
            name of an installed plugin or distribution. A path is meant if it has a separator, ends with ``.py`` or
            ``.whl``, or names a folder with a ``pyproject.toml``; else it is a name.
        run_tests: also run the folder's own tests with pytest.
        time_limit: seconds that its import and each hook may take; a target may take six times that.
        contracts: also run the contracts of ``mpsprobe_devkit.testing`` on what it declares.

    Raises:
        UsageError: there is nothing of that name, or it cannot be read.
    """
    from mpsprobe_devkit.checking.examination import examine

    return examine(target, run_tests=run_tests, time_limit=time_limit, contracts=contracts).findings


def assert_plugin_sound(target: str | Path, *, ignore: Iterable[str] = (), warnings: bool = True) -> None:
    """Assert that ``mpsprobe plugins check`` finds nothing wrong with a plugin.

    Args:
        target: as ``check_plugin`` takes it.
        ignore, warnings: codes of findings that are accepted, and whether a warning is a finding too.

    Raises:
        AssertionError: something is wrong; every finding is listed, with what to do about it.
        ValueError: ``ignore`` has a code that there is not.
    """
    ignored = set(ignore)
    if unknown := ignored - set(CODES):
        raise ValueError(f"there is no finding called {', '.join(sorted(unknown))}")
    findings = [one for one in check_plugin(target) if one.code not in ignored and (warnings or one.level == "error")]
    lines = [f"{one.level} {one.code} in {one.where}: {one.message}\n    {one.hint}" for one in findings]
    if lines:
        raise AssertionError("\n".join([f"{target} is not sound:", *lines]))
