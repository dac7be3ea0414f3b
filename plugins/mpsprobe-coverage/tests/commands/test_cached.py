"""``coverage`` and ``fit`` from the cache: the same answer, at once, and nothing heavy is imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import mpsprobe
from mpsprobe.answers import question
from mpsprobe.schemas import CoverageReport
from mpsprobe_devkit.testing import CommandResult, install_plugin, run_cli
from mpsprobe_devkit.testing.commands import command_environment

ASKED = ("coverage", "bert-base", "--size", "small", "--torch", "2.6.0")
OLD = ("coverage", "gpt2", "--size", "small", "--phase", "generate", "--torch", "1.12.0")
RUN = """
import json, sys
from mpsprobe.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(json.dumps([code, sorted(name for name in sys.modules if "." not in name)]), file=sys.stderr)
"""
HEAVY = {"torch", "pydantic", "pydantic_core", "transformers", "numpy", "rich", "packaging"}
CHANGED = 3
Run = Callable[..., CommandResult]


@pytest.fixture(autouse=True)
def _nothing_is_installed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests make plugins next to the installed ones; what that changes is tried in ``tests/answers``."""
    monkeypatch.setattr(question, "surroundings", lambda registry: "as they are")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*arguments: str, folders: Sequence[Path] = (), **variables: str) -> CommandResult:
        variables = _variables(tmp_path) | variables
        return run_cli(*arguments, cwd=tmp_path, process=False, variables=variables, plugin_folders=folders)

    return run


def _variables(folder: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(folder / "cache"), "MPSPROBE_NO_CACHE": "0"}


@pytest.mark.parametrize(
    "asked", [("coverage", "bert-base", "--torch", "2.6.0"), ("fit", "bert-base", "--memory", "20MB", "--plain")]
)
def test_the_second_answer_is_the_first_one(run: Run, asked: tuple[str, ...]) -> None:
    asked = (*asked, "--size", "small", "--format", "json")
    first, second = run(*asked).json(), run(*asked).json()
    assert first["recalled"] is None and second["recalled"]["source"] == "cache"
    assert first == {**second, "recalled": None}
    assert run(*asked, "--no-cache").json()["recalled"] is None
    assert run(*asked, **{f"MPSPROBE_{asked[0].upper()}_NO_CACHE": "1"}).json()["recalled"] is None
    assert run("cache", "info", "--format", "json").json()["answers"] == 1
    assert run("cache", "clear").stdout.startswith("deleted 1 answer, ")
    assert run(*asked).json()["recalled"] is None


@pytest.mark.parametrize("name", ["table", "markdown", "html", "csv"])
def test_every_format_is_of_the_same_report(name: str, run: Run) -> None:
    first, second, third = (run(*ASKED, "--format", name) for _ in range(3))
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert second.stdout == third.stdout
    assert ("From the cache, of 2" in second.stdout) == (name != "csv")
    assert "From the cache" not in first.stdout


@pytest.mark.thorough
def test_a_matrix_and_several(run: Run) -> None:
    matrix = (*ASKED[:-1], "2.6.0,2.13.0")
    run(*matrix)
    assert "From the cache, of" in run(*matrix).stdout
    run(*ASKED)
    several = (*ASKED[:2], "gpt2", *ASKED[2:])
    assert "1 answer of 2 from the cache" in run(*several).stdout
    assert "2 answers of 2 from the cache" in run(*several).stdout  # a process of its own has kept the other one


def test_the_exit_code_and_the_flags_of_what_is_shown(run: Run) -> None:
    for _ in range(2):
        assert [run(*OLD, "--fail-on", verdict).code for verdict in ("missing", "unknown")] == [1, 0]
        plain, everything = run(*OLD), run(*OLD, "--all")
        assert plain.code == 0 and "aten::gelu" not in plain.stdout
        assert "aten::addmm" in everything.stdout
    assert run(*OLD, COLUMNS="60").stdout != run(*OLD, COLUMNS="160").stdout


def test_a_function_in_a_file_is_worked_out_each_time(run: Run, tmp_path: Path) -> None:
    code = "import torch\n\n\ndef make():\n    return torch.nn.Linear(2, 2), torch.ones(1, 2)\n"
    (tmp_path / "model.py").write_text(code)
    for _ in range(2):
        assert run("coverage", "model.py:make", "--torch", "2.6.0", "--format", "json").json()["recalled"] is None
    assert run("cache", "info", "--format", "json").json()["answers"] == 0


def test_a_function_without_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in _variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    first, second = (mpsprobe.coverage("bert-base", torch="2.6.0", size="small") for _ in range(2))
    assert isinstance(second, CoverageReport)
    assert first.recalled is None and second.recalled is not None
    assert second.model_copy(update={"recalled": None}) == first
    assert mpsprobe.coverage("bert-base", torch="2.6.0", size="small", no_cache=True).recalled is None
    command = run_cli(
        "coverage", "bert-base", "--torch", "2.6.0", "--size", "small", "--format", "json",
        process=False, cwd=tmp_path, variables=_variables(tmp_path),
    )  # fmt: skip
    assert command.json()["recalled"] is not None


@pytest.mark.thorough
def test_a_process_of_its_own(tmp_path: Path) -> None:
    """What was changed is judged anew; what was not comes without torch, pydantic and rich."""
    for count, more in enumerate([(), (), ("--format", "json"), ()]):
        changed = {"HF_HOME": str(tmp_path)} if count == CHANGED else {}
        finished = subprocess.run(
            [sys.executable, "-c", RUN, *ASKED, *more], env=command_environment(_variables(tmp_path) | changed),
            cwd=tmp_path, capture_output=True, text=True, check=True, encoding="utf-8",
        )  # fmt: skip
        known = count not in (0, CHANGED)
        code, modules = json.loads(finished.stderr.splitlines()[-1])
        assert code == 0 and ("From the cache" in finished.stdout or '"source": "cache"' in finished.stdout) == known
        assert bool(HEAVY.intersection(modules)) != known


def test_hooks_around_a_run_are_of_a_run(run: Run, plugin_folder: Path) -> None:
    code = (
        "from mpsprobe import hookimpl\n\n\n@hookimpl\ndef mpsprobe_after_run(workload, phase, report):\n"
        "    import sys\n    print('ran', workload, file=sys.stderr)\n"
    )
    install_plugin(plugin_folder, "listens", code)
    ran = [run(*ASKED, folders=[plugin_folder]) for _ in range(2)]
    assert [("ran bert-base" in one.stderr) for one in ran] == [True, False]
