"""What this distribution offers: the commands ``mpsprobe atlas …``. Thin: nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration, KnownAnswer, SweptWorkload


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    return [
        CommandDeclaration(
            name="atlas",
            target="mpsprobe_atlas.commands.atlas:atlas",
            summary="Many models on every torch release: sweep them once, ask often.",
        ),
        CommandDeclaration(
            name="atlas rank",
            target="mpsprobe_atlas.commands.atlas:rank",
            summary="Missing operators, by the number of architectures that they block.",
        ),
        CommandDeclaration(
            name="atlas site",
            target="mpsprobe_atlas.commands.atlas:site",
            summary="The atlas as pages for a browser, without a server.",
        ),
        CommandDeclaration(
            name="atlas export",
            target="mpsprobe_atlas.commands.atlas:export",
            summary="The atlas as rows: Parquet or JSON.",
        ),
        CommandDeclaration(
            name="atlas sweep",
            target="mpsprobe_atlas.commands.sweep:sweep",
            summary="Judge many workloads against every release, into a store that a killed sweep goes on with.",
        ),
    ]


@hookimpl
def mpsprobe_swept_workloads() -> list[SweptWorkload]:
    from mpsprobe_atlas.answering import swept_workloads

    return swept_workloads()


@hookimpl
def mpsprobe_known_answer(question: Mapping[str, Any], wanted: str) -> KnownAnswer | None:
    from mpsprobe_atlas.answering import known_answer

    return known_answer(question, wanted)
