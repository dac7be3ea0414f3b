"""What ``mpsprobe plugins check`` finds out about a plugin before a user meets it. Public: what stands here.

``check_plugin`` gives the findings, ``examine`` also what the plugin contributes and how long its import takes. The
plugin's own code never runs in this process: a plugin may hang, crash or print without harm to whoever checks it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mpsprobe_devkit.checking.codes import CODES, Code
from mpsprobe_devkit.checking.findings import Finding

if TYPE_CHECKING:
    from mpsprobe_devkit.checking.examination import Examined

__all__ = ["CODES", "Code", "Finding", "check_plugin", "examine"]

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
