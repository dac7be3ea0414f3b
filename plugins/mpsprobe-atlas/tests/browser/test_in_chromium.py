"""The site in a browser, from a disk: every view, by keyboard, on a phone, on paper, with hostile names.

One browser for all of it, because starting it takes a second. How fast it is, ``benchmarks/page.py`` measures.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from made_store import report
from playwright.sync_api import Browser, Page, sync_playwright

from mpsprobe_atlas.answers import pack
from mpsprobe_atlas.reading import judged
from mpsprobe_atlas.site.data import SiteData
from mpsprobe_atlas.site.writing import write_site
from mpsprobe_atlas.store import Row, Store, WritableStore
from tests import left_out

VIEWS = ("models", "map", "ranking", "releases", "model/{model}", "operator/{operator}")
PAPER = 718  # pixels of CSS between margins of a centimetre on A4
WIDER = "document.documentElement.scrollWidth > innerWidth"
AXE = """() => axe.run({resultTypes: ["violations"]}).then(found => found.violations.map(one =>
  `${one.id}, ${one.nodes.length} times: ${one.nodes[0].html.slice(0, 200)} ${one.nodes[0].failureSummary}`))"""
CONTROLS = "a[href], button, input, select, summary, [tabindex='0']"
LISTEN = """() => { window.reached = new Map(); document.addEventListener("focusin", ({target}) => {
  const {outlineStyle, outlineWidth} = getComputedStyle(target);
  reached.set(target, outlineStyle !== "none" && parseFloat(outlineWidth) >= 2); }); }"""
SHOWN = """controls => [...document.querySelectorAll(controls)].filter(one => one.tabIndex >= 0 &&
  one.checkVisibility({visibilityProperty: true}))"""
MISSED = f"""controls => ({SHOWN})(controls).map(one => reached.get(one) ? null :
  `${{reached.has(one) ? "no frame" : "no focus"}}: ${{one.outerHTML.slice(0, 120)}}`).filter(Boolean)"""
WIDE = '"><script>window.ran = 1</script><img src=x onerror="window.ran = 1">' + "unbroken" * 40


def written(store: Path, folder: Path) -> Path:
    with Store(store) as opened:
        write_site(SiteData(list(judged(opened)), opened.about()), folder)
    return folder / "index.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        started = play.chromium.launch(
            executable_path=left_out.browser(), args=["--disable-gpu"], chromium_sandbox=False
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def small(real: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(real, tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def wide(large: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(large, tmp_path_factory.mktemp("wide"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose every name wants to be markup."""
    folder = tmp_path_factory.mktemp("hostile")
    found = {
        "operator": WIDE, "verdict": "missing", "calls": 3, "dtypes": [WIDE], "shapes": [WIDE], "modules": [WIDE],
        "call_sites": [WIDE], "native_since": WIDE, "reason": WIDE, "source": "list", "advice": WIDE,
        "examples": [WIDE],
    }  # fmt: skip
    wrong = {"id": WIDE, "title": WIDE, "chips": [], "calls": 3, "workaround": WIDE}
    made = report([found], 3, [wrong])
    with WritableStore(folder / "a.sqlite", {"versions": {WIDE: WIDE}, "releases": [WIDE]}) as store:
        answer = pack({WIDE: {**made, "failure": {"error": WIDE, "message": WIDE}}}, {WIDE: {"8589934592": WIDE}})
        store.add(Row(WIDE, WIDE, WIDE, WIDE, "answered", made=WIDE, architecture=WIDE, answer=answer))
        store.add(Row("x" + WIDE, WIDE, WIDE, WIDE, "failed", error=WIDE, hint=WIDE))
    return written(folder / "a.sqlite", folder / "site")


@contextmanager
def opened(browser: Browser, path: Path, view: str = "", width: int = 1280) -> Iterator[Page]:
    """A page in a window of its own; nothing but files is fetched, and no error is raised."""
    page = browser.new_page(viewport={"width": width, "height": 800})
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("request", lambda one: wrong.append(one.url) if not one.url.startswith(("file:", "data:")) else None)
    page.goto(path.as_uri() + (f"#{view}" if view else ""))
    drawn(page)
    yield page
    ran = page.evaluate("window.ran")
    page.close()
    assert ran is None and not wrong


def drawn(page: Page) -> None:
    page.locator(".view.current .body > *").first.wait_for(state="attached")
    page.wait_for_load_state("networkidle")


def first_names(page: Page) -> dict[str, str]:
    """A model that has a finding on the oldest release, and an operator."""
    page.evaluate("location.hash = 'ranking'")
    drawn(page)
    page.locator("#release").select_option(index=page.locator("#release option").count() - 1)
    page.wait_for_selector("#ranking .list a")
    operator = page.locator("#ranking .list a").first.text_content()
    page.locator("#ranking .list a").first.click()
    page.wait_for_selector("#operator.current .list a")
    model = page.locator("#operator .list a").first.text_content()
    assert operator and model
    names = {"operator": operator, "model": model}
    return {kind: page.evaluate("encodeURIComponent", name) for kind, name in names.items()}


def everywhere(page: Page) -> Iterator[str]:
    """Each view, shown."""
    names = first_names(page)
    for view in VIEWS:
        page.evaluate("view => { location.hash = view; }", view.format(**names))
        page.wait_for_selector(f"#{view.partition('/')[0]}.current", state="attached")
        drawn(page)
        yield view


