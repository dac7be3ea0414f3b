"""``mpsprobe advisories list | show``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from mpsprobe.output import write_stdout
from mpsprobe_coverage.commands.kernels import format_option

if TYPE_CHECKING:
    from mpsprobe_coverage.advisories.model import Advisory


@click.group()
def advisories() -> None:
    """Known wrong results: operators that run on MPS and return wrong numbers, without an error.

    Each says for which calls, on which releases of torch and macOS, what happens and what to do instead, with its
    sources. 'mpsprobe coverage' lists those that a workload's calls match. Nothing is downloaded, and neither a Mac
    nor torch is needed.
    """


@advisories.command("list", short_help="Every known wrong result, or those of a release or an operator.")
@click.option("--torch", "torch_release", metavar="VERSION|latest", help="Only those that concern this release.")
@click.option("--operator", metavar="OP", help="Only those of this operator, or of what it calls on MPS.")
@format_option
def list_command(torch_release: str | None, operator: str | None, format_name: str) -> None:
    """Every known wrong result, or those of a release or an operator.

    \b
    mpsprobe advisories list
    mpsprobe advisories list --torch 2.13.0
    mpsprobe advisories list --operator scaled_dot_product_attention
    """
    from mpsprobe_coverage.advisories.store import advisories_for, all_advisories

    found = list(all_advisories())
    if torch_release is not None:
        from mpsprobe_coverage.kernels.releases import resolve_release
        from mpsprobe_coverage.kernels.store import load_table

        release = resolve_release(torch_release)
        found = advisories_for(release, load_table(release).macos_minimum)
    if operator is not None:
        from mpsprobe_coverage.kernels.names import resolve_operators

        wanted = set(resolve_operators([operator]))
        found = [one for one in found if wanted.intersection((*one.operators, *one.reached_from))]
    if format_name == "json":
        _write_json(found)
        return
    from mpsprobe_coverage.commands import advisories_output

    advisories_output.print_list(found)


@advisories.command(short_help="Everything that is known of one, with its sources.")
@click.argument("names", nargs=-1, required=True, metavar="ID…")
@format_option
def show(names: tuple[str, ...], format_name: str) -> None:
    """Everything that is known of a wrong result: condition, symptom, workaround, releases, sources.

    \b
    mpsprobe advisories show attention-causal-half
    mpsprobe advisories show conv-strided-weight --format json
    """
    from mpsprobe_coverage.advisories.store import named

    found = named(names)
    if format_name == "json":
        _write_json(found)
        return
    from mpsprobe_coverage.commands import advisories_output

    advisories_output.print_details(found)


def _write_json(found: list[Advisory]) -> None:
    documents: list[dict[str, Any]] = [one.model_dump(mode="json") for one in found]
    write_stdout(json.dumps(documents, indent=2, ensure_ascii=False))
