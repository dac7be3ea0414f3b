"""``mpsprobe chips``."""

from __future__ import annotations

from mpsprobe_coverage.chips.store import all_chips
from mpsprobe_devkit.testing import run_cli


def test_every_chip_is_listed() -> None:
    result = run_cli("chips", process=False)
    assert result.code == 0 and [line.split()[0] for line in result.stdout.splitlines()[1:-2]] == [*all_chips()]
    rows = run_cli("chips", "list", "--format", "json", process=False).json()
    assert [row["name"] for row in rows] == [*all_chips()] and rows[0]["family"] == 7


def test_one_chip_with_its_limits_and_their_threads() -> None:
    result = run_cli("chips", "show", "m2-pro", process=False)
    assert "with 16 GB" in result.stdout and "with 32 GB" in result.stdout
    assert "10.67-11.84 GiB" in result.stdout and "AlexsJones/llmfit#754" in result.stdout
    document = run_cli("chips", "show", "M3 Max 64GB", "--format", "json", process=False).json()
    assert [one["memory_bytes"] for one in document["limits"]] == [64 * 2**30]


def test_a_chip_that_is_not_there() -> None:
    result = run_cli("chips", "show", "m3-maxx", process=False)
    assert result.code == 2 and "did you mean 'm3-max'" in result.stderr
