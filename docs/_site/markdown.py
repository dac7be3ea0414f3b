"""Directives that write Markdown, which the page then reads as if it stood there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

MARKUP = re.compile(r"([\\`*_<>\[\]])")


class MarkdownDirective(SphinxDirective):
    """A directive whose content is made by ``markdown()``: ``argument`` says about which object."""

    optional_arguments = 1
    final_argument_whitespace = True

    def markdown(self, argument: str) -> str:
        """The Markdown that takes the directive's place."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Read what ``markdown()`` wrote; its headings become sections of the page.

        MyST puts a section into the page as soon as it meets the heading. It is taken out again, or what stands before
        the first heading would come after the last section.
        """
        text = self.markdown(self.arguments[0] if self.arguments else "")
        lines = StringList(text.splitlines(), source=self.get_source_info()[0])
        made, page = nodes.Element(), self.state_machine.node
        before = len(page.children)
        self.state.nested_parse(lines, self.content_offset, made, match_titles=True)
        sections = page.children[before:]
        del page.children[before:]
        return [*made.children, *sections]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a column that has nothing to say in any row is left out."""
    cells = [[cell.replace("\n", " ").replace("|", "\\|") for cell in row] for row in rows]
    if not cells:
        return ""
    kept = [index for index in range(len(heads)) if any(row[index] for row in cells)]
    lines = [[heads[index] for index in kept], ["---" for _ in kept]]
    lines += [[row[index] for index in kept] for row in cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def code(text: object) -> str:
    """``text`` as code in running text."""
    return f"`{text}`" if str(text) else ""


def from_docstring(text: str) -> str:
    """Running text of a docstring, where code stands between double backquotes, as Markdown."""
    parts = re.split(r"(``.+?``)", text, flags=re.DOTALL)
    return "".join(part[1:-1] if part.startswith("``") else MARKUP.sub(r"\\\1", part) for part in parts)


def block(language: str, text: str) -> str:
    """A fenced block."""
    return f"````{language}\n{text.rstrip()}\n````"
