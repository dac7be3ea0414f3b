"""The files of the site: a page with its styles and its script in it, and the data as scripts that it loads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from mpsprobe.errors import OutputError
from mpsprobe.output import write_atomically
from mpsprobe_atlas.site.data import SiteData
from mpsprobe_exporters.html.markup import Child, Markup, element
from mpsprobe_exporters.html.page import STYLES, asset, hashed

SHARED = ("start.js", "theme.js")
SCRIPTS = ("state.js", "pieces.js", "models.js", "map.js", "ranking.js", "model.js", "operator.js", "main.js")
# `'self'` is a server's word; a page of a disk has no origin, and the scheme stands for its folder.
POLICY = (
    "default-src 'none'; script-src 'self' file: '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none'"
)
VIEWS = {"models": "Models", "map": "Heat map", "ranking": "Ranking", "releases": "Releases"}
HIDDEN = {"model": "Model", "operator": "Operator"}
NO_SCRIPT = "These pages are drawn by a script: open them in a browser that runs it."
MARKER = "mpsprobe-atlas-site"
"""The name of a file that says that a folder is one of ours, which may be written again."""


def write_site(data: SiteData, folder: Path) -> int:
    """Write the site to ``folder``, which is made, or is empty, or has an older site of ours; returns its bytes.

    Raises:
        OutputError: the folder has other files, or cannot be written.
    """
    try:
        if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARKER).is_file())):
            raise OutputError(
                f"cannot write the site to {folder}: it has other files", "Name a new or an empty folder."
            )
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / MARKER).touch()
        for old in (folder / "data").glob("*.js"):
            old.unlink()
    except OSError as error:
        raise OutputError(f"cannot write the site to {folder}: {error.strerror or error}") from error
    size = 0
    for name, content in files(data):
        write_atomically(folder / name, content)
        size += len(content.encode())
    return size


def files(data: SiteData) -> Iterator[tuple[str, str]]:
    """Each file of the site: its path in the folder, and its text."""
    yield "index.html", _page()
    yield "data/index.js", _script("index", data.index())
    for name, details in (*data.model_files(), *data.operator_files()):
        yield f"data/{name}.js", _script(name, details)


def _script(name: str, value: Any) -> str:
    """Data as a script: all that is not ASCII, and what a page could take for markup, as escapes."""
    written = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return f"atlas({json.dumps(name)},{written})\n"


@cache
def _own(*names: str) -> str:
    folder = resources.files("mpsprobe_atlas.site") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _page() -> str:
    style = asset(STYLES) + _own("site.css")
    script = f'(() => {{\n"use strict";\n{asset(SHARED, wrapped=False)}{_own(*SCRIPTS)}}})();'
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content=POLICY.format(script=hashed(script), style=hashed(style)),
        ),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", "Atlas · mpsprobe"),
        element("style", Markup(style)),
    )
    links = (element("li", element("a", title, href=f"#{key}", data_view=key)) for key, title in VIEWS.items())
    top = element(
        "header",
        element("div", element("span", "mpsprobe", class_="brand"), element("h1", "Atlas"), class_="heading"),
        element("nav", element("ul", *links), aria_label="Views"),
        element("div", element("button", "Theme", type="button", id="theme", hidden=True), class_="tools"),
        class_="top",
    )
    chooser = element(
        "form",
        _select("release", "torch"),
        _select("setting", "phase"),
        _select("machine", "Mac"),
        class_="choices",
        role="search",
        aria_label="What is shown",
    )
    opening = element(
        "div",
        element("p", NO_SCRIPT, class_="answer", id="answer"),
        element("p", class_="quiet", id="made"),
        class_="opening",
    )
    sections = (
        element("section", element("h2", title), element("div", class_="body"), id=key, class_="view", data_view=key)
        for key, title in (*VIEWS.items(), *HIDDEN.items())
    )
    body = element("body", top, element("main", chooser, opening, *sections), element("script", Markup(script)))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _select(name: str, title: str) -> Child:
    return element("label", element("span", title), element("select", id=name, name=name))
