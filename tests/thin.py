"""Thin modules of plugins that tests make up."""

from __future__ import annotations

import inspect

from mpsprobe import hookspecs


def thin(head: str = "", **answers: str) -> str:
    """A module whose hooks, named without ``mpsprobe_``, return the answers; ``head`` stands above them."""
    lines = ["from mpsprobe import hookimpl", "from mpsprobe.declarations import *", head]
    for name, answer in answers.items():
        arguments = ", ".join(inspect.signature(getattr(hookspecs, f"mpsprobe_{name}")).parameters)
        lines.append(f"@hookimpl\ndef mpsprobe_{name}({arguments}):\n    return {answer}")
    return "\n".join(lines) + "\n"
