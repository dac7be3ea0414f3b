"""``mpsprobe workloads list | show NAME``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from mpsprobe.cli.listing import aligned, terminal_width
from mpsprobe.commands import OpenGroup
from mpsprobe.declarations import WorkloadDeclaration
from mpsprobe.errors import UsageError, install_command
from mpsprobe.options import FORMAT_OPTION, complete_workload
from mpsprobe.plugins.loading import Plugin
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe.progress import make_progress
from mpsprobe.streams import note, write_json, write_stdout
from mpsprobe.suggestions import printable


@click.group(cls=OpenGroup, default="list")
def workloads() -> None:
    """Which models can be named, and what each one is.

    Besides the names, plugins may take a model type (hf:TYPE; 'list --hf' has all of them), a checkpoint
    folder, a Hub id or a function of yours (path/to/file.py:function).
    """


def _plain(declaration: WorkloadDeclaration, owner: Plugin | None) -> dict[str, Any]:
    keys = ("name", "family", "framework", "phases", "requires", "summary")
    declared = {key: getattr(declaration, key) for key in keys}
    return {**declared, "distribution": owner.found.distribution if owner else None}


def _space(registry: Registry, option: str) -> list[WorkloadDeclaration]:
    if not option.startswith("--"):
        raise UsageError(f"unexpected '{printable(option)}'", "A name space is an option, for example --hf.")
    with make_progress() as progress:  # whoever knows the names may be a large package
        progress.start_loading(1)
        names = registry.workload_space(option[2:])
    if names is None:
        raise click.NoSuchOption(option)
    return list(names.values())


@workloads.command("list", context_settings={"ignore_unknown_options": True})
@click.argument("spaces", nargs=-1, type=click.UNPROCESSED, metavar="[--SPACE]...")
@FORMAT_OPTION
def list_command(spaces: tuple[str, ...], format_name: str) -> None:
    """Every named workload, by family; with --hf, --timm or the like every name that begins with hf:, timm: …"""
    registry = get_registry()
    declared = [name for space in spaces for name in _space(registry, space)] or list(registry.workloads().values())
    answers = registry.answers("mpsprobe_swept_workloads") if declared else ()
    swept = {workload.name: workload.answered for answer, _ in answers for workload in answer}
    if format_name == "json":
        facts = [_plain(workload, registry.workload_and_owner(workload.name)[1]) for workload in declared]
        write_json([{**each, "answered": swept.get(each["name"])} for each in facts])
        return
    if not declared:
        click.echo(f"No plugin that is installed has workloads: {install_command('mpsprobe-hf')}", err=True)
        return
    families: dict[str, list[WorkloadDeclaration]] = {}
    for declaration in declared:
        families.setdefault(declaration.family, []).append(declaration)
    phases = {name: ", ".join(answered) or "no answer" for name, answered in swept.items()}
    longest = max(len(declaration.name) for declaration in declared)
    widest = max(len(phases.get(declaration.name, "")) for declaration in declared)
    blocks = []
    for family, members in families.items():
        rows = []
        for member in members:
            answered = [phases.get(member.name, "").ljust(widest)] if widest else []
            rows.append(("  " + member.name.ljust(longest), *answered, member.summary))
        blocks.append(f"{family}\n{aligned(rows, width=terminal_width())}")
    write_stdout("\n\n".join(blocks))
    if widest:
        note("The second column: the phases that were answered in the last sweep.")


@workloads.command("show")
@click.argument("name", shell_complete=complete_workload)
@FORMAT_OPTION
def show_command(name: str, format_name: str) -> None:
    """What the workload NAME is: architecture, sizes, inputs."""
    registry = get_registry()
    with make_progress() as progress:  # to look at a model type may take transformers, and that torch
        progress.start_loading(1)
        facts = {**_plain(*registry.workload_and_owner(name)), **registry.workload(name).describe()}
    if format_name == "json":
        write_json(facts)
    else:
        write_stdout(aligned(list(_rows(facts)), width=terminal_width()))


def _rows(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """A line for each fact that says something; a fact made of structured ones takes a line for each of them."""
    for key, value in facts.items():
        if isinstance(value, dict) and any(isinstance(part, (dict, list)) for part in value.values()):
            yield from _rows(value, f"{prefix}{key}.")
        elif value not in (None, [], {}, (), ""):
            yield prefix + key, _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={part}" for key, part in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
