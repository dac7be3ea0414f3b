"""What ``mpsprobe plugins check`` finds out about a plugin before a user meets it. Public: what stands here.

The plugin's own code never runs in this process: a plugin may hang, crash or print without harm to whoever checks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mpsprobe_devkit.checking.codes import CODES, Code, Finding

__all__ = ["CODES", "Code", "Finding", "assert_plugin_sound", "check_plugin"]


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
    findings = [
        finding
        for finding in check_plugin(target)
        if finding.code not in ignored and (warnings or finding.level == "error")
    ]
    lines = [
        f"{finding.level} {finding.code} in {finding.where}: {finding.message}\n    {finding.hint}"
        for finding in findings
    ]
    if lines:
        raise AssertionError("\n".join([f"{target} is not sound:", *lines]))
