"""``assert_plugin_sound`` says what ``mpsprobe plugins check`` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe.errors import UsageError
from mpsprobe_devkit.checking import assert_plugin_sound

SOUND = '''
"""A plugin of one file."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["mpsprobe>=0.1"]
# ///

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import DoctorFinding


@hookimpl
def mpsprobe_doctor(environment):
    """Nothing to complain of."""
    return [DoctorFinding("ok", "all is well")]
'''


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A sound plugin of one file."""
    path = tmp_path / "wellness.py"
    path.write_text(SOUND.lstrip(), encoding="utf-8")
    return path


def test_a_sound_plugin_passes(plugin: Path) -> None:
    assert_plugin_sound(plugin)


def test_a_misspelt_hook_is_told_with_what_to_do(plugin: Path) -> None:
    plugin.write_text(SOUND.lstrip().replace("mpsprobe_doctor", "mpsprobe_doktor"), encoding="utf-8")
    with pytest.raises(AssertionError, match="mpsprobe_doctor") as caught:
        assert_plugin_sound(plugin)
    text = str(caught.value)
    assert text.startswith(f"{plugin} is not sound:\n") and "\nerror " in text
    [code] = {line.split()[1].strip(":") for line in text.splitlines() if line.startswith("error ")}
    assert_plugin_sound(plugin, ignore=[code], warnings=False)


def test_a_code_that_there_is_not_cannot_be_ignored(plugin: Path) -> None:
    with pytest.raises(ValueError, match="no-such-code"):
        assert_plugin_sound(plugin, ignore=["no-such-code"])


def test_nothing_there_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        assert_plugin_sound(tmp_path / "none.py")
