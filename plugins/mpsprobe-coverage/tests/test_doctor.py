"""What ``mpsprobe doctor`` says about the installed torch and macOS, from the kernel tables."""

from __future__ import annotations

import pytest

from mpsprobe_coverage.doctor import findings


@pytest.mark.parametrize(
    ("torch", "platform", "levels", "said"),
    [
        ("2.15.0", "macos-14.5-arm64", ["ok", "error"], "torch 2.15.0 needs macOS 15.0 for MPS, and this is 14.5"),
        ("2.15.0", "macos-15.0-arm64", ["ok", "ok"], "macOS 15.0 is new enough for torch 2.15.0 (from 15.0 on)"),
        ("2.13.0", "macos-26.1-arm64", ["ok", "ok"], "the kernel table of torch 2.13.0 is here"),
        ("2.13.0", "linux-x86_64", ["ok"], "the kernel table of torch 2.13.0 is here"),
        ("2.13.0", "macos-unknown-arm64", ["ok"], "the kernel table of torch 2.13.0 is here"),
        ("2.99.0", "macos-15.0-arm64", ["warning"], "mpsprobe has kernel tables from 1.12.0 to 2.15.0"),
        (None, "macos-15.0-arm64", [], ""),
    ],
)
def test_findings(torch: str | None, platform: str, levels: list[str], said: str) -> None:
    found = list(findings({"torch": torch, "platform": platform}))
    assert [one.level for one in found] == levels
    assert said in " ".join(one.message for one in found)


def test_a_torchvision_of_another_torch_is_named() -> None:
    for vision, levels in (("0.28.0+cpu", ["ok"]), ("0.10.0", ["ok", "warning"]), (None, ["ok"])):
        found = list(findings({"torch": "2.13.0", "platform": "linux-x86_64", "torchvision": vision}))
        assert [one.level for one in found] == levels
        assert len(found) == 1 or found[1].hint == "pip install torch==2.13.0 torchvision==0.28.0"


def test_an_old_macos_is_told_which_release_fits_it() -> None:
    [_, found] = findings({"torch": "2.15.0", "platform": "macos-14.5-arm64"})
    assert found.hint == "Update macOS, or install torch 2.14.1."
