"""``mpsprobe kernels list | show | since | diff``. mpsprobe-tables adds what maintainers need."""

from __future__ import annotations

import json
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import click

from mpsprobe.commands import OpenGroup
from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.options import FORMAT_OPTION, Named
from mpsprobe.output import write_stdout
from mpsprobe_coverage.commands.options import ALL, BACKEND_OPTION, releases, torch_option
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.kernels.names import resolve_operators
from mpsprobe_coverage.knowledge.kernels.registered import RegisteredFamily, registered_named
from mpsprobe_coverage.knowledge.kernels.releases import INSTALLED
from mpsprobe_coverage.knowledge.kernels.table import NATIVE, UNKNOWN, KernelFamily, KernelTable, tensor_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KEY_OPTION = click.option("--key", metavar="KEY", help="Dispatch key of the tensors [default: that of dense ones].")
LIBRARIES = ("torch", "torchvision")


@click.group(cls=OpenGroup, more="mpsprobe-tables")
def kernels() -> None:
    """Which kernels each torch release registers for MPS, or for the backend of a plugin.

    The tables of MPS were read from the macOS wheels of every release since 1.12.0, and come with this package: nothing
    is downloaded, and neither a Mac nor torch is needed.

    An operator is written namespace::name.overload, as PyTorch's error messages print it; add.out, aten.add.out
    and torch.add are understood too, and a name without an overload means all of its overloads.
    """


@kernels.command("list", short_help="Every operator that a release registers for MPS.")
@torch_option(INSTALLED, "The release whose operators to list; 'all' lists the releases.")
@click.option("--key", metavar="KEY", help="Only operators registered under this dispatch key, for example SparseMPS.")
@click.option(
    "--library", type=Named("library", LIBRARIES), default="torch", show_default=True, help="Whose operators."
)
@BACKEND_OPTION
@FORMAT_OPTION
def list_command(torch_release: str, key: str | None, library: str, backend: str, format_name: str) -> None:
    """Every operator that a release registers for MPS, and from which wheel that is known.

    On a torch that was built with MPS, 'installed' asks the running dispatcher.

    \b
    mpsprobe kernels list --torch 2.13.0
    mpsprobe kernels list --torch latest --key SparseMPS
    mpsprobe kernels list --torch all
    mpsprobe kernels list --torch 2.13.0 --library torchvision
    mpsprobe kernels list --backend xpu
    mpsprobe kernels list --backend tensorflow-metal --release 1.2.0
    """
    other = registered_named(backend)
    if other is not None:
        _refuse(other, key=key, library=library != "torch")
        document = other.listed(torch_release)
        write(format_name, lambda: document, "kernels_output:print_registered_list", other, document)
        return
    family = family_named(backend)
    if library not in ("torch", *family.libraries):
        raise UsageError(
            f"the table of {family.backend.label} holds the operators of all libraries", "Leave --library out."
        )
    if torch_release == ALL:
        tables = [(release, _library_table(family.load(release), library)) for release in family.releases]
    else:
        chosen = family.target(torch_release)
        tables = [(chosen.release, _library_table(chosen, library))]
        if tables[0][1] is None:
            raise UnknownName("torchvision for torch", chosen.release, (), "There is no table of one for this release.")
    present = [(release, table) for release, table in tables if table is not None]
    if key is not None:
        keys = {name for _, table in present for name in table.keys}
        if key not in keys:
            raise UnknownName("dispatch key", key, keys, "There are: " + ", ".join(sorted(keys)) + ".")
    documents = (_document(release, table, key) for release, table in present)
    if torch_release == ALL:
        write(format_name, lambda: [*documents], "kernels_output:print_releases", present, key)
    else:
        write(format_name, lambda: next(documents), "kernels_output:print_table", *present[0], key)


@kernels.command(short_help="What MPS does with an operator, release by release.")
@click.argument("operators", nargs=-1, required=True, metavar="OP…")
@torch_option(ALL, "The release to ask about; several with commas.")
@KEY_OPTION
@BACKEND_OPTION
@FORMAT_OPTION
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
    other = registered_named(backend)
    if other is not None:
        _refuse(other, key=key)
        rows = other.shown(operators, torch_release)
        write(format_name, lambda: rows, "kernels_output:print_registered_shown", rows)
        return
    family = family_named(backend)
    names = resolve_operators(operators, family.operators)
    key = _checked_key(key, family)
    if torch_release == ALL:
        verdicts = [(name, list(family.history(name, key))) for name in names]
    else:
        targets = [family.target(release) for release in releases(torch_release, family)]
        verdicts = [(name, [(target.release, _verdict(name, target, key)) for target in targets]) for name in names]

    def document() -> list[dict[str, Any]]:
        return [
            {
                "operator": name,
                "torch": release,
                "verdict": verdict,
                "native_since": family.native_since(name, key),
                "removed_in": family.removed_in(name),
                "key": key,
            }
            for name, history in verdicts
            for release, verdict in history
        ]

    shown_key = None if key == family.backend.key else key
    write(format_name, document, "kernels_output:print_verdicts", verdicts, shown_key, torch_release == ALL)


