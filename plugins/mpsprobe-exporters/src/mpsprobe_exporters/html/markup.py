"""HTML and SVG made safe by construction: what is not ``Markup`` is text, and text is escaped."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from typing import Any

from mpsprobe_exporters.plain_text import JOINTS, NO_BREAK, REPLACEMENT, kept, one_line

VOID = frozenset({"meta", "br", "wbr"})
SVG_NAMES = frozenset({"viewBox", "preserveAspectRatio", "textLength"})
LONGEST = 2000  # of a text; names are shortened to less where they are shown
NAME, TITLE = 120, 600
MARK = "\x00"  # in no text on one line
ENDLESS = re.compile(r"([^\s\x00]{24})(?=[^\s\x00])")

Child = str | None | Iterable["Child"]


class Markup(str):
    """Text that is HTML already. Only this module makes it from anything that a report says."""

    __slots__ = ()


def text(value: str, longest: int | None = LONGEST, *, prose: bool = False) -> Markup:
    """``value`` as text between tags or in an attribute: nothing in it is markup, a control or a lone surrogate.

    In ``prose`` no line ends between a number and its unit.
    """
    cut = value if longest is None or len(value) <= longest else one_line(value, longest)
    if not cut.isprintable():
        cut = "".join(c if c.isprintable() else " " if c.isspace() else REPLACEMENT for c in cut)
    escaped = html.escape(cut)
    return Markup(kept(escaped).replace(NO_BREAK, "&#160;") if prose else escaped)


def element(tag: str, *children: Child, **attributes: Any) -> Markup:
    """``<tag …>children</tag>``; children are escaped unless they are ``Markup``, and lists are taken apart.

    Names of attributes lose a last ``_`` (``class_``), others become ``-``. ``None`` and ``False`` leave an attribute
    out, ``True`` writes it without a value.
    """
    opened = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    return Markup(opened if tag in VOID else f"{opened}{joined(children, prose=tag != 'code')}</{tag}>")


def table(head: Iterable[Child], *bodies: Child, **attributes: Any) -> Markup:
    return element("table", element("thead", element("tr", *head)), *bodies, **attributes)


def scrolled(content: Child, label: str, class_: str = "fit") -> Markup:
    """What may be wider than the page, as a region that the keyboard reaches."""
    return element("div", content, class_=class_, tabindex="0", role="region", aria_label=label)


def joined(children: Iterable[Child], *, prose: bool = True) -> Markup:
    return Markup("".join(_rendered(child, prose) for child in children))


def name(value: str, longest: int = NAME, empty: str = "(none)") -> Markup:
    """A name out of a report as code: on one line, shortened, in full (within reason) where one points at it."""
    full = one_line(value, TITLE) or empty
    short = one_line(full, longest)
    return element("code", broken(short), title=full if full != short else None)


def broken(value: str, joints: bool = True) -> Markup:
    """``value`` as text that a line may end in: where the parts of a name meet, and in what has no end."""
    marked = JOINTS.sub(MARK, value) if joints else value
    parts = ENDLESS.sub(rf"\1{MARK}", marked).split(MARK)
    return Markup("<wbr>".join(text(part, prose=not joints) for part in parts))


def embedded(data: Any, **attributes: Any) -> Markup:
    """``data`` as JSON in a block that is read and never run."""
    return element("script", Markup(for_script(data)), type="application/json", **attributes)


def for_script(data: Any) -> str:
    """``data`` as JSON; ``<``, ``>``, ``&`` and all that is not ASCII are written as escapes, so that no string in it
    can end the block, begin a comment, or be a line end to a script.
    """
    written = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return written


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-") if name not in SVG_NAMES else name
    # Not shortened: paths of charts are long, and what a report says is shortened before it gets here.
    return f" {written}" if value is True else f' {written}="{text(str(value), None)}"'


def _rendered(child: Child, prose: bool) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    return text(child, prose=prose) if isinstance(child, str) else joined(child, prose=prose)
