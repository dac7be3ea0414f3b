"""``mpsprobe kernels build``, on wheels that are made here."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from made_wheel import make_wheel

from mpsprobe.errors import MpsprobeError, OutputError, TableError, UsageError
from mpsprobe_coverage.kernels.compositions import decode_compositions
from mpsprobe_coverage.kernels.format import decode
from mpsprobe_coverage.kernels.kernel_facts import decode_facts
from mpsprobe_devkit.testing.commands import run_cli
from mpsprobe_tables.builder import rebuild
from mpsprobe_tables.commands.build import build


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(build, [str(argument) for argument in arguments], catch_exceptions=False)


def test_a_wheel_is_described(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    result = _run("--wheel", path, "--check")
    assert result.exit_code == 1
    assert result.output.startswith("torch 2.13.0: 3 native, 2 fallback, 1 only to raise, 10 operators in all\n")
    assert "MPS: registered, but not in native_functions.yaml: aten::by_hand" in result.output
    assert "NOT the torch-2.13.0.table of this package" in result.output
    assert "sha256: " in result.output
    [document] = json.loads(_run("--wheel", path, "--format", "json").output)
    assert document["only_in_binary"] == {"MPS": ["aten::by_hand"]}
    assert document["operators"]["by_key"] == {"MPS": 6, "SparseMPS": 1}
    assert document["files"][0] == {"name": "torch-2.13.0.table", "shipped": True, "same": False}
    assert list(tmp_path.iterdir()) == [path]


def test_the_data_files_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "tables"
    result = _run("--wheel", make_wheel(tmp_path), "-o", folder)
    written = sorted(folder.iterdir())
    assert [path.name for path in written] == [
        f"torch-2.13.0.{kind}" for kind in ("compositions", "kernels", "messages", "table")
    ]
    assert all(str(path) in result.output for path in written)
    composed, facts, _, table = (path.read_bytes() for path in written)
    read = (decode_compositions(composed, "x"), decode_facts(facts, "x"), decode(table, "x"))
    assert [file.release for file in read] == ["2.13.0"] * 3


def test_a_release_is_downloaded_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    asked = []

    def download(library: str, release: str, folder: Path) -> Path:
        asked.append((library, release, folder.parent))
        return make_wheel(folder)

    monkeypatch.setattr(rebuild, "download", download)
    assert _run("2.13").output.startswith("torch 2.13.0: 3 native")
    assert asked == [("torch", "2.13.0", tmp_path)]
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def interrupted(library: str, release: str, folder: Path) -> Path:
        (folder / "half.whl").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(rebuild, "download", interrupted)
    result = CliRunner().invoke(build, ["2.13.0", "-o", str(tmp_path / "out")])
    assert isinstance(result.exception, KeyboardInterrupt | SystemExit)
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
    assert list((tmp_path / "out").iterdir()) == []


def test_another_release_than_was_asked_for_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "download", lambda library, release, folder: make_wheel(folder))
    with pytest.raises(TableError, match=r"is torch 2\.13\.0, not 2\.12\.0"):
        _run("2.12.0")


def test_wrong_use_is_told_before_the_work(tmp_path: Path) -> None:
    for arguments in ([], ["2.13.0", "--wheel", "x.whl"], ["1.11"], ["0.28", "--library", "torchvision"]):
        with pytest.raises(UsageError) as caught:
            _run(*arguments)
        assert caught.value.hint
    (tmp_path / "taken").write_text("a file")
    for output in ("taken", "taken/below", "a\0b"):
        with pytest.raises(OutputError):
            _run("--wheel", tmp_path / "nothing.whl", "-o", f"{tmp_path}/{output}")
    wrong = run_cli("kernels", "build", "--wheel", tmp_path / "nothing.whl", process=False)
    assert (wrong.code, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("Error: there is no wheel ")


def test_a_damaged_wheel_writes_nothing(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(MpsprobeError):
        _run("--wheel", path, "-o", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
