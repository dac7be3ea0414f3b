"""Downloading through pip: a stand-in for pip, found as the real one is, records how it is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpsprobe.errors import TableError
from mpsprobe_tables.builder.download import download, offered

PIP = """
import json, os, pathlib, sys
arguments = sys.argv[1:]
log = pathlib.Path(os.environ["FAKE_PIP_LOG"])
calls = json.loads(log.read_text()) if log.exists() else []
log.write_text(json.dumps([*calls, arguments]))
answer = os.environ["FAKE_PIP"]
if arguments[0] == "index" and answer == "found":
    print("torch (9.0.0)\\nAvailable versions: 9.0.0, 2.13.0+cpu, 2.13.0, 2.9.1\\n  LATEST:    9.0.0")
    sys.exit(0)
if answer == "found" or arguments[arguments.index("--python-version") + 1] == answer:
    folder = pathlib.Path(arguments[arguments.index("--dest") + 1])
    (folder / "torch-9.0.0-cp311-cp311-macosx_14_0_arm64.whl").write_text("wheel")
    sys.exit(0)
print("ERROR: No matching distribution found" if answer != "broken" else "ERROR: no\\x1b[31m network", file=sys.stderr)
sys.exit(1)
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pip of our own in front of the real one; the file holds the arguments of its calls."""
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").write_text("")
    (tmp_path / "pip" / "__main__.py").write_text(PIP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    log = tmp_path / "calls.json"
    monkeypatch.setenv("FAKE_PIP_LOG", str(log))
    return log


def _value(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1]


def test_a_known_release_gets_the_wheel_that_its_table_was_made_from(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PIP", "found")
    download("torch", "1.12.1", tmp_path)
    download("torch", "2.13.0", tmp_path)
    download("torchvision", "0.29.2", tmp_path)
    tags = [(_value(call, "--platform"), _value(call, "--python-version")) for call in json.loads(calls.read_text())]
    assert tags == [("macosx_11_0_arm64", "3.10"), ("macosx_14_0_arm64", "3.11"), ("macosx_14_0_arm64", "3.11")]


def test_only_the_wheel_itself_is_asked_for(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PIP", "found")
    assert download("torch", "2.13.0", tmp_path).name.endswith(".whl")
    [call] = json.loads(calls.read_text())
    assert call[0] == "download"
    assert {"--no-deps", "--only-binary=:all:"} <= set(call)
    assert call[-1] == "torch==2.13.0"
    assert not [argument for argument in call if "index" in argument]  # the user's own configuration decides


def test_an_unknown_release_is_looked_for_with_every_tag(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PIP", "3.12")
    assert download("torch", "9.0.0", tmp_path).name == "torch-9.0.0-cp311-cp311-macosx_14_0_arm64.whl"
    tried = [_value(call, "--python-version") for call in json.loads(calls.read_text())]
    assert list(dict.fromkeys(tried)) == ["3.11", "3.12"]


def test_an_index_without_the_wheel_is_told(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PIP", "nothing")
    with pytest.raises(TableError, match=r"no macOS arm64 wheel of torch 9\.0\.0") as caught:
        download("torch", "9.0.0", tmp_path)
    assert "--wheel" in str(caught.value.hint)


def test_a_pip_that_fails_is_asked_once(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PIP", "broken")
    with pytest.raises(TableError, match="could not download torch") as caught:
        download("torch", "9.0.0", tmp_path)
    assert "\x1b" not in caught.value.message
    assert len(json.loads(calls.read_text())) == 1


def test_the_releases_that_the_index_has(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PIP", "found")
    assert offered("torch") == ["2.9.1", "2.13.0", "9.0.0"]
    [call] = json.loads(calls.read_text())
    assert (call[:2], call[-1]) == (["index", "--disable-pip-version-check"], "torch")
    assert "--quiet" not in call  # pip then lists nothing


@pytest.mark.parametrize("answer", ["nothing", "broken"])
def test_an_index_that_lists_nothing_is_told(calls: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setenv("FAKE_PIP", answer)
    with pytest.raises(TableError, match="could not list the releases of torch: ERROR"):
        offered("torch")
