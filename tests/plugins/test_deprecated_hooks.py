"""A hook that goes away says what replaces it; a plugin that has it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe import hookspecs
from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe.plugins.registry import Registry
from mpsprobe_devkit.testing import install_plugin


@pytest.fixture
def old_hook(monkeypatch: pytest.MonkeyPatch) -> str:
    """A hook as it stands in ``hookspecs`` after it was deprecated."""

    @hookspecs.deprecated(since="0.2", use="mpsprobe_workloads", removed_in="0.4")
    def mpsprobe_models() -> list[object]:
        return []

    monkeypatch.setattr(hookspecs, "mpsprobe_models", mpsprobe_models, raising=False)
    return "mpsprobe_models"


def test_a_deprecated_hook_is_told_once_and_the_plugin_goes_on(plugin_folder: Path, old_hook: str) -> None:
    hooks = "".join(f"@hookimpl\ndef {name}(): return []\n" for name in (old_hook, "mpsprobe_probes"))
    code = f"from mpsprobe import hookimpl\n{hooks}"
    install_plugin(plugin_folder, "elderly", code)
    messages: list[str] = []
    registry = Registry([FoundPlugin("elderly", "elderly", "1.0", "elderly_plugin")], tell=messages.append)
    [plugin] = registry.plugins()
    registry.contributions(plugin)
    assert (plugin.status, plugin.hooks) == ("ok", ("mpsprobe_models", "mpsprobe_probes"))
    assert messages == [
        "plugin 'elderly' of elderly 1.0: its hook mpsprobe_models is deprecated: since mpsprobe 0.2, "
        "gone from 0.4 on; use mpsprobe_workloads"
    ]
