"""What is written: Python that compiles, that ruff has nothing to say about, and a plugin that loads."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

import mpsprobe
from mpsprobe.declarations import resolve
from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe.plugins.registry import Registry
from mpsprobe_devkit.scaffold.kinds import KINDS
from mpsprobe_devkit.scaffold.names import LONGEST, names_of
from mpsprobe_devkit.scaffold.rendering import Author, render

ALL = tuple(KINDS)
LONG = ("z" * (LONGEST // 2) + "-" + "y" * LONGEST)[:LONGEST]


def _write(folder: Path, name: str, kinds: tuple[str, ...], author: Author | None = None) -> Path:
    target = folder / name
    for path, text in render(names_of(name), [KINDS[one] for one in kinds], author or Author()).items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text, encoding="utf-8")
    return target


@pytest.mark.parametrize("kinds", [*((one,) for one in ALL), ALL], ids=lambda kinds: "+".join(kinds))
def test_a_package_has_everything(kinds: tuple[str, ...]) -> None:
    files = render(names_of("mpsprobe-my-thing"), [KINDS[one] for one in kinds], Author("Ada", "ada@engine.example"))
    wanted = {".github/workflows/ci.yml", ".gitignore", "README.md", "pyproject.toml"}
    wanted |= {f"src/mpsprobe_my_thing/{name}" for name in ("__init__.py", "plugin.py", "py.typed")}
    wanted |= {f"src/mpsprobe_my_thing/{kind}.py" for kind in kinds} | {f"tests/test_{kind}.py" for kind in kinds}
    wanted |= {"tests/train.txt"} if "scanner" in kinds else set()
    assert set(files) == wanted
    assert not [path for path, text in files.items() if "%%" in text or "mpsprobe_my_thing" in path.split("/")[0]]
    for path, text in files.items():
        assert text == "" or (text.endswith("\n") and not text.endswith("\n\n")), path
        if path.endswith(".py"):
            compile(text, path, "exec")


@pytest.mark.parametrize("kinds", [*((one,) for one in ALL), ALL], ids=lambda kinds: "+".join(kinds))
def test_pyproject_says_what_it_needs(kinds: tuple[str, ...]) -> None:
    text = render(names_of("my-thing"), [KINDS[one] for one in kinds], Author())["pyproject.toml"]
    project = tomllib.loads(text)["project"]
    needed = {Requirement(one).name: Requirement(one) for one in project["dependencies"]}
    assert needed["mpsprobe"].specifier.contains(mpsprobe.__version__, prereleases=True)
    assert ("torch" in needed) == bool({"workload", "device"} & set(kinds))
    assert project["entry-points"]["mpsprobe"] == {"my-thing": "my_thing.plugin"}
    assert "authors" not in project


@given(st.text(max_size=40), st.sampled_from(["", "ada@engine.example"]))
def test_any_author_is_valid_toml(name: str, email: str) -> None:
    shown = "".join(one for one in name if one.isprintable())  # what author_from_git lets through
    text = render(names_of("my-thing"), [KINDS["probe"]], Author(shown, email))["pyproject.toml"]
    authors = tomllib.loads(text)["project"].get("authors", [{}])
    assert authors == [{key: value for key, value in {"name": shown, "email": email}.items() if value}]


def test_ruff_has_nothing_to_say_whatever_the_name(tmp_path: Path) -> None:
    folders = [_write(tmp_path, name, ALL) for name in ("a", "mpsprobe-my-thing", LONG)]
    folders += [_write(tmp_path, f"two-{a}-{b}", (a, b)) for a, b in itertools.combinations(ALL, 2)]
    for arguments in (["check", "--no-cache", "--quiet"], ["format", "--no-cache", "--diff", "--quiet"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, *folders], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("kind", ALL)
def test_the_plugin_loads_and_its_target_resolves(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin_folder: Path
) -> None:
    name = f"rendered-{kind}"
    folder = _write(plugin_folder, name, (kind,))
    monkeypatch.syspath_prepend(str(folder / "src"))
    messages: list[str] = []
    found = FoundPlugin(name, name, "0.1.0", f"rendered_{kind}.plugin")
    registry = Registry([found], strict=True, tell=messages.append)
    [plugin] = registry.plugins()
    assert (plugin.status, messages) == ("ok", [])
    assert registry.contributions(plugin) == {kind: [name]}
    made = registry.command(name) if kind == "command" else getattr(registry, kind)(name)
    assert getattr(made, "name", name) in {name, "command"}  # an exporter and a scanner have no name of their own


def test_what_a_scanner_reads_is_a_name_of_its_own(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _write(plugin_folder, "rendered-log", ("scanner",))
    monkeypatch.syspath_prepend(str(folder / "src"))
    registry = Registry([FoundPlugin("rendered-log", "rendered-log", "0.1.0", "rendered_log.plugin")], strict=True)
    workload = registry.workload("rendered-log:train.log")
    assert registry.scanner_for(workload.framework) is not None
    assert resolve("rendered_log.scanner:PREFIX") == "rendered-log:"
