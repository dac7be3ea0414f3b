"""What everything that the plugins of this repository register keeps to, and what quick commands do not import."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mpsprobe import exporting
from mpsprobe.errors import MissingPackage
from mpsprobe.plugins.discovery import find_plugins
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe_devkit.testing import run_cli, sample_reports
from tests.forking import run_command

REGISTRY = Registry(strict=True)


def _commands(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _commands(inner, *path, name)


ALL_COMMANDS = [
    path for name in REGISTRY.declared("command") for path in _commands(REGISTRY.made("command", name), name)
]


def test_no_plugin_fails_and_no_name_is_contested() -> None:
    assert {plugin.found.name for plugin in REGISTRY.plugins()} >= {"core", "coverage", "exporters", "hf"}
    for plugin in REGISTRY.plugins():
        contributed = REGISTRY.contributions(plugin)
        assert plugin.status == "ok", plugin.reason
        for kind, names in contributed.items():
            assert all(REGISTRY.owner(kind, name) is plugin for name in names)


@pytest.mark.slow
def test_every_command_has_help_with_a_word_on_each_flag_and_refuses_an_unknown_one() -> None:
    wrong = {}
    for path in ALL_COMMANDS:
        command = REGISTRY.made("command", path[0])
        for name in path[1:]:
            command = command.commands[name]
        silent = [option.name for option in command.params if isinstance(option, click.Option) and not option.help]
        shown = run_command(*path, "--help")  # forked, where nothing has imported what it needs but torch
        refused = run_cli(*path, "--no-such-flag", process=False)
        sound = (
            (command.help or command.callback.__doc__) and not silent,
            shown.code == 0 and shown.stdout.startswith(f"Usage: mpsprobe {' '.join(path)}"),
            refused.code == 2 and "--no-such-flag" in refused.stderr and "Traceback" not in refused.stderr,
        )
        if not all(sound):
            wrong[path] = (silent, shown, refused)
    assert not wrong


@pytest.mark.parametrize("name", REGISTRY.exporters())
def test_every_exporter_writes_every_sample_that_it_reads(name: str, tmp_path: Path) -> None:
    declaration = REGISTRY.exporter_declaration(name)
    read = [report for kind, report in sample_reports().items() if kind in declaration.kinds]
    assert read and bool(declaration.extension) != declaration.folder
    assert exporting.exporter_for(REGISTRY, "report" + declaration.extension) in (name, None)
    for report in read:
        written = [exporting.write(REGISTRY, name, report, str(tmp_path / name)) for _ in range(2)]
        first, second = (Path(path or "") for path in written)
        if declaration.folder:
            assert first.parent == tmp_path / name and first != second and list(first.iterdir())
            continue
        content = exporting.render(REGISTRY, name, report)
        assert isinstance(content, bytes if declaration.binary else str)
        assert first.read_bytes() == (content if isinstance(content, bytes) else content.encode())


@pytest.mark.slow
def test_every_workload_can_be_described_and_scanned() -> None:
    wrong = {}
    for name, declaration in REGISTRY.workloads().items():
        try:
            workload = REGISTRY.workload(name)
        except MissingPackage as error:
            if error.distribution not in declaration.requires:
                wrong[name] = str(error)
            continue
        described = json.loads(json.dumps(dict(workload.describe())))
        if (workload.name, workload.framework) != (name, declaration.framework) or not described:
            wrong[name] = f"{workload.name} of {workload.framework}: {described}"
    assert not wrong
    for framework in {one.framework for one in REGISTRY.workloads().values()}:
        assert callable(REGISTRY.scanner_for(framework).scan)
    assert list(get_registry().workloads()) == list(REGISTRY.workloads())


HEAVY = {"torch", "pydantic", "transformers", "torchvision", "numpy", "rich", "lief", "capstone", "hypothesis"}
QUICK = ["--version", "--help", "plugins --help", "export --help"]
QUICK += ["workloads list", "plugins list", "plugins list --format json"]
RUN = """
import sys
from mpsprobe.cli.main import main
code = main(sys.argv[1:])
print("", code, *(name for name in sys.modules if "." not in name), file=sys.stderr)
"""
THIN = """
import sys
from importlib import import_module
for target in sys.argv[2:]:
    import_module(target.partition(":")[0])
    assert not set(sys.argv[1].split()) & set(sys.modules), target
"""


def _printed(code: str, *arguments: str) -> tuple[str, str]:
    command = [sys.executable, "-c", code, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    return ended.stdout, ended.stderr


@pytest.mark.parametrize("line", QUICK)
def test_quick_commands_import_nothing_heavy(line: str) -> None:
    code, *modules = _printed(RUN, *line.split())[1].splitlines()[-1].split()
    assert code == "0" and not HEAVY.intersection(modules)


def test_thin_modules_import_nothing_heavy() -> None:
    targets = [one.target for one in find_plugins() if one.distribution.startswith("mpsprobe")]
    assert len(targets) > 5
    _printed(THIN, " ".join(HEAVY), *targets)


def test_the_first_line_of_main_costs_nothing() -> None:
    code = "import sys; before = set(sys.modules); import mpsprobe.cli.main; print(*set(sys.modules) - before)"
    assert "click" not in _printed(code)[0].split()
