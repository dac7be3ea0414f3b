"""What holds for everything that the plugins of this repository register, however many there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mpsprobe import exporting
from mpsprobe.errors import MissingPackage
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe_devkit.testing import run_cli, sample_reports

REGISTRY = Registry(strict=True)


def _commands(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _commands(inner, *path, name)


ALL_COMMANDS = [path for name in REGISTRY.commands() for path in _commands(REGISTRY.command(name), name)]


def test_no_plugin_fails_and_no_name_is_contested() -> None:
    assert {plugin.found.name for plugin in REGISTRY.plugins()} >= {"core", "coverage", "exporters", "hf"}
    for plugin in REGISTRY.plugins():
        contributed = REGISTRY.contributions(plugin)
        assert plugin.status == "ok", plugin.reason
        for kind, names in contributed.items():
            assert all(REGISTRY.owner(kind, name) is plugin for name in names)


@pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
def test_every_command_has_help_with_a_word_on_each_flag(path: tuple[str, ...]) -> None:
    result = run_cli(*path, "--help")  # in a process of its own, where nothing else has imported what it needs
    assert result.code == 0, result.stderr
    assert result.stdout.startswith(f"Usage: mpsprobe {' '.join(path)}")
    command: click.Command = REGISTRY.command(path[0])
    for name in path[1:]:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    assert command.help or command.callback.__doc__
    silent = [option.name for option in command.params if isinstance(option, click.Option) and not option.help]
    assert not silent


@pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
def test_every_command_refuses_an_unknown_flag(path: tuple[str, ...]) -> None:
    result = run_cli(*path, "--no-such-flag", process=False)
    assert result.code == 2
    assert "--no-such-flag" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", REGISTRY.exporters())
def test_every_exporter_writes_every_sample_that_it_reads(name: str, tmp_path: Path) -> None:
    declaration = REGISTRY.exporter_declaration(name)
    read = [report for kind, report in sample_reports().items() if kind in declaration.kinds]
    assert read
    for report in read:
        written = [exporting.write(REGISTRY, name, report, str(tmp_path / name)) for _ in range(2)]
        first, second = (Path(path or "") for path in written)
        if declaration.folder:
            assert first.parent == tmp_path / name and first != second and list(first.iterdir())
            continue
        content = exporting.render(REGISTRY, name, report)
        assert isinstance(content, bytes if declaration.binary else str)
        assert first.read_bytes() == (content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("name", REGISTRY.exporters())
def test_an_extension_leads_back_to_its_exporter(name: str) -> None:
    declaration = REGISTRY.exporter_declaration(name)
    assert bool(declaration.extension) != declaration.folder
    assert exporting.exporter_for(REGISTRY, "report" + declaration.extension) in (name, None)


@pytest.mark.parametrize("name", REGISTRY.workloads())
def test_every_workload_can_be_described(name: str) -> None:
    try:
        workload = REGISTRY.workload(name)
    except MissingPackage as error:
        assert error.distribution in REGISTRY.workloads()[name].requires
        return
    assert workload.name == name
    assert workload.framework == REGISTRY.workloads()[name].framework
    assert json.loads(json.dumps(dict(workload.describe())))


def test_every_framework_has_a_scanner() -> None:
    for framework in {one.framework for one in REGISTRY.workloads().values()}:
        assert callable(REGISTRY.scanner_for(framework).scan)


def test_the_registry_of_the_process_has_the_same_names() -> None:
    assert list(get_registry().workloads()) == list(REGISTRY.workloads())
