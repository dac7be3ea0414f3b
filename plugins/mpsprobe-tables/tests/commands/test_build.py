"""``mpsprobe kernels build`` and ``update``, on wheels that are made here."""

from __future__ import annotations

import concurrent.futures
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_library import Call, Load, MadeLibrary, initialiser
from made_wheel import make_wheel, torch_library

from mpsprobe.errors import MpsprobeError, OutputError, TableError, UsageError
from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.knowledge.judging.lists import learned
from mpsprobe_coverage.knowledge.kernels import releases
from mpsprobe_coverage.knowledge.kernels.compositions import COMPOSITIONS, load_compositions
from mpsprobe_coverage.knowledge.kernels.format import TABLES
from mpsprobe_coverage.knowledge.kernels.kernel_facts import FACTS, load_facts
from mpsprobe_coverage.knowledge.kernels.markers import MARKER_STRINGS
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_devkit.testing.commands import run_cli
from mpsprobe_tables import expectations
from mpsprobe_tables.audit import running
from mpsprobe_tables.builder import download, rebuild
from mpsprobe_tables.builder.rebuild import Rebuilt, Request, from_files, review
from mpsprobe_tables.builder.wheel import METAL
from mpsprobe_tables.commands.build import build
from mpsprobe_tables.commands.markers import markers
from mpsprobe_tables.commands.update import update
from mpsprobe_tables.encoding import DataFile
from mpsprobe_tables.tensorflow import rebuild as metal
from mpsprobe_tensorflow.tables.table import releases as metal_releases


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
    read = (COMPOSITIONS.decode(composed, "x"), FACTS.decode(facts, "x"), TABLES.decode(table, "x"))
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


MESSAGE = "MPS does not support this at all"
SOURCE = "/build/aten/src/ATen/native/mps/operations/New.mm"
RAISE = "__ZN3c106detail14torchCheckFailEPKcS2_jS2_"


def _built(folder: Path, version: str, library: MadeLibrary) -> Rebuilt:
    name = f"torch-{version}-cp311-cp311-macosx_14_0_arm64.whl"
    path = make_wheel(folder, name, library=library.build(), version=version)
    [built] = rebuild.rebuild(from_files([str(path)]), SilentProgress())
    return built


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, a new one, into which the files of every package go."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(rebuild, "DATA", folder)
    monkeypatch.setattr(rebuild, "data_folder", lambda: folder)
    return folder


@pytest.fixture
def pair(data: Path, tmp_path: Path) -> tuple[Rebuilt, Rebuilt]:
    """A release, and one after it that has an operator, a key and a message more."""
    old = torch_library()
    more = {initialiser("aten", "MPS", 9): [Load("new_one")], initialiser("aten", "NestedMPS", 9): [Load("abs")]}
    more["__ZN2at6native7new_oneEv"] = [Load(MESSAGE, 3), Load(SOURCE), Call(RAISE)]
    new = MadeLibrary({**old.functions, **more}, old.strings, old.objects)
    return _built(tmp_path, "9.0.0", old), _built(tmp_path, "9.1.0", new)


@pytest.fixture
def run(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Sequence[Rebuilt]], tuple[str, list[Request]]]]:
    """Runs the command where the index has 9.0.0 and wheels give what is handed over."""
    newest = {library: releases.library_releases(library)[-1] for library in ("torch", "torchvision")}
    load_table(newest["torch"])  # what is built says what differs from them; after this they are out of sight
    load_facts(newest["torch"])
    load_compositions(newest["torch"])
    learned()
    for kind in (TABLES, FACTS, COMPOSITIONS):
        list(kind.files("torch"))  # another test may have made them forgotten
    monkeypatch.setattr(releases, "data_folder", lambda: data)

    def run(built: Sequence[Rebuilt], metal_offers: Sequence[str] = ()) -> tuple[str, list[Request]]:
        further = ["9.0.0"] if built else []
        offers = {"torch": [newest["torch"], *further], "torchvision": [newest["torchvision"]], METAL: metal_offers}
        monkeypatch.setattr(download, "offered", offers.__getitem__)
        asked: list[Request] = []

        def read(requests: Sequence[Request], progress: Any) -> Sequence[Rebuilt]:
            asked.extend(requests)
            return built

        monkeypatch.setattr(rebuild, "rebuild", read)
        return CliRunner().invoke(update, [], catch_exceptions=False).output, asked

    yield run
    monkeypatch.undo()
    releases.library_releases.cache_clear()


