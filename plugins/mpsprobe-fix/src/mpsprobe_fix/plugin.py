"""What this distribution offers: ``mpsprobe fix``. Thin: nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration, DoctorFinding, OperatorRewrite


@hookimpl
def mpsprobe_rewrites() -> list[OperatorRewrite]:
    from mpsprobe_fix.catalogue import REWRITES

    return [OperatorRewrite(rewrite.name, tuple(sorted(rewrite.operators)), "mpsprobe fix") for rewrite in REWRITES]


@hookimpl
def mpsprobe_project(path: str, mac: Mapping[str, str]) -> Iterable[DoctorFinding]:
    from mpsprobe_fix.project import findings

    return findings(path, mac)


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    about = "The patch that makes a program run on MPS and still on CUDA and the CPU."
    return [CommandDeclaration("fix", "mpsprobe_fix.command:fix", about)]
