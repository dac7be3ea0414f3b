"""``{public-module} NAME``: what a public module offers, out of its docstrings; of a package every module in it."""

from __future__ import annotations

from _site.markdown import MarkdownDirective, block
from _site.public import modules_of


class Module(MarkdownDirective):
    """A section for each module of a package; without one for a module alone."""

    def markdown(self, argument: str) -> str:
        """``automodule`` for each."""
        found = modules_of(argument)
        return "\n\n".join(_section(name, titled=name != argument) for name in found)


def _section(name: str, titled: bool) -> str:
    heading = f"## {name}\n\n" if titled else ""
    return heading + block("{eval-rst}", f".. automodule:: {name}\n   :members:")
