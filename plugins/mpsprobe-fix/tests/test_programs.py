"""Whole programs: fixed once, they run on the CPU and on the virtual device; fixed twice, nothing changes."""

from __future__ import annotations

import ast
import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpsprobe_fix.files import gather
from mpsprobe_fix.fixing import Patch, fixed
from mpsprobe_fix.rules import RULES

_PROGRAMS = runpy.run_path(str(Path(__file__).with_name("programs.py")))
CUDA_PROGRAMS: dict[str, dict[str, str]] = _PROGRAMS["CUDA_PROGRAMS"]
STAY: dict[str, str] = _PROGRAMS["STAY"]
ALL = list(RULES.values())


def written(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, code in files.items():
        (folder / name).write_text(code, encoding="utf-8")
    return folder


def fix(folder: Path) -> Patch:
    """Fix the files of ``folder`` in place."""
    found = gather([str(folder)])
    patch = fixed(found, ALL)
    for one in found.sources:
        if one.name in patch.texts:
            one.write(patch.texts[one.name])
    return patch


@pytest.mark.parametrize("name", CUDA_PROGRAMS)
def test_a_program_for_cuda_runs_on_the_cpu_and_a_second_fix_changes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(tmp_path / name, CUDA_PROGRAMS[name])
    assert fix(folder).changes
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    try:
        runpy.run_path("main.py", run_name="__main__")
    finally:
        for one in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[one], "__file__", "")):
                del sys.modules[one]
    assert capsys.readouterr().out
    assert not fix(folder).changes


@pytest.mark.slow
def test_on_the_virtual_device_nothing_is_refused_and_nothing_asks_for_cuda(tmp_path: Path) -> None:
    """All of them in one process: what is looked for would show whichever ran it."""
    lines = ["import os, runpy, sys", f"for name in {list(CUDA_PROGRAMS)!r}:"]
    for name, files in CUDA_PROGRAMS.items():
        fix(written(tmp_path / name, files))
    lines += ["    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), name))"]
    lines += ["    sys.path.insert(0, os.getcwd())", "    runpy.run_path('main.py', run_name='__main__')"]
    (tmp_path / "all.py").write_text("\n".join(lines), encoding="utf-8")
    report = tmp_path / "report.json"
    main = "from mpsprobe.cli.main import main; main()"
    command = [sys.executable, "-c", main, "run", "--format", "json", "-o", str(report), str(tmp_path / "all.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(report.read_text(encoding="utf-8"))
    refused = {one["operator"]: one["call_sites"] for one in seen["operators"] if one["verdict"] != "native"}
    assert not {name: sites for name, sites in refused.items() if name.startswith("aten::")}
    asked = [one for one in seen["program"]["cuda"] if not one["what"].startswith("import ")]
    assert not asked
    assert seen["summary"]["calls"] > 20


@pytest.mark.parametrize("name", STAY)
def test_a_program_that_needs_nothing_stays_as_it_is(name: str, tmp_path: Path) -> None:
    patch = fix(written(tmp_path / name, {"main.py": STAY[name]}))
    assert (patch.texts, patch.changes, patch.decisions) == ({}, [], [])


LINES = sorted({
    line for files in CUDA_PROGRAMS.values() for code in files.values() for line in code.splitlines()
    if line and not line[0].isspace() and not line.endswith(":") and "import" not in line
})  # fmt: skip


@settings(max_examples=60)
@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_lines_parse_afterwards_and_a_second_fix_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, inside: bool
) -> None:
    body = [f"    {line}" for line in lines] if inside else lines
    code = end.join(["import torch", *(["def work():"] if inside else []), *body, ""])
    try:
        ast.parse(code)
    except SyntaxError:
        return  # lines out of their context
    folder = tmp_path_factory.mktemp("lines")
    (folder / "main.py").write_bytes(code.encode())
    fix(folder)
    made = (folder / "main.py").read_bytes().decode()
    ast.parse(made)
    assert made.count("\n") == made.count(end)
    assert not fix(folder).changes
