"""What the pages leave to the site: its table of contents, and links that lead out of the documentation.

The pages are plain Markdown, so that they can be read where the code is. What only Sphinx understands is added here.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

EXAMPLES = "examples"  # their pages are those of other distributions
SECTIONS = {
    "Tutorials": "tutorials/*",
    "How to": "how-to/*",
    "Plugins": "plugins/*",
    "Reference": "reference/*",
    "Explanation": "explanation/*",
    "Gallery": "gallery/*",
}
FENCE = re.compile(r"^(```+)(\w+) ([^\n{}]+)$", re.MULTILINE)
NOTES = {
    "mac": "needs a Mac",
    "gpu": "needs a GPU",
    "network": "needs a network",
    "installs": "changes your environment",
    "server": "runs until you stop it",
    "minutes": "takes minutes",
    "tensorflow": "needs TensorFlow",
}
"""What a reader sees above a block whose fence has the word; ``tests/docs/pages.py`` has what else a fence may say."""
LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)#\s]+)(#[^)]*)?\)")


def connect(app: Sphinx) -> None:
    """Let this module see each page before it is read."""
    app.connect("source-read", _on_read)


def _on_read(app: Sphinx, name: str, source: list[str]) -> None:
    text = source[0]
    folder = (Path(app.srcdir) / name).parent
    text = FENCE.sub(_captioned, text)
    text = LINK.sub(lambda link: _inside(link, folder, Path(app.srcdir)), text)
    if name == app.config.root_doc:
        text += "".join(_toctree(pages, title) for title, pages in SECTIONS.items())
    elif (Path(app.srcdir) / name).is_dir():  # reference/commands.md is the parent of what lies in reference/commands/
        text += _toctree(f"/{name}/*")
    source[0] = text


def _captioned(fence: re.Match[str]) -> str:
    """A fence with the words behind its language as a caption, as far as they are for readers."""
    ticks, language, rest = fence.groups()
    words = rest.split()
    shown = [f"`{word.removeprefix('file=')}`" for word in words if word.startswith("file=")]
    shown += [f"From `{word.removeprefix('from=')}`" for word in words if word.startswith("from=")]
    shown += [NOTES[word] for word in words if word in NOTES]
    caption = ", ".join(shown)
    return f"{ticks}{{code-block}} {language}\n:caption: {caption}\n" if caption else f"{ticks}{language}"


def _toctree(pages: str, title: str = "") -> str:
    caption = f":caption: {title}\n" if title else ""
    return f"\n\n```{{toctree}}\n:hidden:\n:glob:\n{caption}\n{pages}\n```\n"


def _inside(link: re.Match[str], folder: Path, root: Path) -> str:
    """The link itself, or for a file that is not part of the site its text and the path in the repository."""
    text, target, _ = link.groups()
    if "://" in target or target.startswith("mailto:"):
        return link.group()
    path = Path(folder, target).resolve()
    a_page_elsewhere = path.is_relative_to(root / EXAMPLES) and path.suffix == ".md"
    if path.is_relative_to(root) and not path.is_dir() and not a_page_elsewhere:
        return link.group()
    named = PurePosixPath(path.relative_to(root.parent).as_posix()) if path.is_relative_to(root.parent) else target
    return text if text.strip("`") == str(named) else f"{text} (`{named}`)"
