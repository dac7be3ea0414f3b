"""The file itself: one document with its styles, its script and its data, that fetches nothing.

Its content security policy allows exactly the script and the styles that are in it, by their hashes, so that even
markup that found its way in could run nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Container, Iterable, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from mpsprobe_exporters.html.markup import Child, Markup, element

if TYPE_CHECKING:
    from mpsprobe_exporters.document import Document

STYLES = ("theme.css", "layout.css", "data.css", "document.css")
SCRIPTS = ("start.js", "tables.js", "tree.js", "tips.js", "timeline.js", "drawing.js", "theme.js", "views.js")
POLICY = "default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none'"


def page(document: Document, views: Mapping[str, Iterable[Child]], selector: Markup | None) -> str:
    """The whole page; the first of ``views`` is shown at first, ``selector`` chooses between configurations."""
    opening = element(
        "div",
        element("p", f"{document.headline}.", class_="answer"),
        element("p", *([f"{line}.", element("br")] for line in document.lines), class_="quiet"),
        class_=f"opening {document.tone}",
    )
    keyed = {title.partition(" ")[0].lower(): (title, body) for title, body in views.items()}
    return framed(document.title, asset(STYLES), asset(SCRIPTS), POLICY, keyed, [opening], selector)


def framed(
    title: str,
    style: str,
    script: str,
    policy: str,
    views: Mapping[str, tuple[str, Iterable[Child]]],
    opening: Iterable[Child],
    selector: Markup | None = None,
    hidden: Container[str] = (),
) -> str:
    """A page of ``views``: key → title and body; those that are ``hidden`` have no link. ``opening`` is above all."""
    script = f'(() => {{\n"use strict";\n{script}}})();'
    allowed = policy.format(script=hashed(script), style=hashed(style))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=allowed),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{title} · mpsprobe"),
        element("style", Markup(style)),
    )
    links = [
        element("li", element("a", name, href=f"#{key}", data_view=key))
        for key, (name, _) in views.items()
        if key not in hidden
    ]
    top = element(
        "header",
        element("div", element("span", "mpsprobe", class_="brand"), element("h1", title), class_="heading"),
        element("nav", element("ul", *links), aria_label="Views") if len(links) > 1 else None,
        element("div", selector, element("button", "Theme", type="button", id="theme", hidden=True), class_="tools"),
        class_="top",
    )
    sections = (
        element("section", element("h2", name), *body, id=key, class_="view", data_view=key)
        for key, (name, body) in views.items()
    )
    body = element("body", top, element("main", *opening, *sections), element("script", Markup(script)))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


@cache
def asset(names: tuple[str, ...], package: str = "mpsprobe_exporters.html") -> str:
    """The files ``names`` of a package as one."""
    folder = resources.files(package) / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def hashed(content: str) -> str:
    """``content`` as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
