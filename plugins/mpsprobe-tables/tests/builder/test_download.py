"""Downloading through pip: a stand-in for pip, found as the real one is, records how it is called."""

from __future__ import annotations

import json
from collections.abc import Callable
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
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """``pip(answer)`` puts a pip of our own in front of the real one; the file holds the arguments of its calls."""
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").write_text("")
    (tmp_path / "pip" / "__main__.py").write_text(PIP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def answer(text: str) -> Path:
        log = tmp_path / f"{text}.json"
        monkeypatch.setenv("FAKE_PIP_LOG", str(log))
        monkeypatch.setenv("FAKE_PIP", text)
        return log

    return answer


def _asked_for(option: str, log: Path) -> list[str]:
    """The value of an option in each call."""
    return [call[call.index(option) + 1] for call in json.loads(log.read_text())]


def test_a_known_release_gets_the_wheel_that_its_table_was_made_from(
    pip: Callable[[str], Path], tmp_path: Path
) -> None:
    log = pip("found")
    for library, release in (("torch", "1.12.1"), ("torch", "2.13.0"), ("torchvision", "0.29.2")):
        assert download(library, release, tmp_path).name.endswith(".whl")
    assert _asked_for("--platform", log) == ["macosx_11_0_arm64", "macosx_14_0_arm64", "macosx_14_0_arm64"]
    assert _asked_for("--python-version", log) == ["3.10", "3.11", "3.11"]
    call = json.loads(log.read_text())[1]
    assert call[0] == "download" and call[-1] == "torch==2.13.0"
    assert {"--no-deps", "--only-binary=:all:"} <= set(call)
    assert not [argument for argument in call if "index" in argument]  # the user's own configuration decides


def test_an_unknown_release_is_looked_for_with_every_tag(pip: Callable[[str], Path], tmp_path: Path) -> None:
    log = pip("3.12")
    assert download("torch", "9.0.0", tmp_path).name == "torch-9.0.0-cp311-cp311-macosx_14_0_arm64.whl"
    assert list(dict.fromkeys(_asked_for("--python-version", log))) == ["3.11", "3.12"]
    pip("nothing")
    with pytest.raises(TableError, match=r"no macOS arm64 wheel of torch 9\.0\.0") as caught:
        download("torch", "9.0.0", tmp_path)
    assert "--wheel" in str(caught.value.hint)


def test_a_pip_that_fails_is_asked_once(pip: Callable[[str], Path], tmp_path: Path) -> None:
    log = pip("broken")
    with pytest.raises(TableError, match="could not download torch") as caught:
        download("torch", "9.0.0", tmp_path)
    assert "\x1b" not in caught.value.message
    assert len(json.loads(log.read_text())) == 1


def test_the_releases_that_the_index_has(pip: Callable[[str], Path]) -> None:
    log = pip("found")
    assert offered("torch") == ["2.9.1", "2.13.0", "9.0.0"]
    [call] = json.loads(log.read_text())
    assert (call[:2], call[-1]) == (["index", "--disable-pip-version-check"], "torch")
    assert "--quiet" not in call  # pip then lists nothing
    pip("nothing")
    with pytest.raises(TableError, match="could not list the releases of torch: ERROR"):
        offered("torch")
