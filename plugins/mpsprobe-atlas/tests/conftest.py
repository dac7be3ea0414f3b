"""Stores that several tests read, each made once; makes modules of this folder importable under their own names."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from made_store import made_store, real_store

from mpsprobe_atlas.reading import Judged, judged
from mpsprobe_atlas.store import Store

LONGEST_S = 600
REAL_RELEASES = ("2.0.1", "2.6.0", "2.15.0")


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 models, 40 releases, 2 phases. Of the processes of pytest-xdist one makes it; the others wait for it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "large"
    try:
        folder.mkdir()
    except FileExistsError:
        ends = time.monotonic() + LONGEST_S
        while not (folder / "done").exists():
            assert time.monotonic() < ends, "the process that makes the store has not finished"
            time.sleep(0.2)
    else:
        made_store(folder / "atlas.sqlite")
        (folder / "done").touch()
    return folder / "atlas.sqlite"


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What three releases really do with two small models, in both phases."""
    path = tmp_path_factory.mktemp("real") / "atlas.sqlite"
    return real_store(path, ["hf:bert", "hf:wav2vec2/Wav2Vec2ForCTC"], REAL_RELEASES)


@pytest.fixture(scope="session")
def real_rows(real: Path) -> Iterator[list[Judged]]:
    with Store(real) as store:
        yield list(judged(store))
