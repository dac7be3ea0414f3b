"""A badge as SVG: two boxes with words in them, the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from mpsprobe.suggestions import printable

# White words on each of them have a contrast of 4.5 or more (WCAG 2, AA).
GREEN, ORANGE, RED, BLUE, GREY, DARK = "#2e7d32", "#b45309", "#b91c1c", "#1d4ed8", "#5f6368", "#3c4043"

LONGEST = 40  # characters in a box
HEIGHT, PADDING, BASELINE, FONT_SIZE = 20, 6, 14, 11
NARROW, WIDE = frozenset("fijlrtI.,:;'|!()[]/ "), frozenset("mwMWOQ@%&")


@dataclass(frozen=True, slots=True)
class Badge:
    """Words on the left (what it is about), words on the right (how it is), and the colour behind those."""

    label: str
    message: str
    colour: str

    def svg(self) -> str:
        """A whole document, with the words as its title for those who do not see it.

        It has no identifiers, so that a page can hold many of them.
        """
        label, message = shortened(self.label), shortened(self.message)
        left, right = (width(words) + 2 * PADDING for words in (label, message))
        title = escape(f"{label}: {message}")
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT}" role="img" '
                f'aria-label="{title}">',
                f"<title>{title}</title>",
                f'<rect width="{left + right}" height="{HEIGHT}" rx="3" fill="{self.colour}"/>',
                f'<path d="M3 0H{left}V{HEIGHT}H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="{DARK}"/>',
                f'<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="{FONT_SIZE}">',
                _text(label, PADDING),
                _text(message, left + PADDING),
                "</g>",
                "</svg>",
                "",
            ]
        )


def shortened(words: str) -> str:
    """On one line, without anything that cannot be printed, and no longer than a box."""
    clean = " ".join(printable(words).split()) or "?"
    return clean if len(clean) <= LONGEST else clean[: LONGEST - 1] + "…"


def width(words: str) -> int:
    """About how many pixels ``words`` take. The document tells browsers to make them just that wide."""
    return round(sum(4.0 if one in NARROW else 10.0 if one in WIDE or ord(one) > 0x2E80 else 7.0 for one in words))


def _text(words: str, x: int) -> str:
    fixed = f'textLength="{width(words)}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{x}" y="{BASELINE}" {fixed}>{escape(words)}</text>'