@kernels.command(short_help="From which release on an operator is native.")
@click.argument("operators", nargs=-1, required=True, metavar="OP…")
@KEY_OPTION
@BACKEND_OPTION
@FORMAT_OPTION
def since(operators: tuple[str, ...], key: str | None, backend: str, format_name: str) -> None:
    """The first release from which on an operator is native, without a gap up to the newest.

    An operator that is composite now counts as native where all operators that it may call are known and have a
    kernel. Single calls can still be refused or left to the CPU: 'mpsprobe coverage' judges those.

    \b
    mpsprobe kernels since linalg_qr.out nonzero cumsum
    """
    other = registered_named(backend)
    if other is not None:
        _refuse(other, key=key)
        registered = other.since(operators)
        write(format_name, lambda: registered, "kernels_output:print_registered_since", registered)
        return
    family = family_named(backend)
    names = resolve_operators(operators, family.operators)
    key = _checked_key(key, family)
    rows = [
        (name, family.native_since(name, key), family.removed_in(name), family.history(name, key)[-1][1])
        for name in names
    ]
    fields = ("operator", "native_since", "removed_in", "verdict")
    documents = ({**dict(zip(fields, row, strict=True)), "torch": family.releases[-1]} for row in rows)
    write(format_name, lambda: [*documents], "kernels_output:print_since", rows)


@kernels.command(short_help="What changed from one release to another.")
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@BACKEND_OPTION
@FORMAT_OPTION
def diff(old: str, new: str, backend: str, format_name: str) -> None:
    """What changed for MPS from torch release A to B; either may be 'installed' or 'latest'.

    \b
    mpsprobe kernels diff 2.6.0 2.15.0
    mpsprobe kernels diff 2.13.0 installed      on a Mac: the shipped table against the running torch
    """
    other = registered_named(backend)
    if other is not None:
        changes = other.difference(old, new)
        write(format_name, lambda: changes, "kernels_output:print_registered_diff", changes)
        return
    family = family_named(backend)
    tables = family.target(old), family.target(new)
    difference = compare(*tables)
    write(format_name, lambda: difference, "kernels_output:print_difference", difference, *tables)


def _refuse(family: RegisteredFamily, **given: object) -> None:
    """Raise a ``UsageError`` for options that mean something for a backend of torch alone."""
    for name, value in given.items():
        if value:
            problem = f"{family.name} is no backend of torch: --{name} means nothing there"
            raise UsageError(problem, f"Leave --{name} out.")


def compare(old: KernelTable, new: KernelTable) -> dict[str, Any]:
    """What changed from one release to another under the backend's own key, for JSON.

    ``gained`` are native in the new release and not in the old one, new operators included; ``lost`` are native in the
    old one and still there; ``changed`` has any other change of verdict of an operator that both have.
    """
    gained, lost, changed = [], [], []
    for operator in sorted(old.operators | new.operators):
        before, after = old.verdict(operator), new.verdict(operator)
        if before == after:
            continue
        if after == NATIVE:
            gained.append(operator)
        elif before == NATIVE and after != UNKNOWN:
            lost.append(operator)
        elif UNKNOWN not in (before, after):
            changed.append({"operator": operator, "from": before, "to": after})
    keys = {}
    for key in sorted({*old.keys, *new.keys} - {new.backend.key}):
        had, has = old.keys.get(key, frozenset()), new.keys.get(key, frozenset())
        if had != has:
            keys[key] = {"gained": sorted(has - had), "lost": sorted(had - has)}
    return {
        "from": old.release,
        "to": new.release,
        "gained": gained,
        "lost": lost,
        "changed": changed,
        "added": sorted(new.operators - old.operators),
        "removed": sorted(old.operators - new.operators),
        "by_key": keys,
        "macos_minimum": {"from": old.macos_minimum, "to": new.macos_minimum},
        "markers": {"added": sorted(new.markers - old.markers), "removed": sorted(old.markers - new.markers)},
    }


def _library_table(table: KernelTable, library: str) -> KernelTable | None:
    return table if library == "torch" else table.family.library(library, table.release)


def _verdict(operator: str, target: KernelTable, key: str) -> str:
    """``target`` may be the live dispatcher; the operators of further libraries are in tables of their own."""
    library = None
    if operator not in target.operators:
        library = target.family.library(operator.partition("::")[0], target.release)
    return (library or target).verdict(operator, key)


def _checked_key(key: str | None, family: KernelFamily) -> str:
    known = tensor_keys(family.backend.key)
    if key is not None and key not in known:
        raise UnknownName("dispatch key", key, known, "There are: " + ", ".join(known) + ".")
    return family.backend.key if key is None else key


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
        "by_key": {name: sorted(operators) for name, operators in table.keys.items() if key in (None, name)},
        "wheel": table.wheel,
        "sha256": table.sha256,
        "macos_minimum": table.macos_minimum,
        "commit": table.commit,
        "markers": sorted(table.markers),
        "backend": table.family.name,
        "source": table.source or None,
        "whole": table.whole,
        "notes": list(table.notes),
    }


def write(format_name: str, document: Callable[[], Any], drawn_by: str, *shown: Any) -> None:
    """``document()`` as JSON on standard output; or ``shown``, by a function of a module that is imported for it."""
    if format_name == "json":
        write_stdout(json.dumps(document(), indent=2, ensure_ascii=False))
    else:
        resolve_name(f"mpsprobe_coverage.commands.{drawn_by}")(*shown)
