"""Stores that several tests read, each made once; makes modules of this folder importable under their own names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from made_store import PHASES, VERSIONS, made_store

from mpsprobe_atlas.reading import Judged, judged
from mpsprobe_atlas.store import Key, Store, WritableStore
from mpsprobe_atlas.sweep.rows import worked_out
from tests.once import built_once

REAL_RELEASES = ("2.0.1", "2.6.0", "2.15.0")


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 models, 40 releases, 2 phases."""

    def make(folder: Path) -> None:
        made_store(folder / "atlas.sqlite")

    return built_once(tmp_path_factory.getbasetemp(), "large", make) / "atlas.sqlite"


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What three releases really do with two small models, in both phases."""

    def make(folder: Path) -> None:
        about = {"versions": VERSIONS, "releases": REAL_RELEASES, "plan": {}}
        with WritableStore(folder / "atlas.sqlite", about) as store:
            for name, phase in product(("hf:bert", "hf:wav2vec2/Wav2Vec2ForCTC"), PHASES):
                store.add(worked_out(Key(name, "small", phase, "float32"), REAL_RELEASES))

    return built_once(tmp_path_factory.getbasetemp(), "real", make) / "atlas.sqlite"


@pytest.fixture(scope="session")
def real_rows(real: Path) -> Iterator[list[Judged]]:
    with Store(real) as store:
        yield list(judged(store))
