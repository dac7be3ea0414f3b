"""Each word is decided right, and values that are not known decide nothing; tests of the native device try it there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import word_cases
from made_workloads import calling, scan

from mpsprobe.errors import MpsprobeError
from mpsprobe.settings import read_settings
from mpsprobe_coverage.commands.failing import broken
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.advisories import store
from mpsprobe_coverage.knowledge.kernels.mps import load_table


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, which has advisories of the user's own."""
    word_cases.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    store.forget()
    yield tmp_path
    store.forget()


def test_words_on_the_virtual_device(own: Path) -> None:
    with VirtualDevice(load_table("2.13.0")) as device, device.recording("forward"):
        assert word_cases.wrong(lambda: device.recorder) == []


def test_what_values_that_are_not_known_decide_is_said_and_not_counted() -> None:
    def run(x: torch.Tensor) -> Any:
        query = x.new_zeros(2, 400, 4).exponential_()
        return torch.baddbmm(query @ query.mT, query, query.mT, beta=0).lerp(query.new_ones(()), 0.75)

    report = scan(calling(run), "2.13.0")
    [match] = report.advisories  # baddbmm-beta-zero, and not lerp-infinite, whose values are unusual
    assert match.undecided and report.summary.advisories == len(report.advisories) - 1
    assert not any("baddbmm" in line for line in broken(report, ["advisory"], []))


def test_a_file_of_the_users_own_that_is_wrong(own: Path) -> None:
    assert len(store.all_entries()) > len(word_cases.CASES) and "advisories" not in read_settings()
    file = own / "mine.toml"
    text = file.read_text()
    for before, after, line in (
        ("word-1", "word-0", 15),
        ("self.bytes", "self.weight", 71),
        ("[[advisory]]", "[advisory", 2),
    ):
        file.write_text(text.replace(before, after, 1))
        store.forget()
        with pytest.raises(MpsprobeError, match=rf"mine\.toml:{line}: "):
            store.all_entries()
    file.unlink()
    store.forget()
    with pytest.raises(MpsprobeError, match=r"cannot read .*mine\.toml"):
        store.all_entries()
