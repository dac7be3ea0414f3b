"""The card: its lights and its sentence follow from the report, and no name in it becomes markup."""

from __future__ import annotations

import importlib.util
import struct
import xml.etree.ElementTree as ET

import pytest
from example_reports import HOSTILE, NATIVE, advised, coverage, examples, failed, hostile_coverage, mixed, summary

from mpsprobe.errors import MissingPackage
from mpsprobe.schemas import CoverageReport
from mpsprobe_devkit.testing import sample_coverage_report
from mpsprobe_exporters.card import DARK, BadgeExporter, CardExporter, DarkPngExporter, PngExporter
from mpsprobe_exporters.reports.card import card_of, document
from mpsprobe_exporters.terminal.drawing import cell_len, text_of
from mpsprobe_exporters.terminal.screen import Screen

TAGS = {"svg", "style", "title", "rect", "text", "g", "circle", "path"}


def colors(report: CoverageReport) -> list[str]:
    return [one.color for one in card_of(report).lights]


def on(*answers: str) -> CoverageReport:
    """A clean report with the same fit on Macs of 8, 16, … GB, each with its answer."""
    sample = sample_coverage_report().memory
    assert sample is not None and sample.fit is not None
    fits = [
        sample.fit.model_copy(update={
            "machine": f"m2-pro-{8 << n}gb", "memory_bytes": 8 << n + 30, "answer": one,
            "low": sample.fit.low.model_copy(update={"reserved_bytes": 2**30}),
            "high": sample.fit.high.model_copy(update={"reserved_bytes": 2**30}),
        })
        for n, one in enumerate(answers)
    ]  # fmt: skip
    fit, several = (fits[0], []) if len(fits) == 1 else (None, fits)
    memory = sample.model_copy(update={"fit": fit, "fits": several})
    return coverage("2.15.0", NATIVE, summary=summary(NATIVE, "2.5.0"), memory=memory)


def test_the_sentence_says_the_worst_and_the_command_is_about_it() -> None:
    cases = {
        "runs on an M2 Pro with 8 GB": (on("fits"), "profile"),
        "runs on an M2 Pro with 8 GB, perhaps swapping": (on("pressure"), "profile"),
        "does not fit on an M2 Pro with 8 or 16 GB": (on("raises", "raises"), "fit"),
        "runs on an M2 Pro with 16 or 32 GB": (on("raises", "pressure", "fits"), "profile"),
        "does not run on a Mac as it is": (mixed(), "coverage"),
        "stops before its end on a Mac": (failed(), "coverage"),
    }
    for said, (report, command) in cases.items():
        card = card_of(report)
        assert card.sentence == f"{card.name} {said}"
        assert card.command.split()[:2] == ["mpsprobe", command], card.command


def test_lights() -> None:
    assert colors(on("fits"))[:2] == ["good", "good"]
    assert colors(on("raises", "fits"))[1] == "caution"
    assert colors(on("unclear"))[1] == "caution" and colors(on("raises"))[1] == "bad"
    assert colors(mixed())[0] == "bad" and colors(failed())[:2] == ["bad", "unknown"]
    assert colors(advised())[2] == "bad"
    slow = sample_coverage_report()
    assert slow.time is not None and colors(slow)[3] == "good"
    waits = slow.model_copy(update={"time": slow.time.model_copy(update={"bound_by": "launches"})})
    said = "181 ms to 318 ms a step, predicted; the GPU waits"
    assert (colors(waits)[3], card_of(waits).lights[3].said) == ("caution", said)
    assert colors(on("fits"))[3] == "unknown"
    fits = card_of(on("raises", "pressure", "fits")).lights[1].said
    assert fits.endswith("fits with 32 GB, may swap with 16 GB, does not fit with 8 GB")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_fits_on_a_terminal(width: int) -> None:
    for report in (*(one for one in examples().values() if one.kind == "coverage"), on("raises", "pressure", "fits")):
        text = text_of(document(report), Screen(width), everything=True)
        assert max(map(cell_len, text.splitlines())) <= width and "Next: " in text


def test_no_name_becomes_markup() -> None:
    for text in HOSTILE:
        for exporter in (CardExporter(), BadgeExporter()):
            root = ET.fromstring(exporter.render(hostile_coverage(text)))
            for one in root.iter():
                assert one.tag.rpartition("}")[2] in TAGS, text
                assert not any(name.startswith(("on", "href")) for name in one.attrib), text
            style = root.find("{*}style")
            assert style is not None and style.text is not None and style.text.startswith("@media (prefers-color")


def test_pixels() -> None:
    light, dark = (one().render(on("fits")) for one in (PngExporter, DarkPngExporter))
    for picture in (light, dark):
        assert picture[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", picture[16:24]) == (1200, 630)
    assert light != dark and DARK["paper"] in CardExporter().render(on("fits"))


def test_without_the_library_pixels_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r"a card as PNG needs the package mpsprobe-exporters\[png\]"):
        PngExporter()
