"""``mpsprobe advisories list | show``."""

from __future__ import annotations

import click

from mpsprobe.commands import OpenGroup
from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.options import FORMAT_OPTION
from mpsprobe.plugins.registry import get_registry
from mpsprobe_coverage.commands.kernels import write
from mpsprobe_coverage.commands.options import BACKEND_OPTION, CHIP_OPTION, torch_option
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.knowledge.kernels.registered import RegisteredFamily, registered_named

MPS = "mps"


@click.group(cls=OpenGroup, default="list")
def advisories() -> None:
    """Known wrong results: operators that run on MPS and return wrong numbers, without an error.

    Each says for which calls, on which releases of torch and macOS, what happens and what to do instead, with its
    sources. 'mpsprobe coverage' lists those that a workload's calls match. Nothing is downloaded, and neither a Mac
    nor torch is needed.
    """


@advisories.command("list", short_help="Every known wrong result, or those of a release or an operator.")
@torch_option(None, "Only those of this release; or installed, latest.", "VERSION")
@click.option("--operator", metavar="OP", help="Only those of this operator, or of what it calls on MPS.")
@BACKEND_OPTION
@CHIP_OPTION
@FORMAT_OPTION
def list_command(
    torch_release: str | None, operator: str | None, backend: str, chip: str | None, format_name: str
) -> None:
    """Every known wrong result, or those of a release, an operator or a chip.

    \b
    mpsprobe advisories list
    mpsprobe advisories list --torch 2.13.0
    mpsprobe advisories list --operator scaled_dot_product_attention
    mpsprobe advisories list --chip m3
    mpsprobe advisories list --backend tensorflow-metal
    """
    if backend != MPS:
        family = _family(backend)
        if chip is not None:
            raise UsageError(f"{backend} is no backend of torch: --chip means nothing there", "Leave --chip out.")
        registered = family.advisories(torch_release, operator)
        write(format_name, lambda: registered, "advisories_output:print_registered", family, registered)
        return
    from mpsprobe_coverage.knowledge.advisories.store import advisories_for, all_advisories

    listed = list(all_advisories())
    if torch_release is not None:
        table = MPS_FAMILY.target(torch_release)
        listed = list(advisories_for(table.release, table.macos_minimum))
    if chip is not None:
        listed = [advisory for advisory in listed if advisory.concerns(chip)]
    if operator is not None:
        from mpsprobe_coverage.knowledge.kernels.names import resolve_operators

        wanted = set(resolve_operators([operator], MPS_FAMILY.operators))
        listed = [advisory for advisory in listed if wanted.intersection((*advisory.operators, *advisory.reached_from))]
    documents = (advisory.model_dump(mode="json") for advisory in listed)
    write(format_name, lambda: [*documents], "advisories_output:print_list", listed)


@advisories.command(short_help="Everything that is known of one, with its sources.")
@click.argument("names", nargs=-1, required=True, metavar="ID…")
@BACKEND_OPTION
@FORMAT_OPTION
def show(names: tuple[str, ...], backend: str, format_name: str) -> None:
    """Everything that is known of a wrong result: condition, symptom, workaround, releases, sources.

    \b
    mpsprobe advisories show attention-causal-half
    mpsprobe advisories show conv-strided-weight --format json
    mpsprobe advisories show metal-training-diverges --backend tensorflow-metal
    """
    if backend != MPS:
        family = _family(backend)
        by_id = {advisory["id"]: advisory for advisory in family.advisories()}
        for name in names:
            if name not in by_id:
                hint = f"mpsprobe advisories list --backend {backend} shows them all."
                raise UnknownName("advisory", name, by_id, hint)
        registered = [by_id[name] for name in dict.fromkeys(names)]
        write(format_name, lambda: registered, "advisories_output:print_registered_details", family, registered)
        return
    from mpsprobe_coverage.knowledge.advisories.store import named

    listed = named(names)
    documents = (advisory.model_dump(mode="json") for advisory in listed)
    write(format_name, lambda: [*documents], "advisories_output:print_details", listed)


def _family(backend: str) -> RegisteredFamily:
    get_registry().backend_framework(backend)  # raises where there is no such backend
    family = registered_named(backend)
    if family is None:
        raise UsageError(f"no wrong results are listed for the backend '{backend}'", f"There is: {MPS}.")
    return family
