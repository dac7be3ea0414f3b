"""What ``mpsprobe plugins check`` finds out about a plugin before a user meets it. Public: what stands here.

``check_plugin`` gives the findings, ``assert_plugin_sound`` is the same as a test, ``examine`` has also what the plugin
contributes and how long its import takes. The plugin's own code never runs in this process: a plugin may hang, crash or
print without harm to whoever checks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mpsprobe_devkit.checking.codes import CODES, Code
from mpsprobe_devkit.checking.findings import Finding

if TYPE_CHECKING:
    from mpsprobe_devkit.checking.examination import Examined

__all__ = ["CODES", "Code", "Finding", "assert_plugin_sound", "check_plugin", "examine"]

TIME_LIMIT_S = 10.0
"""How long one step of the plugin (its import, one hook, one target) may take. As long as mpsprobe itself waits."""


def check_plugin(
    target: str | Path, *, run_tests: bool = False, time_limit: float = TIME_LIMIT_S, contracts: bool = True
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
    return examine(target, run_tests=run_tests, time_limit=time_limit, contracts=contracts).findings


def examine(
    target: str | Path, *, run_tests: bool = False, time_limit: float = TIME_LIMIT_S, contracts: bool = True
) -> Examined:
    """The findings of ``check_plugin`` and what else was seen: contributions, import time. Arguments as there."""
    from mpsprobe_devkit.checking.examination import examine as examine_now

    return examine_now(target, run_tests=run_tests, time_limit=time_limit, contracts=contracts)


def assert_plugin_sound(target: str | Path, *, ignore: Iterable[str] = (), warnings: bool = True) -> None:
    """Assert that ``mpsprobe plugins check`` finds nothing wrong with a plugin.

    Args:
        target: a folder with a ``pyproject.toml``, a single ``.py`` file, a wheel, or the name of what is installed.
        ignore: codes of findings that are known and accepted.
        warnings: a warning is a finding too.

    Raises:
        AssertionError: something is wrong; every finding is listed, with what to do about it.
        UsageError: there is nothing at ``target``.
        ValueError: ``ignore`` has a code that there is not.
    """
    ignored = set(ignore)
    if unknown := ignored - set(CODES):
        raise ValueError(f"there is no finding called {', '.join(sorted(unknown))}")
    findings = [one for one in check_plugin(target) if one.code not in ignored and (warnings or one.level == "error")]
    if findings:
        lines = [
            f"{one.level} {one.code}{f' in {one.where}' if one.where else ''}: {one.message}"
            + (f"\n    {one.hint}" if one.hint else "")
            for one in findings
        ]
        raise AssertionError("\n".join([f"{target} is not sound:", *lines]))