def test_nothing_bars_a_reader(browser: Browser, small: Path, wide: Path, hostile: Path) -> None:
    found = []
    for name, path in (("small", small), ("wide", wide), ("hostile", hostile)):
        with opened(browser, path) as page:
            page.evaluate(AXE_SCRIPT)
            for view in everywhere(page):
                for width, colours in ((1280, "light"), (360, "dark")):
                    page.set_viewport_size({"width": width, "height": 800})
                    page.emulate_media(color_scheme=colours)  # type: ignore[arg-type]
                    if name != "wide" or view != "map":  # axe takes a minute for 600 rows, which are like few
                        found += [f"{name}, {view}, {width}: {one}" for one in page.evaluate(AXE)]
                    found += [f"{name}, {view}, {width}: wider than the window"] if page.evaluate(WIDER) else []
    assert not found, "\n".join(found)


def test_all_is_on_paper(browser: Browser, small: Path, wide: Path) -> None:
    found = []
    for path in (small, wide):
        with opened(browser, path, width=PAPER) as page:
            for view in everywhere(page):
                page.emulate_media(media="print", color_scheme="dark")
                found += [f"{view}: wider than the paper"] if page.evaluate(WIDER) else []
                shown = page.evaluate(SHOWN, "nav a, .choices select, .acts button")
                found += [f"{view}: useless on paper"] if shown else []
                ink = page.evaluate("Math.max(...getComputedStyle(document.body).color.match(/\\d+/g))")
                found += [f"{view}: light ink"] if ink > 100 else []
                page.emulate_media(media="screen")
    assert not found, "\n".join(found)


def test_every_control_is_reached_by_keyboard(browser: Browser, small: Path) -> None:
    found = []
    with opened(browser, small) as page:
        page.evaluate(LISTEN)
        for view in everywhere(page):
            for _ in range(page.evaluate(f"controls => ({SHOWN})(controls).length", CONTROLS) + 2):
                page.keyboard.press("Tab")
            found += [f"{view}: {one}" for one in page.evaluate(MISSED, CONTROLS)]
    assert not found, "\n".join(found)


def test_from_a_search_to_a_model_and_its_operator_without_a_mouse(browser: Browser, small: Path) -> None:
    with opened(browser, small, "releases") as page:
        page.keyboard.press("/")
        page.wait_for_selector("#search:focus")
        page.keyboard.type("wav2 ctc")
        assert page.locator("#models tbody tr").count() == 1
        page.locator("#release").press("End")
        page.locator("#setting").press("End")
        assert page.evaluate("decodeURI(location.hash)") == "#models?torch=2.0.1&phase=training"
        assert page.locator("#models tbody tr .tag").text_content() == "missing"
        page.locator("#models tbody a").press("Enter")
        page.wait_for_selector("#model.current .entries")
        assert "aten::_ctc_loss" in (page.locator("#model").text_content() or "")
        page.locator("#machine").select_option(label="M1, 8 GB")
        page.wait_for_selector("#model.current .entries")
        assert "fits" in (page.locator("#model .facts").first.text_content() or "")
        page.locator("#model .entries a").first.press("Enter")
        page.wait_for_selector("#operator.current pre")
        text = page.locator("#operator").text_content() or ""
        assert "missing, 1 architecture" in text and "hf:wav2vec2/Wav2Vec2ForCTC" in text and "141287" in text
        page.go_back()
        page.wait_for_selector("#model.current .entries")


def test_texts_are_copied_and_saved(browser: Browser, small: Path) -> None:
    with opened(browser, small, "operator/aten%3A%3A_ctc_loss") as page:
        page.evaluate(
            "window.taken = new Promise(done => { navigator.clipboard.writeText = async text => done(text); }), 0"
        )
        page.locator(".takeaway button").first.press("Enter")
        assert page.evaluate("window.taken") == page.locator(".takeaway pre").first.text_content()
        with page.expect_download() as download:
            page.locator(".takeaway a").last.click()
        assert download.value.suggested_filename == "samples__ctc_loss.py"
        saved = Path(download.value.path()).read_text(encoding="utf-8")
        assert saved == page.locator(".takeaway pre").last.text_content()


def test_the_map_shows_the_newest_release_first(browser: Browser, wide: Path) -> None:
    with opened(browser, wide, "map") as page:
        heads = page.locator("#map thead th").all_text_contents()
        assert heads[0] == "Model" and heads[1].endswith("2.23.0") and heads[-1].startswith("1.12.0")
        assert page.locator("#map tbody tr").count() > 590
        page.locator("#map input").press_sequentially("qwen")
        assert 5 < page.locator("#map tbody tr").count() < 590


def test_a_missing_file_is_said(browser: Browser, small: Path, tmp_path: Path) -> None:
    shutil.copytree(small.parent, tmp_path / "site")
    (tmp_path / "site" / "data" / "models-0.js").unlink()
    page = browser.new_page()
    page.goto((tmp_path / "site" / "index.html").as_uri() + "#model/hf%3Abert")
    page.wait_for_selector("#model .nothing")
    assert "missing or damaged" in (page.locator("#model .nothing").text_content() or "")
    page.close()
