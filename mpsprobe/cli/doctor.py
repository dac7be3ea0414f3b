"""``mpsprobe doctor``: this machine's set-up, looked at by every plugin."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import click

from mpsprobe.cli.listing import aligned, terminal_width
from mpsprobe.declarations import LEVELS
from mpsprobe.environment import collect_environment
from mpsprobe.errors import EVERYTHING, UnknownName, UsageError
from mpsprobe.options import ANSWER, FORMAT_OPTION, Named, rare
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe.streams import because, columns, write_json, write_stdout
from mpsprobe.suggestions import printable

BAD = LEVELS[:1:-1]  # error, warning
LEVEL = 7  # characters of the longest level
WIDEST = 110  # characters of a line; longer ones are hard to read
MAC = ("macos", "torch", "chip")
FINDINGS = 1  # the exit code under --fail-on


@click.command()
@click.argument("path", required=False, type=click.Path(exists=True), metavar="[PATH]")
@click.option("--for", "mac", metavar="NAME=VALUE,…", help="The Mac for PATH: macos=14,torch=2.15.0,chip=m1.")
@FORMAT_OPTION
@rare(ANSWER, "--fail-on", type=Named("level", BAD), help="Exit with 1 if anything is at least as bad as this.")
@click.pass_context
def doctor(ctx: click.Context, path: str | None, mac: str | None, format_name: str, fail_on: str | None) -> None:
    """What is wrong with this machine's set-up for MPS, and what to do about it; or with a project at PATH.

    Looks at versions, the build of torch, macOS and PYTORCH_* variables; plugins add their own findings. Of a project
    it reads requirements, settings and code: nothing is installed or run.

    \b
    mpsprobe doctor
    mpsprobe doctor my_project --for macos=14,torch=2.15.0,chip=m1
    """
    registry = get_registry()
    if mac is not None and path is None:
        raise UsageError("--for is about a project", "Name its folder: mpsprobe doctor PATH --for macos=14.")
    environment = collect_environment().model_dump() if path is None else _pairs(mac)
    about = {"environment": environment} if path is None else {"path": path, "mac": environment}
    findings = _findings(registry, "mpsprobe_doctor" if path is None else "mpsprobe_project", about)
    if format_name == "json":
        write_json({"kind": "doctor", "environment": environment, "findings": findings})
    else:
        write_stdout(_drawn(environment, findings, registry.lacking(EVERYTHING)))
    bad = BAD[: BAD.index(fail_on) + 1] if fail_on else ()
    wrong = [printable(finding["message"]) for finding in findings if finding["level"] in bad]
    if wrong:
        click.echo(because(wrong), err=True)
        ctx.exit(FINDINGS)


def _pairs(text: str | None) -> dict[str, Any]:
    pairs = dict(word.partition("=")[::2] for word in text.split(",")) if text else {}
    for name, value in pairs.items():
        if name not in MAC:
            raise UnknownName("part of a Mac", name, MAC, "Name them so: --for macos=14,torch=2.15.0,chip=m1.")
        if not value or (name == "macos" and not re.fullmatch(r"\d+(\.\d+)*", value)):
            raise UsageError(f"--for has no {name} in '{printable(f'{name}={value}')}'", "Such as: --for macos=14.")
    return pairs


def _findings(registry: Registry, hook: str, about: dict[str, Any]) -> list[dict[str, Any]]:
    """The worst first; plugins that are left out are findings too."""
    findings = [
        {**asdict(finding), "distribution": plugin.found.distribution}
        for answer, plugin in registry.answers(hook, **about)
        for finding in answer
    ]
    for plugin in registry.plugins():
        if plugin.status in {"failed", "incompatible"}:
            message = f"the plugin '{plugin.found.name}' of {plugin.owner} is left out: {plugin.reason}"
            hint = f"More: mpsprobe plugins show {plugin.found.name}. Without it: -p no:{plugin.found.name}"
            findings.append({"level": "warning", "message": message, "hint": hint, "distribution": "mpsprobe"})
    return sorted(findings, key=lambda finding: -LEVELS.index(str(finding["level"])))


def _drawn(environment: dict[str, Any], findings: list[dict[str, Any]], lacking: str | None) -> str:
    versions = [(name.replace("_", " "), str(value)) for name, value in environment.items() if value is not None]
    lines = [aligned(versions), ""]
    width = min(columns(), WIDEST)
    for finding in findings:
        colour = {"error": "red", "warning": "yellow", "ok": "green"}.get(finding["level"])
        texts = [(" " * LEVEL, printable(text)) for text in (finding["message"], finding["hint"]) if text]
        lines.append(click.style(finding["level"].ljust(LEVEL), fg=colour) + aligned(texts, width=width)[LEVEL:])
    if not findings:
        lines.append(f"Nothing was found. {lacking}" if lacking else "Nothing was found.")
    text = "\n".join(lines)
    return click.unstyle(text) if terminal_width() is None else text
