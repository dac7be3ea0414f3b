"""Reads a page as a browser does, strictly: every tag is closed where it should be, and nothing of it could run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "input", "br", "hr", "col", "wbr"}
# Elements and attributes that the exporter writes; none of them runs or fetches anything.
_TAGS = (
    "html head title style script body header main nav section div span p ul li dl dt dd h1 h2 h3 a b em small code "
    "label select option button table caption pre thead tbody tr th td details summary figure figcaption svg rect line "
    "circle text path"
)
_ATTRIBUTES = (
    "lang charset http-equiv content name class id hidden href title type value selected open tabindex role scope "
    "colspan aria-label aria-hidden data-view data-cell data-choice rel data-v data-filter data-tips data-level "
    "data-open x y x1 x2 y1 y2 cx cy r width height d dx dy viewbox preserveaspectratio overflow text-anchor"
)
TAGS, ATTRIBUTES = VOID | set(_TAGS.split()), set(_ATTRIBUTES.split())


class Page(HTMLParser):
    """What is in a page.

    Attributes:
        counts: elements by tag.
        texts: everything that is shown, scripts and styles left out.
        data: the blocks of JSON, read.
        scripts, styles: what would run, and what would dress it.
        links: targets of links.
        attributes: (tag, name) of every attribute, and ``values`` theirs.
    """

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.counts: dict[str, int] = {}
        self.texts: list[str] = []
        self.data: list[Any] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.links: list[str] = []
        self.attributes: set[tuple[str, str]] = set()
        self.values: list[str] = []
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.policy = ""
        self.comments = 0
        self.glued = False
        self.feed(content)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert len(found) == len(attrs), f"an attribute of {tag} is there twice"
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.attributes |= {(tag, name) for name in found}
        self.values += [value for value in found.values() if value]
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        if tag == "a":
            self.links.append(found["href"] or "")
        self.glued = tag == "wbr"
        if tag not in VOID:
            self.open.append((tag, found))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1][0] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        tag, found = self.open[-1] if self.open else ("", {})
        if tag == "style":
            self.styles.append(data)
        elif tag == "script" and found.get("type") == "application/json":
            self.data.append(json.loads(data))
        elif tag == "script":
            self.scripts.append(data)
        elif self.glued:
            self.texts[-1] += data
            self.glued = False
        else:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments += 1

    def shown(self) -> str:
        """All text on one line."""
        return " ".join(" ".join(self.texts).split())

    def check(self) -> None:
        """Nothing but what the exporter writes is there, and its policy allows its own script and styles only."""
        assert set(self.counts) <= TAGS, set(self.counts) - TAGS
        assert {name for _, name in self.attributes} <= ATTRIBUTES, {n for _, n in self.attributes} - ATTRIBUTES
        assert not self.comments
        assert all(re.fullmatch("#[a-z]+|https?://[!-~]+", link) for link in self.links)
        assert len(self.scripts) == len(self.styles) == 1
        assert f"script-src '{_hash(self.scripts[0])}'" in self.policy
        assert f"style-src '{_hash(self.styles[0])}'" in self.policy
        assert self.policy.startswith("default-src 'none';")
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(", self.scripts[0] + self.styles[0])
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert word not in self.scripts[0]


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
