"""Every kind of page in a browser: accessible by axe-core, no wider than window and paper, usable by keyboard.

One browser for all of it, because starting it takes a second. A test looks at many pages and lists what is wrong; by
default at one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from browsing import wide_matrix, written
from playwright.sync_api import Browser, Page

LOOKS = ((1280, "light"), (400, "dark"))
"""Widths and colours that axe sees: it takes a third of a second for a page, and no rule of it looks at both."""
NARROWEST = 360
PAPER = 718  # pixels of CSS between margins of a centimetre on A4
VIEWS = "[...document.querySelectorAll('section.view')].map(view => view.id)"
ONE_BELOW_THE_OTHER = "document.documentElement.classList.remove('js')"
A_FRAME_LATER = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
WIDER = "document.documentElement.scrollWidth > innerWidth"
# What axe is certain of, as one line for each rule: its name, the first place, and what is wrong there.
AXE = """() => axe.run({resultTypes: ["violations"]}).then(found => found.violations.map(one =>
  `${one.id}, ${one.nodes.length} times: ${one.nodes[0].html.slice(0, 200)} ${one.nodes[0].failureSummary}`))"""
CONTROLS = "a[href], button, input, select, summary, canvas, svg[data-tips], [tabindex='0']"
# Notes of each control that gets the focus whether a frame around it shows that.
LISTEN = """() => { window.reached = new Map(); document.addEventListener("focusin", ({target}) => {
  const {outlineStyle, outlineWidth} = getComputedStyle(target);
  reached.set(target, outlineStyle !== "none" && parseFloat(outlineWidth) >= 2); }); }"""
SHOWN = """controls => [...document.querySelectorAll(controls)].filter(one =>
  one.checkVisibility({visibilityProperty: true}))"""
MISSED = f"""controls => ({SHOWN})(controls).map(one => reached.get(one) ? null :
  `${{reached.has(one) ? "no frame" : "no focus"}}: ${{one.outerHTML.slice(0, 120)}}`).filter(Boolean)"""
ON_PAPER = f"""() => [
  innerWidth < document.documentElement.scrollWidth && "wider than the paper",
  ...[...document.querySelectorAll("section.view")].filter(one => !one.checkVisibility()).map(one => `no ${{one.id}}`),
  ...({SHOWN})("nav, button:not(th *), input, select").map(one => `useless on paper: ${{one.outerHTML.slice(0, 120)}}`),
  Math.max(...getComputedStyle(document.body).color.match(/\\d+/g)) > 100 && "light ink",
].filter(Boolean)"""


@contextmanager
def opened(browser: Browser, path: Path) -> Iterator[Page]:
    """A page in a window of its own; no name in it ran as a script, and its own had no error."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    yield page
    ran = page.evaluate("window.ran")
    page.close()
    assert ran is None and not errors


def show(page: Page, view: str) -> None:
    page.evaluate("view => { location.hash = view; }", view)
    page.wait_for_selector(f"#{view}.current", state="attached")


def resize(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.evaluate(A_FRAME_LATER)


def barred(page: Page) -> list[str]:
    """What axe finds in all views, and whether they are wider than the window."""
    for view in page.evaluate(VIEWS):
        show(page, view)  # which its script prepares then
    page.evaluate(ONE_BELOW_THE_OTHER)
    page.evaluate(AXE_SCRIPT)
    found = []
    for width, colours in LOOKS:
        resize(page, width)
        page.emulate_media(color_scheme=colours)
        found += [f"{width}, {colours}: {one}" for one in page.evaluate(AXE)]
        found += [f"{width}: wider than the window"] if page.evaluate(WIDER) else []
    resize(page, NARROWEST)
    found += [f"{NARROWEST}: wider than the window"] if page.evaluate(WIDER) else []
    return found


def out_of_reach(page: Page) -> list[str]:
    """Controls that the Tab key does not reach, or that do not show that it has, in all views."""
    found = []
    page.evaluate(LISTEN)
    for view in page.evaluate(VIEWS):
        show(page, view)
        for _ in range(page.evaluate(f"controls => ({SHOWN})(controls).length", CONTROLS) + 1):
            page.keyboard.press("Tab")
        found += [f"{view}: {one}" for one in page.evaluate(MISSED, CONTROLS)]
    return found


def lost_on_paper(page: Page) -> list[str]:
    """What printing in dark colours leaves out, cuts off, or prints in vain."""
    resize(page, PAPER)
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    found: list[str] = page.evaluate(ON_PAPER)
    return found


def wrong(browser: Browser, pages: dict[str, Path], check: Callable[[Page], list[str]]) -> list[str]:
    found = []
    for name, path in pages.items():
        with opened(browser, path) as page:
            found += [f"{name}, {one}" for one in check(page)]
    return found


CHECKS = (barred, lost_on_paper, out_of_reach)


def test_a_page_is_for_everyone(browser: Browser, pages: dict[str, Path]) -> None:
    assert [one for check in CHECKS for one in wrong(browser, {"mixed": pages["mixed"]}, check)] == []


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS)
def test_every_page_is(browser: Browser, pages: dict[str, Path], check: Callable[[Page], list[str]]) -> None:
    found = wrong(browser, pages, check)
    assert not found, "\n".join(found)


