"""What a rule is: one entry with its name, its reason, its page, and two examples, which are its tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import libcst as cst

Edit = Callable[[Any, Any], cst.CSTNode | None]
"""From a node and where it stands (``place.Place``) to what takes its place; ``None`` leaves it."""

PAGE = "docs/how-to/fix.md"
PACKAGES = {"apex", "bitsandbytes", "cupy", "flash_attn", "tensorrt", "triton", "xformers"}
"""What needs CUDA."""
DEVICE = 'DEVICE = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"\n'
"""The line that most edits need, for the examples."""
RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class Rule:
    """One kind of edit."""

    name: str  # as ``--only`` and ``--skip`` take it; its section of ``page`` is called so too
    reason: str  # in one line, why a Mac needs the edit
    before: str  # a program that needs it
    after: str  # that program with the edit
    edits: tuple[Edit, ...]  # what it does, each with the kinds of node that its first parameter has as its type
    everywhere: bool  # whether it edits what stands in a branch for CUDA or for a Mac only, too

    @property
    def page(self) -> str:
        return f"{PAGE}#{self.name}"


def rule(name: str, reason: str, before: str, after: str, edits: tuple[Edit, ...], everywhere: bool = False) -> None:
    """Enter a rule; edits run in the order in which they were entered."""
    RULES[name] = Rule(name, reason, before, after, edits, everywhere)