def test_a_new_release_of_tensorflow_metal_is_written_too(
    run: Any, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def read(versions: Sequence[str], progress: Any) -> list[DataFile]:
        asked.extend(versions)
        old = DataFile(data, f"{METAL}-{versions[0]}.json", b"{}", shipped=True, same=True)
        return [old, DataFile.of(data, f"{METAL}-{versions[1]}.json", b"[]")]

    monkeypatch.setattr(metal, "files", read)
    output, requests = run([], metal_offers=[metal_releases()[-1], "9.0.0"])
    assert (asked, requests) == ([metal_releases()[-1], "9.0.0"], [])
    assert (data / f"{METAL}-9.0.0.json").read_bytes() == b"[]"
    assert output.startswith(f"{METAL} 9.0.0: which TensorFlow does it load with?")
    assert f"written: {METAL}-9.0.0.json" in output


def test_a_new_marker_needs_no_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(markers, ["--check"], catch_exceptions=False)
    assert (result.exit_code, result.output) == (0, "every table has the markers that its messages show\n")
    made = {**MARKER_STRINGS, "new_one": ("nlld_loss for complex is not supported",), "of_a_shader": ("no message",)}
    del made["fft_4_axes"]
    for name in ("mpsprobe_coverage.knowledge.kernels.markers", "mpsprobe_tables.messages"):
        monkeypatch.setattr(f"{name}.MARKER_STRINGS", made)
    shipped = releases.data_folder()
    for release in releases.torch_releases():
        name = f"torch-{release}.table"
        (tmp_path / name).write_bytes((shipped / name).read_bytes())
    monkeypatch.setattr(releases, "data_folder", lambda: tmp_path)
    checked = CliRunner().invoke(markers, ["--check"], catch_exceptions=False)
    assert checked.exit_code == 1
    result = CliRunner().invoke(markers, [], catch_exceptions=False)
    assert result.output == checked.output
    assert "2.14.1: marker new_one: new\n" in result.output and "2.15.0: marker fft_4_axes: gone\n" in result.output
    assert "2.15.0: marker new_one" not in result.output  # the message is gone by then
    assert result.output.endswith("no message of any release shows 'of_a_shader': read the wheels\n")
    data = (tmp_path / "torch-2.14.1.table").read_bytes()
    assert TABLES.decode(data, "x").header["markers"] == sorted(
        {*load_table("2.14.1").markers - {"fft_4_axes"}, "new_one"}
    )


def _shipped(built: Rebuilt, *, same: bool) -> Rebuilt:
    return replace(built, files=tuple(replace(file, shipped=True, same=same) for file in built.files))


def test_a_new_release_is_written_beside_the_others(pair: tuple[Rebuilt, Rebuilt], run: Any, data: Path) -> None:
    output, asked = run([])
    assert output.startswith("there is nothing newer than torch ")
    assert asked == []
    output, asked = run([_shipped(pair[0], same=True), pair[1]])
    assert asked == [Request("torch", releases.torch_releases()[-1]), Request("torch", "9.0.0")]
    kinds = ("compositions", "kernels", "messages", "table")
    assert sorted(path.name for path in data.iterdir()) == [f"torch-9.1.0.{kind}" for kind in kinds]
    assert (data / "torch-9.1.0.table").read_bytes() == pair[1].files[0].data
    written = [line for line in output.splitlines() if line.startswith("written: ")]
    assert written[-1] == "written: torch-9.1.0.table"  # one that is killed before has not brought in the release
    assert output.startswith("torch 9.1.0, compared with 9.0.0\n")
    assert "mpsprobe kernels audit" in output


def test_what_was_not_learned_before_it_was_killed_is_learned_by_the_next(
    run: Any, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expectations, "expectation_releases", lambda: ("2.13.0", "9.0.0"))
    monkeypatch.setattr(concurrent.futures.Future, "result", lambda _: b"learned")
    ends_with_parent = []

    def submit(pool: Any, *_: object) -> concurrent.futures.Future[bytes]:
        ends_with_parent.append(pool._initializer is running.start)
        return concurrent.futures.Future()

    monkeypatch.setattr(concurrent.futures.ProcessPoolExecutor, "submit", submit)
    assert "written: lists.refusals" in run([])[0]
    assert (data / "lists.refusals").read_bytes() == b"learned"
    assert ends_with_parent == [True]  # one whose parent was killed would learn on, with pools of its own


def test_a_reader_that_gives_other_files_than_the_shipped_ones_writes_nothing(
    run: Any, pair: tuple[Rebuilt, Rebuilt], data: Path
) -> None:
    with pytest.raises(TableError, match=r"torch-9\.0\.0\.kernels, .*, torch-9\.0\.0\.table would be another"):
        run([_shipped(pair[0], same=False), pair[1]])
    assert list(data.iterdir()) == []


def test_what_a_person_has_to_look_at(pair: tuple[Rebuilt, Rebuilt]) -> None:
    before, new = pair
    text = "\n".join(review(before, new))
    assert "4 operators have a kernel: 1 new, 0 no more" in text
    assert "new dispatch keys: NestedMPS" in text
    assert f"    New.mm: {MESSAGE}" in text
    assert "lost their kernel: aten::new_one" not in text
    assert "lost their kernel" not in "\n".join(review(new, new))
    back = "\n".join(review(new, before))
    assert "0 new, 1 no more" in back
