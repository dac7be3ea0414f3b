"""What a Markdown parser with GitHub's tables makes of the documents."""

from __future__ import annotations

import html
import re

from hostile import hostile_coverage, hostile_matrix, on_any_text
from markdown_it import MarkdownIt

from mpsprobe.schemas.report import Report
from mpsprobe_exporters.markdown import MarkdownExporter
from mpsprobe_exporters.markdown_text import code, prose, table
from mpsprobe_exporters.plain_text import one_line

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
OWN_TAGS = {"p", "strong", "code", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "h3", "details", "summary"}


def shown(markdown: str) -> str:
    """The text that a reader sees, on one line."""
    return one_line(html.unescape(re.sub(r"<!-- -->|</?(code|p)>", "", PARSER.render(markdown))), None)


@on_any_text
def test_any_string_is_shown_as_it_is(text: str) -> None:
    assert shown(f"x {code(text, None)}") == one_line(f"x {one_line(text, None)}", None)
    pairs_of_backticks = one_line(text, None).count("`") >= 2
    if not pairs_of_backticks:
        assert shown(f"x {prose(text)}") == one_line(f"x {one_line(text, None)}", None)
    cells = [[code(text), prose(text), "end"], ["a", "b", "end"]]
    rendered = PARSER.render("\n".join(table(["one", "two", "three"], cells)))
    assert rendered.count("<tr>") == 3 and rendered.count("<td>end</td>") == 2


def test_backticks_around_plain_code_stay() -> None:
    assert prose("set A_B=1 before `import torch`") == "set A_B=1 before `import torch`"
    assert "<script>" not in PARSER.render(prose("`<script>` `a` <script>"))


@on_any_text
def test_no_string_adds_structure_to_a_document(text: str) -> None:
    for made in (hostile_coverage, hostile_matrix):
        check_document(made(text), made("plain"), blank=not one_line(text))


def check_document(report: Report, plain: Report, *, blank: bool = False) -> None:
    """The same headings, tables and rows as with a plain word; no tag that is not ours."""
    rendered, expected = (PARSER.render(MarkdownExporter().render(one)) for one in (report, plain))
    assert set(re.findall(r"<(\w+)", rendered)) <= OWN_TAGS
    for tag in ("<h3>", "<table>", "<tr>", "<ul>", "<li>"):
        # What is empty has no line.
        assert rendered.count(tag) == expected.count(tag) or (rendered.count(tag) < expected.count(tag) and blank)
