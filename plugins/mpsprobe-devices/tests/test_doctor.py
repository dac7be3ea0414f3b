"""What ``mpsprobe doctor`` says about torch, the GPU and PyTorch's variables."""

from __future__ import annotations

import platform
from types import SimpleNamespace

import pytest
import torch

from mpsprobe_devices import doctor
from mpsprobe_devices.doctor import FALLBACK, HIGH, LOW, PROFILE, findings, variables


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ({}, []),
        ({FALLBACK: "0"}, []),
        ({FALLBACK: "1"}, ["note"]),
        ({FALLBACK: " 7 "}, ["note"]),
        ({FALLBACK: "true"}, ["error"]),
        ({FALLBACK: ""}, ["error"]),
        ({FALLBACK: "-"}, ["error"]),
        ({FALLBACK: "99999999999"}, ["error"]),
        ({LOW: "1.0", HIGH: "1.2"}, []),
        ({HIGH: "0.5"}, ["error"]),  # below the other's default
        ({HIGH: "0.0"}, ["warning"]),
        ({HIGH: "all", LOW: "nan"}, ["error", "error"]),
        ({HIGH: "-1"}, ["error"]),
        ({PROFILE: "0x3ff"}, []),
        ({PROFILE: "1024"}, ["error"]),
        ({PROFILE: "yes"}, ["error"]),
    ],
)
def test_variables(values: dict[str, str], levels: list[str]) -> None:
    assert [one.level for one in variables(values)] == levels


def test_what_c_reads_as_a_number() -> None:
    assert [doctor._number_of(text) for text in ("12abc", "+3", "-4 ", "x1", "\uff11")] == ["12", "+3", "-4", "", ""]


def test_elsewhere_than_on_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    [one] = findings({"torch": "2.13.0"})
    assert (one.level, one.message) == ("note", "MPS needs a Mac with Apple silicon")
    assert [one.level for one in findings({"torch": None})] == ["error", "note"]


@pytest.fixture
def _mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)


@pytest.mark.usefixtures("_mac")
def test_on_a_mac_the_gpu_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    [one] = findings({"torch": "2.13.0"})
    assert (one.level, one.message) == ("ok", "the GPU can be used through MPS")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    [one] = findings({"torch": "2.13.0"})
    assert one.level == "error" and "finds no MPS device" in one.message


@pytest.mark.usefixtures("_mac")
@pytest.mark.parametrize(("answer", "level"), [("1\n", "error"), ("0\n", "ok"), ("", "ok")])
def test_rosetta(monkeypatch: pytest.MonkeyPatch, answer: str, level: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(doctor.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=answer))
    assert [one.level for one in findings({"torch": "2.13.0"})] == [level]
