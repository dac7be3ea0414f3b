"""The site builds without warnings, holds every page, fetches nothing, and its links lead somewhere, as on GitHub."""

from __future__ import annotations

import re
from pathlib import Path

from _site.gallery import DATA, names, rendered

from mpsprobe.schemas import ProfileReport, read_report
from mpsprobe.schemas.report import KINDS
from tests.docs.pages import DOCS, EVERY, FENCED, OWN
from tests.house.tree import shown

FETCHED = re.compile(r"\s(?:src|srcset|poster|data|background|action|formaction)=['\"]?\s*((?:\w+:)?//[^'\"\s>]+)")
LINKED = re.compile(r"<link\b(?![^>]*\brel=['\"]?(?:canonical|author))[^>]*\shref=['\"]?\s*((?:\w+:)?//[^'\"\s>]+)")
STYLES = re.compile(r"(?:@import\s+|url\(\s*)['\"]?\s*((?:https?:)?//[^'\")\s]+)")
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]*)(#[^)\s]*)?\)")
GALLERY = sorted((DOCS / "gallery" / "reports").glob("*.md"))
MOST_BYTES = 1_000_000


def _external(text: str) -> list[str]:
    """Addresses that a browser fetches by itself; what a reader may click on is none."""
    return [address for expression in (FETCHED, LINKED, STYLES) for address in expression.findall(text)]


def test_every_page_is_in_the_site(site: Path) -> None:
    assert not [page for page in OWN if not (site / page.relative_to(DOCS)).with_suffix(".html").is_file()]
    front = (site / "index.html").read_text(encoding="utf-8")
    sections = [page.relative_to(DOCS).with_suffix(".html").as_posix() for page in OWN if page.parent.parent == DOCS]
    assert not [address for address in sections if address not in front]


def test_nothing_is_fetched_from_elsewhere_and_no_word_of_the_markup_is_left_over(site: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(site.rglob("*.html"))}
    assert len(pages) > len(OWN)
    assert not {page: found for page, text in pages.items() if (found := _external(text))}
    assert not [page for page, text in pages.items() if re.search(r"\{(py:)?(class|doc|ref)\}`", text)]
    styles = {sheet: STYLES.findall(sheet.read_text(encoding="utf-8")) for sheet in site.rglob("*.css")}
    assert styles and not {sheet: found for sheet, found in styles.items() if found}


def test_what_is_fetched_from_elsewhere_is_noticed() -> None:
    assert _external('<script src="https://cdn.example/x.js"></script>') == ["https://cdn.example/x.js"]
    assert _external('<link rel="stylesheet" href="//fonts.example/x.css">') == ["//fonts.example/x.css"]
    assert _external('<a href="https://e.example"><img alt="" src=//i.example/x.png>') == ["//i.example/x.png"]
    assert _external("<style>@import url(https://fonts.example/x.css)</style>") == ["https://fonts.example/x.css"]
    assert not _external('<a href="https://example.org">a link</a><img src="x.png">')


def _links(page: Path) -> list[tuple[str, str]]:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return [(target, anchor) for target, anchor in LINK.findall(text) if "://" not in target]


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for page in EVERY:
        for target, anchor in _links(page):
            path = (page.parent / target).resolve() if target else page
            assert path.exists(), f"{shown(page)}: {target}"
            if anchor and path.suffix == ".md":
                assert anchor in _anchors(path), f"{shown(page)}: {target}{anchor}"


def test_every_page_can_be_reached_from_the_front_by_links() -> None:
    """On the site the contents at the side lead everywhere; where the code is there are only links."""
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        one = waiting.pop()
        if one not in reached and one.is_file() and one.suffix == ".md" and one.is_relative_to(DOCS):
            reached.add(one)
            waiting += [(one.parent / target).resolve() for target, _ in _links(one) if target]
    assert not [shown(page) for page in OWN if page not in reached]


def test_every_kind_of_report_is_in_the_gallery_and_all_of_them_are_small() -> None:
    assert {read_report(DATA / f"{name}.json").kind for name in names()} == set(KINDS)
    assert sum(path.stat().st_size for path in DATA.iterdir()) < MOST_BYTES


def test_a_report_of_the_gallery_is_shown_in_a_terminal_and_as_a_page(site: Path) -> None:
    drawn = {tuple(one.split()) for page in GALLERY for one in re.findall(r"\{report\} (.+)", page.read_text("utf-8"))}
    assert {(name, form) for name in names() for form in ("table", "html")} <= drawn
    pages = {name: (site / "gallery" / "pages" / f"{name}.html").read_text(encoding="utf-8") for name in names()}
    assert not [name for name, text in pages.items() if text != rendered(name, "html")]
    for page in (site / "gallery" / "reports").glob("*.html"):
        for address in re.findall(r'<iframe[^>]* src="([^"#]+)', page.read_text(encoding="utf-8")):
            assert (page.parent / address).is_file()


def test_nothing_in_the_gallery_was_measured_on_a_mac_and_its_pages_say_so() -> None:
    profiles = [one for name in names() if isinstance(one := read_report(DATA / f"{name}.json"), ProfileReport)]
    assert profiles
    for one in profiles:
        assert {device.type for device in one.devices} == {"cpu"}
        assert one.environment is not None and one.environment.platform.startswith("linux")
    for page in GALLERY:
        assert re.search(r"on Linux|Linux machine|on a CPU", page.read_text(encoding="utf-8")), page
