"""Finding plugins, also among metadata that cannot be read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mpsprobe.discovery import CORE, FoundPlugin, find_plugins
from mpsprobe.testing import install_plugin

NEVER_IMPORTED = "raise RuntimeError('imported')"


def _found(distribution: str) -> list[FoundPlugin]:
    return [one for one in find_plugins() if one.distribution == distribution]


def test_a_plugin_is_found_without_being_imported(plugin_folder: Path) -> None:
    module = install_plugin(plugin_folder, "found-me", NEVER_IMPORTED, version="2.5")
    assert _found("found-me") == [FoundPlugin("found-me", "found-me", "2.5", module)]
    assert module not in sys.modules


def test_the_core_comes_first_and_the_others_are_sorted(plugin_folder: Path) -> None:
    for name in ("zebra", "ant"):
        install_plugin(plugin_folder, name, NEVER_IMPORTED)
    found = find_plugins()
    assert found[0] == CORE
    names = [one.distribution for one in found[1:]]
    assert names == sorted(names)


@pytest.mark.parametrize("damage", ["[mpsprobe]\nno equals sign\n", b"[mpsprobe]\n\xff\xfe = x\n"])
def test_damaged_metadata_is_told_and_hides_no_other_plugin(plugin_folder: Path, damage: str | bytes) -> None:
    install_plugin(plugin_folder, "mpsprobe-damaged", NEVER_IMPORTED, entry_points="")
    file = plugin_folder / "mpsprobe_damaged-1.0.dist-info" / "entry_points.txt"
    file.write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    module = install_plugin(plugin_folder, "sound", NEVER_IMPORTED)
    assert _found("sound") == [FoundPlugin("sound", "sound", "1.0", module)]
    [damaged] = _found("mpsprobe-damaged")
    assert damaged.problem is not None
    assert "entry_points.txt cannot be read" in damaged.problem


def test_damaged_metadata_of_a_stranger_is_not_our_business(plugin_folder: Path) -> None:
    install_plugin(plugin_folder, "stranger", NEVER_IMPORTED, entry_points="[console_scripts]\nno equals sign\n")
    assert _found("stranger") == []
    assert find_plugins()[0] == CORE


def test_metadata_without_name_and_version_is_shown_with_question_marks(plugin_folder: Path) -> None:
    module = install_plugin(plugin_folder, "nameless", NEVER_IMPORTED)
    (plugin_folder / "nameless-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\n", encoding="utf-8")
    [found] = [one for one in find_plugins() if one.name == "nameless"]
    assert found.target == module
    assert found.distribution == "?"
    assert found.version == "?"
