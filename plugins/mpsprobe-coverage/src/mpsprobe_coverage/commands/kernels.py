"""``mpsprobe kernels list | show | since | diff``. mpsprobe-tables adds what maintainers need."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mpsprobe.commands import OpenGroup
from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.options import Named
from mpsprobe.output import write_stdout
from mpsprobe_coverage.commands.options import MPS_NAME
from mpsprobe_coverage.kernels.live import INSTALLED
from mpsprobe_coverage.kernels.names import resolve_operators
from mpsprobe_coverage.kernels.own import OwnTables, tables_named
from mpsprobe_coverage.kernels.releases import torch_releases, torchvision_for
from mpsprobe_coverage.kernels.store import load_table, table_for
from mpsprobe_coverage.kernels.table import UNKNOWN, KernelTable, tensor_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpsprobe_coverage.kernels.backends import BackendTables

ALL = "all"
KEY_OPTION = click.option("--key", metavar="KEY", help="Dispatch key of the tensors [default: that of dense ones].")
LIBRARIES = ("torch", "torchvision")


def backend_option(command: Callable[..., None]) -> Callable[..., None]:
    """``--backend NAME``."""
    option = click.option(
        "--backend",
        metavar="NAME",
        default=MPS_NAME,
        show_default=True,
        help="Whose kernels; others than MPS come with plugins.",
    )
    return option(command)


def format_option(command: Callable[..., None]) -> Callable[..., None]:
    """``--format table|json``."""
    option = click.option(
        "--format",
        "format_name",
        type=Named("format", ("table", "json")),
        default="table",
        show_default=True,
        help="Of standard output.",
    )
    return option(command)


@click.group(cls=OpenGroup, more="mpsprobe-tables")
def kernels() -> None:
    """Which kernels each torch release registers for MPS, or for the backend of a plugin.

    The tables of MPS were read from the macOS wheels of every release since 1.12.0, and come with this package: nothing
    is downloaded, and neither a Mac nor torch is needed.

    An operator is written namespace::name.overload, as PyTorch's error messages print it; add.out, aten.add.out
    and torch.add are understood too, and a name without an overload means all of its overloads.
    """


@kernels.command("list", short_help="Every operator that a release registers for MPS.")
@click.option(
    "--torch",
    "torch_release",
    metavar="VERSION|installed|latest|all",
    default=INSTALLED,
    show_default=True,
    help="The release whose operators to list; 'all' lists the releases.",
)
@click.option("--key", metavar="KEY", help="Only operators registered under this dispatch key, for example SparseMPS.")
@click.option(
    "--library", type=Named("library", LIBRARIES), default="torch", show_default=True, help="Whose operators."
)
@backend_option
@format_option
def list_command(torch_release: str, key: str | None, library: str, backend: str, format_name: str) -> None:
    """Every operator that a release registers for MPS, and from which wheel that is known.

    On a torch that was built with MPS, 'installed' asks the running dispatcher.

    \b
    mpsprobe kernels list --torch 2.13.0
    mpsprobe kernels list --torch latest --key SparseMPS
    mpsprobe kernels list --torch all
    mpsprobe kernels list --torch 2.13.0 --library torchvision
    mpsprobe kernels list --backend xpu
    """
    book = tables_named(backend)
    if library != "torch" and book.name != MPS_NAME:
        raise UsageError(
            f"the table of {book.backend.label} holds the operators of all libraries", "Leave --library out."
        )
    if torch_release == ALL:
        tables = [(release, _library_table(book.load(release), library)) for release in book.releases]
    else:
        chosen = book.target(torch_release)
        tables = [(chosen.release, _library_table(chosen, library))]
        if tables[0][1] is None:
            raise UnknownName("torchvision for torch", chosen.release, (), "There is no table of one for this release.")
    found = [(release, table) for release, table in tables if table is not None]
    if key is not None:
        known = {name for _, table in found for name in table.keys}
        if key not in known:
            raise UnknownName("dispatch key", key, known, "There are: " + ", ".join(sorted(known)) + ".")
    if format_name == "json":
        documents = [_document(release, table, key) for release, table in found]
        _write_json(documents if torch_release == ALL else documents[0])
        return
    from mpsprobe_coverage.commands import kernels_output

    if torch_release == ALL:
        kernels_output.print_releases(found, key)
    else:
        kernels_output.print_table(*found[0], key)


@kernels.command(short_help="What MPS does with an operator, release by release.")
@click.argument("operators", nargs=-1, required=True, metavar="OP…")
@click.option(
    "--torch",
    "torch_release",
    metavar="VERSION|installed|latest|all",
    default=ALL,
    show_default=True,
    help="The release to ask about.",
)
@KEY_OPTION
@backend_option
@format_option
def show(operators: tuple[str, ...], torch_release: str, key: str | None, backend: str, format_name: str) -> None:
    """What MPS does with an operator, in one release or through all of them.

    native: it has a kernel. composite: it is made of other operators, which are asked about by themselves.
    fallback: PyTorch itself runs it on the CPU. missing: NotImplementedError, or the CPU with
    PYTORCH_ENABLE_MPS_FALLBACK=1. unsupported: it raises in any case. unknown: the release has no such operator.

    \b
    mpsprobe kernels show linalg_qr
    mpsprobe kernels show aten::linalg_svd aten::nonzero --torch 2.6.0
    mpsprobe kernels show torchvision::nms --torch all --format json
    """
    book = tables_named(backend)
    names = resolve_operators(operators, book.operators)
    key = _checked_key(key, book)
    if torch_release == ALL:
        verdicts = [(name, list(book.history(name, key))) for name in names]
    else:
        target = book.target(torch_release)
        verdicts = [(name, [(target.release, _verdict(name, target, key))]) for name in names]
    if format_name == "json":
        _write_json(
            [
                {
                    "operator": name,
                    "torch": release,
                    "verdict": verdict,
                    "native_since": book.native_since(name, key),
                    "removed_in": book.removed_in(name),
                    "key": key,
                }
                for name, found in verdicts
                for release, verdict in found
            ]
        )
        return
    from mpsprobe_coverage.commands import kernels_output

    kernels_output.print_verdicts(verdicts, None if key == book.backend.key else key)


@kernels.command(short_help="The release since which an operator is native.")
@click.argument("operators", nargs=-1, required=True, metavar="OP…")
@KEY_OPTION
@backend_option
@format_option
def since(operators: tuple[str, ...], key: str | None, backend: str, format_name: str) -> None:
    """The first release from which an operator has been native without a gap.

    \b
    mpsprobe kernels since linalg_qr.out nonzero cumsum
    """
    book = tables_named(backend)
    names = resolve_operators(operators, book.operators)
    key = _checked_key(key, book)
    rows = [
        (name, book.native_since(name, key), book.removed_in(name), book.history(name, key)[-1][1]) for name in names
    ]
    if format_name == "json":
        fields = ("operator", "native_since", "removed_in", "verdict")
        _write_json([{**dict(zip(fields, row, strict=True)), "torch": book.releases[-1]} for row in rows])
        return
    from mpsprobe_coverage.commands import kernels_output

    kernels_output.print_since(rows)


@kernels.command(short_help="What changed from one release to another.")
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@backend_option
@format_option
def diff(old: str, new: str, backend: str, format_name: str) -> None:
    """What changed for MPS from torch release A to B; either may be 'installed' or 'latest'.

    \b
    mpsprobe kernels diff 2.6.0 2.15.0
    mpsprobe kernels diff 2.13.0 installed      on a Mac: the shipped table against the running torch
    """
    from mpsprobe_coverage.kernels.difference import compare

    book = tables_named(backend)
    difference = compare(book.target(old), book.target(new))
    if format_name == "json":
        _write_json(difference.as_dict())
        return
    from mpsprobe_coverage.commands import kernels_output

    kernels_output.print_difference(difference)


def _library_table(torch_table: KernelTable, library: str) -> KernelTable | None:
    if library == "torch":
        return torch_table
    release = torchvision_for(torch_table.release)
    return None if release is None else load_table(release, library)


def _verdict(operator: str, target: KernelTable, key: str) -> str:
    """``target`` may be the live dispatcher; torchvision's operators are in tables of their own."""
    if operator in target.operators:
        return target.verdict(operator, key)
    if not target.is_mps or target.release not in torch_releases():
        return UNKNOWN
    table = table_for(operator, target.release)
    return UNKNOWN if table is None or table.library == "torch" else table.verdict(operator, key)


