"""What a notebook shows of every kind of report, in a page with styles like Jupyter's: it fits, light and dark."""

from __future__ import annotations

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from browsing import reports
from playwright.sync_api import Browser, Page

from mpsprobe_exporters.plain_text import NO_BREAK

pytestmark = pytest.mark.thorough
WIDTHS = (1280, 500, 400)
COLOURS = {"light": ("#ffffff", "#000000de", "#1565c0"), "dark": ("#111111", "#ffffffde", "#64b5f6")}
"""Of the ground, of text and of links."""
NOTEBOOK = """<!DOCTYPE html><html lang="en"><title>A notebook</title><style>
  body {{ margin: 0; background: {ground}; color: {ink}; font: 14px/1.3 system-ui, sans-serif; }}
  main {{ padding-left: 100px; }}
  .out {{ overflow: auto; }}
  .out a {{ color: {link}; }}
  .out * + * {{ margin-top: 1em; }}
  .out :not(pre) > code {{ font-family: monospace; background: {ground}; color: {ink}; white-space: pre-wrap; }}
  .out table {{ table-layout: fixed; margin: 0 auto 1em; border: none; border-collapse: collapse; font-size: 12px; }}
  .out:not(.markdown) :is(td, th, tr) {{ text-align: right; vertical-align: middle; white-space: normal;
    max-width: none; padding: 0.5em; line-height: normal; border: none; }}
  .out tbody tr:nth-child(odd) {{ background: rgba(128, 128, 128, 0.1); }}
  .out :is(img, svg) {{ max-width: 100%; }}
  .out dl dt {{ float: left; width: 20%; }} .out dl dd {{ margin-left: 20%; }}
</style><main><div class="out">{shown}</div></main></html>"""
NARROW, LINES = 100, 30  # pixels: wider running text may be higher than wide; what is lower stands on one line
# Texts in a column of letters or words, and elements that leave the cell, but for what scrolls, or a number's cell.
BROKEN = f"""() => {{
  const cell = document.querySelector(".out"), right = cell.getBoundingClientRect().right + 1, found = [];
  if (cell.scrollWidth > cell.clientWidth) found.push(`wider than the cell: ${{cell.scrollWidth}}`);
  for (const one of cell.querySelectorAll("*")) {{
    if (!one.checkVisibility() || one.closest("style, svg")) continue;
    const left = !one.closest(".fit") && one.getBoundingClientRect().right > right;
    if (left) found.push(`leaves the cell: ${{one.outerHTML}}`);
    const range = document.createRange();
    range.selectNodeContents(one);
    const {{width, height}} = range.getBoundingClientRect();
    const cut = one.matches(".n") && width > one.clientWidth;
    if (cut) found.push(`over the next cell: ${{one.outerHTML}}`);
    const own = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim().length > 1);
    if (own && height > Math.max(width, {LINES}) && width < {NARROW}) found.push(`a column: ${{one.outerHTML}}`);
  }}
  return found.map(one => one.slice(0, 160));
}}"""
PALE = """() => axe.run({runOnly: ["color-contrast", "list", "definition-list"]}).then(found =>
  found.violations.map(one => `${one.id}: ${one.nodes[0].html.slice(0, 160)} ${one.nodes[0].failureSummary}`))"""


def wrong(page: Page, shown: str) -> list[str]:
    """What a reader of ``shown`` in a cell of a notebook would stumble over."""
    found = []
    for theme, (ground, ink, link) in COLOURS.items():
        page.set_content(NOTEBOOK.format(ground=ground, ink=ink, link=link, shown=shown))
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            found += [f"{width}: {one}" for one in page.evaluate(BROKEN)]
        page.evaluate(AXE_SCRIPT)
        found += [f"{theme}: {one}" for one in page.evaluate(PALE)]
    assert page.evaluate("window.ran") is None
    return found


def test_every_report_fits_into_a_cell(browser: Browser) -> None:
    page, found = browser.new_page(), []
    for name, report in reports().items():
        shown = report._repr_html_()
        assert shown is not None and len(shown) < 50_000
        found += [f"{name}, {one}" for one in wrong(page, shown)]
    assert not found, "\n".join(found)


# What GitHub's viewer does: no styles and scripts with their text, no pictures, no attributes but harmless ones.
SANITISED = """() => {
  const cell = document.querySelector(".out");
  for (const one of cell.querySelectorAll("style, script, svg")) one.remove();
  for (const one of cell.querySelectorAll("*"))
    for (const name of one.getAttributeNames())
      if (!["href", "scope", "open"].includes(name)) one.removeAttribute(name);
  return cell.innerText;
}"""


def test_a_viewer_that_removes_styles_shows_lists_and_tables(browser: Browser) -> None:
    page, shown = browser.new_page(), reports()["mixed"]._repr_html_()
    page.set_content(f'<div class="out">{shown}</div>')
    text = page.evaluate(SANITISED).replace(NO_BREAK, " ")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines[0] == "5 of 10 judged operators are not native on torch 2.6.0."
    assert lines.index("aten::linalg_qr.out missing") < lines.index("Native from torch 2.9.0 on: upgrade.")
    assert "4 (forward 2, backward 2)" in lines and "{" not in text.replace("blocks.{0,1}", "")
    page.set_content(f'<div class="out">{reports()["matrix"]._repr_html_()}</div>')
    assert "5 of 8 native: 1 unsupported, 2 missing, the run stopped" in page.evaluate(SANITISED).replace(NO_BREAK, " ")


def test_the_whole_page_in_a_cell_would_not_fit(browser: Browser) -> None:
    whole = reports()["matrix"].to("html")
    assert isinstance(whole, str)
    found = "\n".join(wrong(browser.new_page(), whole))
    assert "500: a column" in found and "dark: color-contrast" in found
