"""Links lead somewhere, in the repository as on the site, and every page can be reached from the front."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import DOCS, EVERY, OWN
from tests.house.tree import shown

LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]*)(#[^)\s]*)?\)")
FENCED = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)


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
