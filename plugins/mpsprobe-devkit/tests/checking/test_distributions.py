"""Wheels, installed distributions and single files."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from made_projects import COMMAND, HEAD, codes, make_project

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe_devkit.checking import check_plugin, examine
from mpsprobe_devkit.testing import install_plugin

METADATA = """Metadata-Version: 2.4
Name: under-test
Version: 1.0
Summary: A plugin
Requires-Python: >=3.11
License-Expression: MIT
Requires-Dist: mpsprobe>=0.1

What it is.
"""
pytestmark = pytest.mark.usefixtures("untimed")


def _wheel(folder: Path, *, without: str = "", members: dict[str, str] | None = None) -> Path:
    package = make_project(folder) / "src" / "under_test"
    path = folder / "under_test-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in package.iterdir():
            if file.name != without:
                archive.write(file, f"under_test/{file.name}")
        archive.writestr("under_test-1.0.dist-info/METADATA", METADATA)
        archive.writestr("under_test-1.0.dist-info/entry_points.txt", "[mpsprobe]\nmine = under_test.plugin\n")
        for name, text in (members or {}).items():
            archive.writestr(name, text)
    shutil.rmtree(package.parents[1])
    return path


def test_a_sound_wheel(tmp_path: Path) -> None:
    examined = examine(_wheel(tmp_path))
    assert (examined.findings, examined.contributes) == ([], {"command": ["hello-under-test"]})
    assert (examined.subject.kind, examined.subject.version) == ("wheel", "1.0")


@pytest.mark.parametrize(
    ("without", "says"), [("command.py", "under_test.command"), ("plugin.py", "under_test.plugin")]
)
def test_a_module_that_was_forgotten(tmp_path: Path, without: str, says: str) -> None:
    [found] = check_plugin(_wheel(tmp_path, without=without))
    assert found.code == "not-in-wheel"
    assert says in found.message


@pytest.mark.parametrize(
    "member", ["../outside.py", "/outside.py", "under_test/../../outside.py", "..\\outside.py", "C:outside.py"]
)
def test_a_wheel_that_would_write_elsewhere(tmp_path: Path, member: str) -> None:
    [found] = check_plugin(_wheel(tmp_path, members={member: "x = 1"}))
    assert found.code == "bad-wheel"
    assert "would be written elsewhere" in found.message
    assert not list(tmp_path.parent.glob("outside.py"))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and nothing", b"\0" * 5000])
def test_what_is_no_wheel(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x-1-py3-none-any.whl"
    path.write_bytes(content)
    assert codes(check_plugin(path)) == ["bad-wheel"]


def test_a_damaged_member(tmp_path: Path) -> None:
    path = _wheel(tmp_path, members={"under_test/data.bin": "a" * 1000})
    content = path.read_bytes()
    path.write_bytes(content.replace(b"a" * 1000, b"b" * 1000))
    assert codes(check_plugin(path)) == ["bad-wheel"]


def test_two_distributions_in_one_wheel(tmp_path: Path) -> None:
    [found] = check_plugin(_wheel(tmp_path, members={"other-1.0.dist-info/METADATA": METADATA}))
    assert (found.code, "2 folders" in found.message) == ("bad-wheel", True)


def test_an_installed_plugin_by_its_name_and_its_distributions(plugin_folder: Path) -> None:
    install_plugin(plugin_folder, "under_test-it", HEAD + "@hookimpl\ndef mpsprobe_probe(): return []\n")
    for name in ("under_test-it", "Under-Test.it"):
        findings = check_plugin(name)
        assert codes(findings) == ["missing-metadata", "requires-mpsprobe", "unknown-hook"]
        assert findings[-1].where == "under_test_it_plugin.py:4"


def test_a_distribution_that_is_no_plugin() -> None:
    assert codes(check_plugin("pluggy")) == ["no-entry-point", "requires-mpsprobe"]


def test_the_core_itself_is_sound() -> None:
    examined = examine("core")
    assert examined.findings == []
    assert "plugins" in examined.contributes["command"]


def test_nothing_of_that_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'mpsprobe-exporters'"):
        check_plugin("mpsprobe-exporter")


def _file(folder: Path, text: str, name: str = "under_test_file.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


HELLO = "\nimport click\n\n@click.command()\ndef hello():\n    ...\n"


def test_a_single_file(tmp_path: Path) -> None:
    code = HEAD + COMMAND.replace("under_test.command", "under_test_file") + HELLO
    examined = examine(_file(tmp_path, code))
    assert (examined.findings, examined.contributes) == ([], {"command": ["hello-under-test"]})
    assert not (tmp_path / "__pycache__").exists()


def test_a_single_file_with_a_mistake(tmp_path: Path) -> None:
    code = HEAD + COMMAND.replace("under_test.command:hello", "under_test_file:hallo") + HELLO
    [found] = check_plugin(_file(tmp_path, code))
    assert (found.code, found.where) == ("target-unresolved", "under_test_file.py:5")
    assert "It has hello" in (found.hint or "")


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ('# /// script\n# dependencies = ["mpsprobe>=99"]\n# ///\n', "incompatible"),
        ('# /// script\n# dependencies = ["mpsprobe>=0.1"]\n', "bad-inline-metadata"),
        ("# /// script\n# dependencies = [\n# ///\n", "bad-inline-metadata"),
        ('# /// script\n# dependencies = ["no-such-0b7e"]\n# ///\n', "requires-unmet"),
    ],
)
def test_what_a_single_file_says_of_itself(tmp_path: Path, block: str, code: str) -> None:
    text = block + HEAD + COMMAND.replace("under_test.command", "under_test_file") + HELLO
    assert code in codes(check_plugin(_file(tmp_path, text)))


def test_a_file_that_hides_a_module(tmp_path: Path) -> None:
    findings = check_plugin(_file(tmp_path, "x = 1\n", "json.py"))
    assert "left-out" in codes(findings)


def test_a_file_that_is_no_plugin_to_mpsprobe(tmp_path: Path) -> None:
    assert codes(check_plugin(_file(tmp_path, "x = 1\n", "_private.py"))) == ["no-entry-point"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    _file(tmp_path, "", "badge.py")
    with pytest.raises(UsageError, match="No such file") as caught:
        check_plugin(tmp_path / "bagde.py")
    assert "badge.py" in (caught.value.hint or "")
