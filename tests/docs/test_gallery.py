"""The gallery shows every kind of report as people look at them, stays small, and claims nothing of a Mac."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from _site.gallery import DATA, names, rendered

from mpsprobe.schemas import ProfileReport, read_report
from mpsprobe.schemas.report import KINDS
from tests.docs.pages import DOCS

PAGES = sorted((DOCS / "gallery" / "reports").glob("*.md"))
MOST_BYTES = 1_000_000


def test_every_kind_of_report_is_there_and_all_of_them_are_small() -> None:
    assert {read_report(DATA / f"{name}.json").kind for name in names()} == set(KINDS)
    assert sum(path.stat().st_size for path in DATA.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("name", names())
def test_a_report_is_shown_in_a_terminal_and_as_a_page(name: str, site: Path) -> None:
    shown = {tuple(one.split()) for page in PAGES for one in re.findall(r"\{report\} (.+)", page.read_text("utf-8"))}
    assert {(name, "table"), (name, "html")} <= shown
    page = site / "gallery" / "pages" / f"{name}.html"
    assert page.read_text(encoding="utf-8") == rendered(name, "html")


def test_every_frame_of_the_gallery_has_its_page(site: Path) -> None:
    for page in (site / "gallery" / "reports").glob("*.html"):
        for address in re.findall(r'<iframe[^>]* src="([^"#]+)', page.read_text(encoding="utf-8")):
            assert (page.parent / address).is_file()


def test_nothing_in_it_was_measured_on_a_mac_and_the_pages_say_so() -> None:
    profiles = [one for name in names() if isinstance(one := read_report(DATA / f"{name}.json"), ProfileReport)]
    assert profiles
    for one in profiles:
        assert {device.type for device in one.devices} == {"cpu"}
        assert one.environment is not None and one.environment.platform.startswith("linux")
    for page in PAGES:
        assert re.search(r"on Linux|Linux machine|on a CPU", page.read_text(encoding="utf-8")), page
