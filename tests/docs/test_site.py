"""The site builds without warnings, holds every page, and fetches nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from tests.docs.pages import DOCS, OWN

FETCHED = {"src", "srcset", "poster", "data", "background", "action", "formaction"}
STYLES = re.compile(r"(?:@import\s+|url\(\s*)['\"]?\s*((?:https?:)?//[^'\")\s]+)")


class _Resources(HTMLParser):
    """Addresses that a browser fetches by itself; what a reader may click on is none."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        fetched = [named[name] for name in FETCHED & set(named)]
        if tag == "link" and named.get("rel") not in {"canonical", "author"}:
            fetched.append(named.get("href", ""))
        self.found += [one for one in fetched if re.match(r"\s*(\w+:)?//", one)]
        self.found += STYLES.findall(named.get("style", ""))


def _external(text: str) -> list[str]:
    parser = _Resources()
    parser.feed(text)
    return parser.found + STYLES.findall(text)


def test_every_page_is_in_the_site(site: Path) -> None:
    missing = [page for page in OWN if not (site / page.relative_to(DOCS)).with_suffix(".html").is_file()]
    assert not missing
    front = (site / "index.html").read_text(encoding="utf-8")
    for page in OWN:
        if page.parent.parent == DOCS:
            assert page.relative_to(DOCS).with_suffix(".html").as_posix() in front


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(OWN)
    found = {str(page): _external(page.read_text(encoding="utf-8")) for page in pages}
    assert not {page: addresses for page, addresses in found.items() if addresses}
    styles = {str(sheet): STYLES.findall(sheet.read_text(encoding="utf-8")) for sheet in site.rglob("*.css")}
    assert styles
    assert not {sheet: addresses for sheet, addresses in styles.items() if addresses}


def test_what_is_fetched_from_elsewhere_is_noticed() -> None:
    assert _external('<script src="https://cdn.example/x.js"></script>') == ["https://cdn.example/x.js"]
    assert _external('<link rel="stylesheet" href="//fonts.example/x.css">') == ["//fonts.example/x.css"]
    assert _external("<style>@import url(https://fonts.example/x.css)</style>") == ["https://fonts.example/x.css"]
    assert not _external('<a href="https://example.org">a link</a><img src="x.png">')


def test_no_word_of_the_markup_is_left_over(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(r"\{(py:)?(class|doc|ref)\}`", page.read_text(encoding="utf-8")), page
