"""Programs for CUDA print with ``--as-cuda`` what their form for the CPU does, and the report has each line to change.

A line of theirs that ends in ``# cpu: X`` is ``X`` in the form for the CPU; with ``# same: X`` it is right on a Mac. As
a script, ``python test_as_cuda.py cpu|cuda OUT.json PROGRAM…``, this file runs programs one after another.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import subprocess
import sys
import threading
import traceback
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch

from mpsprobe_coverage.devices.native.device import NativeDevice
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.knowledge.kernels.releases import installed_release
from mpsprobe_coverage.programs.cuda import CudaHints
from mpsprobe_coverage.recording.attribution import is_internal
from mpsprobe_devkit.testing import run_cli

PROGRAMS = sorted((Path(__file__).parent / "for_cuda").glob("*.py"))
ON_THE_CPU, TO_CHANGE = re.compile(r"\S.*  # (?:cpu|same): (.*)"), "  # cpu: "


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What all programs did, in one process for each form."""
    folder = tmp_path_factory.mktemp("programs")
    for program in PROGRAMS:
        (folder / program.name).write_text(ON_THE_CPU.sub(r"\1", program.read_text(encoding="utf-8")), encoding="utf-8")
    forms = {"cuda": PROGRAMS, "cpu": [folder / program.name for program in PROGRAMS]}
    children = {
        form: subprocess.Popen(
            [sys.executable, __file__, form, folder / f"{form}.json", *programs],
            cwd=folder, env={**os.environ, "HF_HUB_OFFLINE": "1"}, stderr=subprocess.PIPE, text=True,
        )
        for form, programs in forms.items()
    }  # fmt: skip
    for form, child in children.items():
        errors = child.communicate()[1]
        assert child.returncode == 0, f"{form}: {errors[-2000:]}"
    return {form: json.loads((folder / f"{form}.json").read_text(encoding="utf-8")) for form in children}


@pytest.mark.parametrize("program", [path.stem for path in PROGRAMS])
def test_a_program_prints_what_it_prints_on_the_cpu(program: str, results: dict[str, Any]) -> None:
    cpu, cuda = (results[form][program]["printed"] for form in ("cpu", "cuda"))
    assert cpu.strip() and "Traceback" not in cpu
    assert cuda == cpu


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_report_has_the_lines_that_have_to_change(program: Path, results: dict[str, Any]) -> None:
    lines = program.read_text(encoding="utf-8").splitlines()
    expected = {number for number, line in enumerate(lines, 1) if TO_CHANGE in line}
    assert set(results["cuda"][program.stem]["lines"]) == expected


def test_nothing_of_torch_stays_changed(results: dict[str, Any]) -> None:
    assert results["cuda"]["changed"] == []


def test_the_command_gives_the_program_its_exit_code_and_says_so(tmp_path: Path) -> None:
    program = "import torch\nx = torch.ones(2).cuda()\nprint(x.sum().item())\nraise SystemExit(3)\n"
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    ran = run_cli("run", "--as-cuda", "--format", "json", "-o", "report.json", "train.py", cwd=tmp_path)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (ran.code, ran.stdout) == (3, "2.0\n")
    assert report["program"]["as_cuda"] is True
    hints = [(hint["what"], hint["call_sites"]) for hint in report["program"]["cuda"]]
    assert hints == [("a CUDA device", ["train.py:2"])]
    assert "aten::sum.dim_IntList" in {one["operator"] for one in report["operators"]}
    refused = run_cli("run", "--as-cuda", "--values", "none", "train.py", cwd=tmp_path, process=False)
    assert (refused.code, "with values" in refused.stderr) == (2, True)


def _of_torch() -> dict[str, int]:
    """What is where in the modules and classes that could be changed, by name."""
    owners: dict[str, Any] = {name: one for name, one in sys.modules.items() if name.partition(".")[0] == "torch"}
    owners |= {"Tensor": torch.Tensor, "DataLoader": torch.utils.data.DataLoader, "Thread": threading.Thread}
    owners |= {"autocast": torch.autocast, "scaler": torch.amp.GradScaler, "guard": torch.cuda.device}
    return {f"{at}.{name}": id(value) for at, owner in owners.items() for name, value in [*vars(owner).items()]}


def _run(program: str, hints: CudaHints | None) -> dict[str, Any]:
    out = io.StringIO()
    with redirect_stdout(out), hints() if hints else nullcontext():
        try:
            runpy.run_path(program, run_name="__main__")
        except Exception:  # noqa: BLE001 - the test shows it
            out.write(traceback.format_exc(limit=-4))
    torch.set_default_device(None)  # which is the program's own doing
    torch.set_default_dtype(torch.float32)
    found = hints.found(on_the_device=True, on_the_cpu=False) if hints else []
    lines = {int(at.rpartition(":")[2]) for hint in found for at in hint.call_sites if Path(program).name in at}
    return {"printed": out.getvalue(), "lines": sorted(lines)}


def main(form: str, target: str, *programs: str) -> None:
    torch.set_num_threads(1)
    sys.argv[1:] = []
    found: dict[str, Any] = {}
    # With gradients MPS composes attention of products and a softmax; here the CPU does so too.
    torch.backends.cuda.enable_flash_sdp(False)
    device = NativeDevice(Chain(MPS_FAMILY.target(installed_release()))) if form == "cuda" else nullcontext()
    with device:
        for program in programs:
            hints = CudaHints(is_internal, absent=True, leads=True) if form == "cuda" else None
            found[Path(program).stem] = _run(program, hints)
        before = _of_torch()
        with CudaHints(lambda _: False, absent=True, leads=True)() if form == "cuda" else nullcontext():
            changed = [name for name, value in _of_torch().items() if before.get(name, value) != value]
        assert changed or form == "cpu"
        found["changed"] = [name for name, value in _of_torch().items() if before.get(name) != value]
    Path(target).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
