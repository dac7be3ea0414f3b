"""The files of the site: a page with its styles and its script in it, and the data as scripts that it loads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mpsprobe.errors import OutputError
from mpsprobe.output import write_atomically
from mpsprobe_atlas.site.data import SiteData
from mpsprobe_exporters.html.markup import Child, element, for_script
from mpsprobe_exporters.html.page import STYLES, asset, framed

SHARED = ("start.js", "theme.js")
SCRIPTS = ("state.js", "pieces.js", "models.js", "map.js", "ranking.js", "model.js", "operator.js", "main.js")
# `'self'` is a server's word; a page of a disk has no origin, and the scheme stands for its folder.
POLICY = (
    "default-src 'none'; script-src 'self' file: '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none'"
)
VIEWS = {
    "models": "Models",
    "map": "Heat map",
    "ranking": "Ranking",
    "releases": "Releases",
    "model": "Model",
    "operator": "Operator",
}
HIDDEN = ("model", "operator")
NO_SCRIPT = "These pages are drawn by a script: open them in a browser that runs it."
MARKER = "mpsprobe-atlas-site"
"""The name of a file that says that a folder is one of ours, which may be written again."""


def write_site(data: SiteData, folder: Path) -> int:
    """Write the site to ``folder``, which is made, or is empty, or has an older site of ours; returns its bytes."""
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
    yield "index.html", _page()
    yield "data/index.js", _script("index", data.index())
    for name, details in (*data.model_files(), *data.operator_files()):
        yield f"data/{name}.js", _script(name, details)


def _script(name: str, value: Any) -> str:
    return f"atlas({json.dumps(name)},{for_script(value)})\n"


def _page() -> str:
    package = "mpsprobe_atlas.site"
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
    views = {key: (title, [element("div", class_="body")]) for key, title in VIEWS.items()}
    style, script = asset(STYLES) + asset(("site.css",), package), asset(SHARED) + asset(SCRIPTS, package)
    return framed("Atlas", style, script, POLICY, views, [chooser, opening], hidden=HIDDEN)


def _select(name: str, title: str) -> Child:
    return element("label", element("span", title), element("select", id=name, name=name))
