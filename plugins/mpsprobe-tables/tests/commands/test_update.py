"""``mpsprobe kernels update``, on releases that are made here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_library import Call, Load, MadeLibrary, initialiser
from made_wheel import make_wheel, torch_library

from mpsprobe.errors import TableError
from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.kernels import releases
from mpsprobe_coverage.kernels.compositions import load_compositions
from mpsprobe_coverage.kernels.kernel_facts import load_facts
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_tables.builder import download, rebuild
from mpsprobe_tables.builder.rebuild import Rebuilt, Request, from_files
from mpsprobe_tables.builder.review import review
from mpsprobe_tables.commands.update import update

MESSAGE = "MPS does not support this at all"
SOURCE = "/build/aten/src/ATen/native/mps/operations/New.mm"
RAISE = "__ZN3c106detail14torchCheckFailEPKcS2_jS2_"


def _built(folder: Path, version: str, library: MadeLibrary) -> Rebuilt:
    name = f"torch-{version}-cp311-cp311-macosx_14_0_arm64.whl"
    path = make_wheel(folder, name, library=library.build(), version=version)
    [built] = rebuild.rebuild(from_files([str(path)]), SilentProgress())
    return built


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Rebuilt, Rebuilt]:
    """A release, and one after it that has an operator, a key and a message more."""
    monkeypatch.setattr(rebuild, "DATA", tmp_path / "data")
    old = torch_library()
    more = {initialiser("aten", "MPS", 9): [Load("new_one")], initialiser("aten", "NestedMPS", 9): [Load("abs")]}
    more["__ZN2at6native7new_oneEv"] = [Load(MESSAGE, 3), Load(SOURCE), Call(RAISE)]
    new = MadeLibrary({**old.functions, **more}, old.strings, old.objects)
    return _built(tmp_path, "9.0.0", old), _built(tmp_path, "9.1.0", new)


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Sequence[Rebuilt]], tuple[str, list[Request]]]]:
    """Runs the command where the index has 9.0.0 and wheels give what is handed over; the data folder is a new one."""
    newest = {library: releases.library_releases(library)[-1] for library in ("torch", "torchvision")}
    load_table(newest["torch"])  # what is built says what differs from them; after this they are out of sight
    load_facts(newest["torch"])
    load_compositions(newest["torch"])
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(releases, "data_folder", lambda: folder)
    monkeypatch.setattr(rebuild, "data_folder", lambda: folder)

    def run(built: Sequence[Rebuilt]) -> tuple[str, list[Request]]:
        further = ["9.0.0"] if built else []
        monkeypatch.setattr(download, "offered", lambda name: [newest[name], *(further if name == "torch" else [])])
        asked: list[Request] = []

        def read(requests: Sequence[Request], progress: Any) -> Sequence[Rebuilt]:
            asked.extend(requests)
            return built

        monkeypatch.setattr(rebuild, "rebuild", read)
        return CliRunner().invoke(update, [], catch_exceptions=False).output, asked

    yield run
    monkeypatch.undo()
    releases.library_releases.cache_clear()


def _shipped(built: Rebuilt, *, same: bool) -> Rebuilt:
    return replace(built, files=tuple(replace(file, shipped=True, same=same) for file in built.files))


def test_a_new_release_is_written_beside_the_others(run: Any, tmp_path: Path, pair: tuple[Rebuilt, Rebuilt]) -> None:
    output, asked = run([])
    assert output.startswith("there is nothing newer than torch ")
    assert asked == []
    output, asked = run([_shipped(pair[0], same=True), pair[1]])
    assert asked == [Request("torch", releases.torch_releases()[-1]), Request("torch", "9.0.0")]
    kinds = ("compositions", "kernels", "messages", "table")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [f"torch-9.1.0.{kind}" for kind in kinds]
    assert (tmp_path / "data" / "torch-9.1.0.table").read_bytes() == pair[1].files[0].data
    assert output.startswith("torch 9.1.0, compared with 9.0.0\n")
    assert "mpsprobe kernels audit" in output


def test_a_reader_that_gives_other_files_than_the_shipped_ones_writes_nothing(
    run: Any, tmp_path: Path, pair: tuple[Rebuilt, Rebuilt]
) -> None:
    with pytest.raises(TableError, match=r"torch-9\.0\.0\.table, .* would be another"):
        run([_shipped(pair[0], same=False), pair[1]])
    assert list((tmp_path / "data").iterdir()) == []


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
