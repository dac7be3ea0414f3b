"""The card of a coverage report as a picture: SVG of 1200 x 630, as links are shown with, PNG of it, and a badge."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mpsprobe.errors import MissingPackage
from mpsprobe_exporters.html.markup import Markup, element
from mpsprobe_exporters.markdown import blocks
from mpsprobe_exporters.plain_text import kept, one_line
from mpsprobe_exporters.reports import card
from mpsprobe_exporters.supported import supported_report
from mpsprobe_exporters.terminal.drawing import text_of
from mpsprobe_exporters.terminal.screen import on_terminal

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report

WIDTH, HEIGHT, MARGIN = 1200, 630, 64
SANS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
WIDEST = 0.62  # of a letter, as a part of the size of its font, in a line of bold ones of any of these fonts
Palette = Mapping[str, str]
LIGHT: Palette = {
    "paper": "#ffffff", "ink": "#1d1d1f", "quiet": "#5f6368", "box": "#f2f3f5",
    "good": "#1a7f37", "caution": "#b35900", "bad": "#c62828", "unknown": "#6e7781",
}  # fmt: skip
DARK: Palette = {
    "paper": "#16181c", "ink": "#f2f3f5", "quiet": "#a8b0b8", "box": "#24272d",
    "good": "#3fb950", "caution": "#f0a030", "bad": "#ff6b61", "unknown": "#8b949e",
}  # fmt: skip
SIGNS = {
    "good": "M-9 0 l6 7 l12 -14", "bad": "M-7 -7 l14 14 M7 -7 l-14 14", "caution": "M0 -10 v11 M0 7 v3",
    "unknown": "M-8 0 h16",
}  # fmt: skip
"""What is drawn in a light, around its middle: no answer is a colour alone."""


class CardExporter:
    """A picture that is light or dark as the page around it."""

    def render(self, report: Report) -> str:
        # Styles go before attributes: the colours of ``DARK`` where the reader's system is dark.
        rules = "".join(f".{name}{{fill:{color}}}" for name, color in DARK.items())
        rules += f".sign{{fill:none;stroke:{DARK['paper']}}}"
        style = element("style", Markup(f"@media (prefers-color-scheme:dark){{{rules}}}"))
        return f"{_svg(card.card_of(supported_report(report, 'card')), LIGHT, style)}\n"

    def render_for_terminal(self, report: Report) -> str:
        return text_of(card.document(supported_report(report, "card")), on_terminal(), everything=True)


class MarkdownCardExporter:
    """The same in words, for an issue or a README."""

    def render(self, report: Report) -> str:
        return "\n\n".join(blocks(card.document(supported_report(report, "card-markdown")))) + "\n"


class PngExporter:
    """The same as pixels."""

    palette = LIGHT

    def __init__(self) -> None:
        if importlib.util.find_spec("resvg_py") is None:
            raise MissingPackage("a card as PNG", "mpsprobe-exporters[png]")

    def render(self, report: Report) -> bytes:
        import resvg_py

        drawn = _svg(card.card_of(supported_report(report, "card-png")), self.palette)
        return bytes(resvg_py.svg_to_bytes(svg_string=f"{drawn}\n"))


class DarkPngExporter(PngExporter):
    palette = DARK


class BadgeExporter:
    """``MPS | runs on an M2 with 16 GB``, for a README."""

    def render(self, report: Report) -> str:
        return f"{_badge(card.card_of(supported_report(report, 'card-badge')))}\n"


def _svg(made: card.Card, palette: Palette, style: Markup | None = None) -> Markup:
    def text(x: int, y: int, size: int, color: str, said: str, *, bold: bool = False, font: str = SANS) -> Markup:
        weight = "700" if bold else None
        return element(
            "text", said, x=x, y=y, font_size=size, font_family=font, font_weight=weight, **_filled(color, palette)
        )

    def parts() -> Iterator[Markup]:
        yield element("title", f"{made.sentence}.")
        yield element("rect", width=WIDTH, height=HEIGHT, **_filled("paper", palette))
        yield text(MARGIN, 78, 24, "quiet", "Will it run on Apple silicon?  mpsprobe", bold=True)
        lines, size = _wrapped(made.sentence)
        for number, line in enumerate(lines):
            y = 150 + number * (size + 12) + (len(lines) == 1) * 28
            yield text(MARGIN, y, size, "ink", line, bold=True)
        for number, light in enumerate(made.lights):
            y = 300 + number * 58
            mark = element(
                "path", d=SIGNS[light.color], fill="none", stroke_width=4, stroke=palette["paper"], class_="sign"
            )
            disc = element("circle", r=19, **_filled(light.color, palette))
            yield element("g", disc, mark, transform=f"translate({MARGIN + 20} {y - 9})")
            yield text(MARGIN + 58, y, 28, "ink", light.about, bold=True)
            yield text(MARGIN + 240, y, 26, "quiet", one_line(light.said, 58))
        yield element("rect", x=MARGIN, y=512, width=WIDTH - 2 * MARGIN, height=54, rx=10, **_filled("box", palette))
        yield text(MARGIN + 22, 547, 24, "ink", f"$ {one_line(made.command, 66)}", font=MONO)
        yield text(MARGIN, 602, 20, "quiet", one_line(made.made, 100))

    return element(
        "svg", style, *parts(),
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {HEIGHT}", width=WIDTH, height=HEIGHT, role="img",
    )  # fmt: skip


def _wrapped(sentence: str) -> tuple[list[str], int]:
    """The sentence on one line if it fits, on two at most, and the size of its font."""
    room = WIDTH - 2 * MARGIN
    for size, most in ((56, 1), (48, 1), (56, 2), (48, 2), (42, 2)):
        lines = textwrap.wrap(kept(sentence), int(room / (WIDEST * size)), break_long_words=True)
        if len(lines) <= most:
            break
    return lines[:2], size


def _filled(color: str, palette: Palette) -> dict[str, str]:
    return {"fill": palette[color], "class_": color}


def _badge(made: card.Card) -> Markup:
    """As wide as its text, which ``textLength`` makes as wide as is thought, whatever the font."""
    said = one_line(made.sentence.removeprefix(f"{made.name} "), 60)
    first, second = 7 * len("MPS") + 6, round(6.4 * len(said))
    left, width = first + 14, first + second + 32
    colors = [light.color for light in made.lights]
    otherwise = "good" if colors[0] == "good" else "unknown"
    color = next((level for level in ("bad", "caution") if level in colors), otherwise)
    label = {"y": 14, "font_size": 11, "font_family": "Verdana, 'DejaVu Sans', sans-serif", "fill": "#ffffff"}
    return element(
        "svg",
        element("style", Markup("@media (prefers-color-scheme:dark){.of{fill:#30363d}}")),
        element("title", f"{made.sentence}."),
        element("rect", width=width, height=20, rx=4, fill=LIGHT[color]),
        element("path", d=f"M4 0H{left}V20H4A4 4 0 0 1 0 16V4A4 4 0 0 1 4 0Z", fill="#3d444d", class_="of"),
        element("text", "MPS", x=8, textLength=first - 2, **label),
        element("text", said, x=left + 8, textLength=second, **label),
        xmlns="http://www.w3.org/2000/svg", width=width, height=20, role="img",
    )  # fmt: skip