@pytest.mark.thorough
def test_views_tables_trees_and_charts_are_used_by_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["measured"]) as page:
        page.locator("nav a", has_text="Modules").press("Enter")
        twist = page.locator("#modules .twist:visible").first
        before = twist.get_attribute("aria-expanded")
        twist.press("Enter")
        assert twist.get_attribute("aria-expanded") != before
        page.locator("nav a", has_text="Steps").press("Enter")
        plot = page.locator("svg[data-tips]:visible").first
        plot.press("End")
        last = page.locator("#steps .tip:visible").text_content()
        plot.press("ArrowLeft")
        assert last != page.locator("#steps .tip:visible").text_content() != ""
        page.locator("nav a", has_text="Trace").press("Enter")
        page.locator("canvas:visible").press("n")
        assert "ProfilerStep" in (page.locator("#trace .said:visible").text_content() or "")
        chosen = page.locator("#cell").input_value()
        page.locator("#cell").press("ArrowDown")
        assert page.locator("#cell").input_value() != chosen
        page.locator("#theme").press("Space")
        assert page.locator("html").get_attribute("data-theme") == "light"
    with opened(browser, pages["mixed"]) as page:
        page.locator("nav a", has_text="Operators").press("Enter")
        page.locator("#operators th button").first.press("Enter")
        assert page.locator("#operators th").first.get_attribute("aria-sort") == "ascending"
        page.locator("#operators input").press_sequentially("linalg_")
        assert page.locator("#operators tbody tr:visible").count() == 2
        page.locator("#operators input").fill("")
        page.locator("#operators .open").first.press("Enter")
        assert page.locator("#operators tr.more:visible").count() == 1
        page.locator("#operators select").first.press_sequentially("missing")
        assert page.locator("#operators tbody > tr:not(.more):visible").count() == 2


@pytest.mark.thorough
def test_forty_releases_and_a_hundred_operators_fit_into_a_window_and_on_paper(
    browser: Browser, tmp_path: Path
) -> None:
    [path] = written(tmp_path, {"matrix": wide_matrix()}).values()
    with opened(browser, path) as page:
        show(page, "releases")
        page.evaluate(A_FRAME_LATER)
        assert page.locator("#releases tbody tr").count() >= 100
        heads = page.locator("#releases thead th")
        assert heads.count() == 41
        last = heads.last.bounding_box()
        assert last is not None and last["x"] + last["width"] <= 1280 and last["width"] > 15
        assert not page.evaluate(WIDER)
        assert not lost_on_paper(page)


@pytest.mark.thorough
def test_a_page_with_faults_is_found(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["mixed"]) as page:
        page.evaluate("""() => {
            document.documentElement.removeAttribute("lang");
            document.querySelector(".answer").style.color = "#999";
            document.querySelector("#overview").style.width = "500px";
        }""")
        found = "\n".join(barred(page))
        assert "1280, light: html-has-lang" in found and "1280, light: color-contrast" in found
        assert "360: wider than the window" in found and "1280: wider" not in found
    with opened(browser, pages["mixed"]) as page:
        page.evaluate("""() => {
            document.querySelector("nav a").tabIndex = -1;
            document.querySelector("#theme").style.outline = "none";
        }""")
        assert [one.split(" ", 3)[1:3] for one in out_of_reach(page)[:2]] == [["no", "focus:"], ["no", "frame:"]]
    with opened(browser, pages["mixed"]) as page:
        page.evaluate("""() => {
            document.querySelector("#operators").style.display = "none";
            document.querySelector("#overview").style.width = "900px";
            document.querySelector("#theme").closest(".tools").style.display = "flex";
        }""")
        assert {one.split(":")[0] for one in lost_on_paper(page)} == {
            "wider than the paper",
            "no operators",
            "useless on paper",
        }