def _checked_key(key: str | None, book: OwnTables | BackendTables) -> str:
    known = tensor_keys(book.backend.key)
    if key is not None and key not in known:
        raise UnknownName("dispatch key", key, known, "There are: " + ", ".join(known) + ".")
    return book.backend.key if key is None else key


def _document(release: str, table: KernelTable, key: str | None) -> dict[str, Any]:
    """One table for JSON; with ``key`` only what is registered under it."""

    def listed(operators: frozenset[str]) -> Sequence[str]:
        return sorted(operators if key is None else operators & table.keys.get(key, frozenset()))

    return {
        "torch": release,
        "library": table.library,
        "release": table.release,
        "native": listed(table.native),
        "fallback": listed(table.fallback),
        "error": listed(table.error),
        "python": sorted(table.python) if key is None else [],
        "by_key": {name: sorted(found) for name, found in table.keys.items() if key in (None, name)},
        "wheel": table.wheel,
        "sha256": table.sha256,
        "macos_minimum": table.macos_minimum,
        "commit": table.commit,
        "markers": sorted(table.markers),
        "backend": MPS_NAME if table.family is None else table.family.name,
        "source": table.source or None,
        "whole": table.whole,
        "notes": list(table.notes),
    }


def _write_json(document: Any) -> None:
    write_stdout(json.dumps(document, indent=2))
