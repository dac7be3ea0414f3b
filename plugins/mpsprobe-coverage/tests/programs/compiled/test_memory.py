"""What a program asks Metal for over its steps, as the native device sees them in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_devkit.testing import run_cli

MIB = 2**20
PROGRAM = """
import torch
weight = torch.ones(1, device="mps", requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for mib in (100, 200, 300, 400, 500):
    batch = torch.empty(mib * 2**18, device="mps")
    (weight * 2).sum().backward()
    del batch
    optimizer.step()
    optimizer.zero_grad()
"""


def _ran(folder: Path, program: str, *more: str) -> tuple[dict[str, Any] | None, str]:
    (folder / "train.py").write_text(program, encoding="utf-8")
    ran = run_cli("run", *more, "-o", "report.json", "train.py", cwd=folder)
    assert ran.code == 0, ran.stderr
    report = folder / "report.json"
    return json.loads(report.read_bytes())["program"]["memory"], " ".join(
        run_cli("export", str(report), "--to", "table").stdout.split()
    )


def test_steps_of_many_sizes_and_what_saves_their_buffers(tmp_path: Path) -> None:
    """100 to 400 MiB go into one heap of 1 GiB, and 500 need another; small tensors have a heap of 8 MiB."""
    memory, shown = _ran(tmp_path, PROGRAM)
    assert memory is not None and (memory["batches"], memory["sizes"], memory["complete"]) == (5, 4, True)
    assert 500 * MIB < memory["in_use_bytes"] < 501 * MIB  # the first step allocates what no other does
    assert 2048 * MIB < memory["reserved_bytes"] < 2080 * MIB
    assert 1024 * MIB < memory["emptied_bytes"] < 1056 * MIB
    assert "Over 5 steps of 4 sizes PyTorch asks Metal for 2.2 GB, for the largest alone 1.1 GB; " in shown
    assert "with torch.mps.empty_cache() after each 1.1 GB" in shown


@pytest.mark.parametrize("backend", ["mps", "accelerator"])
def test_a_program_that_empties_the_cache_itself(tmp_path: Path, backend: str) -> None:
    emptied = PROGRAM + f"    torch.{backend}.empty_cache()\n"
    memory, shown = _ran(tmp_path, emptied)
    assert memory is not None and memory["reserved_bytes"] == memory["emptied_bytes"] and "asks Metal" not in shown


def test_ranges_are_split_from_2_14_1_on(tmp_path: Path) -> None:
    memory, _ = _ran(tmp_path, PROGRAM, "--torch", "2.15.0")
    assert memory is not None and memory["reserved_bytes"] < 1056 * MIB


def test_steps_of_one_size_have_nothing_to_say(tmp_path: Path) -> None:
    assert _ran(tmp_path, PROGRAM.replace("mib * 2**18", "2**18"))[0] is None
