"""What this distribution offers: the commands ``mpsprobe atlas …``. Thin: nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration, KnownAnswer, SweptWorkload

COMMANDS = (
    ("atlas", "atlas:atlas", "Many models on every torch release: sweep them once, ask often."),
    ("atlas rank", "atlas:rank", "Missing operators, by the number of architectures that they block."),
    ("atlas site", "atlas:site", "The atlas as pages for a browser, without a server."),
    ("atlas export", "atlas:export", "The atlas as rows: Parquet or JSON."),
    (
        "atlas sweep",
        "sweep:sweep",
        "Judge many workloads against every release, into a store that a killed sweep goes on with.",
    ),
)


@hookimpl
def mpsprobe_commands() -> list[CommandDeclaration]:
    return [CommandDeclaration(name, f"mpsprobe_atlas.commands.{target}", about) for name, target, about in COMMANDS]


@hookimpl
def mpsprobe_swept_workloads() -> list[SweptWorkload]:
    from mpsprobe_atlas.answering import swept_workloads

    return swept_workloads()


@hookimpl
def mpsprobe_known_answer(question: Mapping[str, Any], wanted: str) -> KnownAnswer | None:
    from mpsprobe_atlas.answering import known_answer

    return known_answer(question, wanted)
