"""The reference lacks nothing that there is, and its schemas are the models; the site builds, and its links work."""

from __future__ import annotations

import ast
import html
import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from _site.commands import context_of, options_of, paths, setting, variable
from _site.gallery import DATA, names, rendered
from _site.public import Name, attribute_docstrings, below, entries, members_of, modules_of, names_of
from _site.schemas import files, json_schema, meanings, models_of, unit, views
from jsonschema import Draft202012Validator
from pydantic import BaseModel
from sphinx.util.inventory import InventoryFile

from mpsprobe import errors
from mpsprobe.cli import main
from mpsprobe.schemas import ProfileReport, read_report
from mpsprobe.schemas.report import KINDS
from mpsprobe.views import MODELS_FILE
from mpsprobe_coverage.commands.options import FAILING
from mpsprobe_devkit.checking.codes import CODES
from mpsprobe_devkit.checking.public import PUBLIC_PARTS
from mpsprobe_devkit.testing import sample_reports
from tests.docs.pages import DOCS, EVERY, FENCED, OWN
from tests.house.tree import PLUGINS, ROOT, python_files, shown

REFERENCE = DOCS / "reference"
COMMANDS = [path for path in paths() if path]
VARIABLE = re.compile(r"\"(_?MPSPROBE_[A-Z_]+)\"")
TAG = re.compile(r"<[^>]+>")
PUBLISHED = DOCS / "schemas"
AGAIN = "write them again: python docs/_site/schemas.py docs/schemas"
SCHEMAS = sorted(f"mpsprobe.schemas.{path.stem}" for path in (ROOT / "mpsprobe" / "schemas").glob("[a-z]*.py"))
PUBLIC = ["mpsprobe_devkit.testing", *(f"mpsprobe.{part}".rstrip(".") for part in PUBLIC_PARTS)]
MODULES = sorted({name for part in PUBLIC for name in modules_of(part)} | {*SCHEMAS})


NAMES = {
    f"{module}.{public}": name
    for module in MODULES
    for public, name in names_of(importlib.import_module(module)).items()
}
"""Every public name, by the way in which a program writes it."""


def _text(page: Path) -> str:
    """What a reader sees of a page of the site, in one line."""
    return " ".join(html.unescape(TAG.sub(" ", page.read_text(encoding="utf-8"))).split())


def test_every_command_has_a_page() -> None:
    pages = {path.stem for path in (REFERENCE / "commands").glob("*.md")}
    assert pages == {path[0] for path in COMMANDS}
    for name in pages:
        page = (REFERENCE / "commands" / f"{name}.md").read_text(encoding="utf-8")
        assert page == f"# mpsprobe {name}\n\n```{{command}} {name}\n```\n"


def test_every_command_stands_in_the_list_and_with_its_flags_on_its_page(site: Path) -> None:
    missing = []
    listed = _text(site / "reference" / "commands.html")
    settings = _text(site / "reference" / "settings.html")
    for path in COMMANDS:
        name, short = " ".join(path), context_of(path).command.get_short_help_str(200)
        page = _text(site / "reference" / "commands" / f"{path[0]}.html")
        missing += [f"{name} in the list"] if f"{name} {short}" not in listed else []
        group, own = (page.index(f"$ mpsprobe {one} --help") for one in (path[0], name))
        assert group <= own
        for option in options_of(path):
            words = (*option.opts, variable(option), setting(path, option))
            missing += [f"{name}: {word}" for word in words if word not in page]
    missing += [name for path in paths() for option in options_of(path) if (name := variable(option)) not in settings]
    assert not missing


def test_every_variable_of_the_program_is_told() -> None:
    sources = [ROOT / "mpsprobe", *(plugin / "src" for plugin in PLUGINS)]
    texts = [path.read_text(encoding="utf-8") for folder in sources for path in python_files(folder)]
    used = {name for text in texts for name in VARIABLE.findall(text)}
    page = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(_?MPSPROBE_[A-Z_]+)`", page, flags=re.MULTILINE))
    assert len(used) >= 4
    assert used <= documented | {variable(option) for path in paths() for option in options_of(path)}


def test_every_exit_code_is_told() -> None:
    page = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", page, flags=re.MULTILINE)}
    tree = {error.exit_code for error in vars(errors).values() if hasattr(error, "exit_code")}
    assert documented == {0, 1, main.FAILED, main.INTERRUPTED, main.TERMINATED, main.READER_GONE} | tree


def test_every_word_of_fail_on_is_told() -> None:
    page = (REFERENCE / "findings.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z]+)` \|", page, flags=re.MULTILINE)) == set(FAILING)


def test_every_code_of_the_check_is_told_with_what_to_do(site: Path) -> None:
    page = _text(site / "reference" / "findings.html")
    assert len(CODES) > 10
    for name, code in CODES.items():
        assert f"{name} ( {code.level} )" in page or f"{name} ({code.level})" in page
        first = code.what_to_do.split("`")[0].split("'")[0].split("<")[0].split('"')[0].strip()
        assert first in page


def test_every_module_and_every_public_name_says_what_it_is() -> None:
    assert not [module for module in MODULES if not importlib.import_module(module).__doc__]
    assert not [one for full, name in NAMES.items() for one in _silent(full, name)]


def _silent(full: str, name: Name) -> list[str]:
    """What has no word about it, of ``name`` and its members."""
    if not isinstance(name.node, ast.ClassDef):
        is_function = isinstance(name.node, (ast.FunctionDef, ast.AsyncFunctionDef))
        word = ast.get_docstring(name.node) if is_function else below(name.module).get(name.name)  # type: ignore[arg-type]
        return [] if word else [full]
    silent = [] if ast.get_docstring(name.node) else [full]
    said = set(entries(name.value.__doc__)) | set(attribute_docstrings(name.node.body))
    said |= set(meanings(name.value)) if issubclass(name.value, BaseModel) else set()
    inherited = {one for parent in name.value.__mro__[1:] for one in (*vars(parent), *inspect.get_annotations(parent))}
    for member, is_field in members_of(name.node):
        if not (member in said | inherited if is_field else vars(name.value)[member].__doc__):
            silent.append(f"{full}.{member}")
    return silent


def test_a_docstring_names_only_what_is_there() -> None:
    for full, name in NAMES.items():
        thing = name.value
        said = set(entries(thing.__doc__)) if callable(thing) else set()
        if said:
            known = {*inspect.signature(thing).parameters, *getattr(thing, "model_fields", ()), *dir(thing)}
            known |= {one for parent in getattr(thing, "__mro__", ()) for one in inspect.get_annotations(parent)}
            known |= set(inspect.signature(thing.__init__).parameters) if inspect.isclass(thing) else set()
            assert said <= known, full


def test_every_public_name_stands_in_the_reference(site: Path) -> None:
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    shown = {name for kind, found in inventory.data.items() if kind.startswith("py:") for name in found}
    missing = []
    for full, name in NAMES.items():
        names = {full, f"{name.module.__name__}.{name.name}"}  # a page shows it under either
        missing += [full] if names.isdisjoint(shown) else []
        if isinstance(name.node, ast.ClassDef) and not issubclass(name.value, BaseModel):
            methods = [member for member, is_field in members_of(name.node) if not is_field]
            missing += [f"{full}.{one}" for one in methods if {f"{way}.{one}" for way in names}.isdisjoint(shown)]
    assert len(NAMES) > 150
    assert not missing


def test_what_is_published_is_what_the_models_say() -> None:
    assert {path.name for path in PUBLISHED.iterdir()} == set(files()), AGAIN
    for name, text in files().items():
        assert (PUBLISHED / name).read_text(encoding="utf-8") == text, AGAIN
    assert Path(MODELS_FILE).read_text(encoding="utf-8") == views(), AGAIN


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_describes_every_field_and_takes_reports_that_are_not_damaged(kind: str) -> None:
    schema, fields = json_schema(KINDS[kind], kind), KINDS[kind].model_fields
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:mpsprobe:report:{kind}:{fields['schema_version'].default}"
    for part in (schema, *schema.get("$defs", {}).values()):
        assert part["description"]
        assert not [name for name, field in part["properties"].items() if not field.get("description")]
    validator = Draft202012Validator(schema)
    report: dict[str, Any] = json.loads(sample_reports()[kind].model_dump_json())
    validator.validate(report)
    validator.validate({**report, "a_key_of_tomorrow": 1})
    assert list(validator.iter_errors({**report, "kind": "something else"}))
    required = next(name for name, field in fields.items() if field.is_required())
    assert list(validator.iter_errors({key: value for key, value in report.items() if key != required}))


def test_a_unit_is_told_from_the_name_of_a_quantity() -> None:
    profile = {model.__name__: model for model in models_of("profile")}
    fields = {name: profile["MemoryUse"].model_fields[name] for name in ("peak_allocated_bytes", "caveats")}
    assert [unit(name, field) for name, field in fields.items()] == ["bytes", ""]
    assert unit("duration_ns", profile["StepSample"].model_fields["duration_ns"]) == "nanoseconds"
    assert meanings(profile["StepSample"])["duration_ns"] == "From synchronised to synchronised."


FETCHED = re.compile(r"\s(?:src|srcset|poster|data|background|action|formaction)=['\"]?\s*((?:\w+:)?//[^'\"\s>]+)")
LINKED = re.compile(r"<link\b(?![^>]*\brel=['\"]?(?:canonical|author))[^>]*\shref=['\"]?\s*((?:\w+:)?//[^'\"\s>]+)")
STYLES = re.compile(r"(?:@import\s+|url\(\s*)['\"]?\s*((?:https?:)?//[^'\")\s]+)")
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]*)(#[^)\s]*)?\)")
GALLERY = sorted((DOCS / "gallery" / "reports").glob("*.md"))
MOST_BYTES = 1_000_000


def _external(text: str) -> list[str]:
    """Addresses that a browser fetches by itself; what a reader may click on is none."""
    return [address for expression in (FETCHED, LINKED, STYLES) for address in expression.findall(text)]


def test_every_page_is_in_the_site(site: Path) -> None:
    assert not [page for page in OWN if not (site / page.relative_to(DOCS)).with_suffix(".html").is_file()]
    front = (site / "index.html").read_text(encoding="utf-8")
    sections = [page.relative_to(DOCS).with_suffix(".html").as_posix() for page in OWN if page.parent.parent == DOCS]
    assert not [address for address in sections if address not in front]


def test_nothing_is_fetched_from_elsewhere_and_no_word_of_the_markup_is_left_over(site: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(site.rglob("*.html"))}
    assert len(pages) > len(OWN)
    assert not {page: found for page, text in pages.items() if (found := _external(text))}
    assert not [page for page, text in pages.items() if re.search(r"\{(py:)?(class|doc|ref)\}`", text)]
    styles = {sheet: STYLES.findall(sheet.read_text(encoding="utf-8")) for sheet in site.rglob("*.css")}
    assert styles and not {sheet: found for sheet, found in styles.items() if found}


def test_what_is_fetched_from_elsewhere_is_noticed() -> None:
    assert _external('<script src="https://cdn.example/x.js"></script>') == ["https://cdn.example/x.js"]
    assert _external('<link rel="stylesheet" href="//fonts.example/x.css">') == ["//fonts.example/x.css"]
    assert _external('<a href="https://e.example"><img alt="" src=//i.example/x.png>') == ["//i.example/x.png"]
    assert _external("<style>@import url(https://fonts.example/x.css)</style>") == ["https://fonts.example/x.css"]
    assert not _external('<a href="https://example.org">a link</a><img src="x.png">')


def _links(page: Path) -> list[tuple[str, str]]:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return [(target, anchor) for target, anchor in LINK.findall(text) if "://" not in target]


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for page in EVERY:
        for target, anchor in _links(page):
            path = (page.parent / target).resolve() if target else page
            assert path.exists(), f"{shown(page)}: {target}"
            if anchor and path.suffix == ".md":
                assert anchor in _anchors(path), f"{shown(page)}: {target}{anchor}"


def test_every_page_can_be_reached_from_the_front_by_links() -> None:
    """On the site the contents at the side lead everywhere; where the code is there are only links."""
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        one = waiting.pop()
        if one not in reached and one.is_file() and one.suffix == ".md" and one.is_relative_to(DOCS):
            reached.add(one)
            waiting += [(one.parent / target).resolve() for target, _ in _links(one) if target]
    assert not [shown(page) for page in OWN if page not in reached]


def test_every_kind_of_report_is_in_the_gallery_and_all_of_them_are_small() -> None:
    assert {read_report(DATA / f"{name}.json").kind for name in names()} == set(KINDS)
    assert sum(path.stat().st_size for path in DATA.iterdir()) < MOST_BYTES


def test_a_report_of_the_gallery_is_shown_in_a_terminal_and_as_a_page(site: Path) -> None:
    drawn = {tuple(one.split()) for page in GALLERY for one in re.findall(r"\{report\} (.+)", page.read_text("utf-8"))}
    assert {(name, form) for name in names() for form in ("table", "html")} <= drawn
    pages = {name: (site / "gallery" / "pages" / f"{name}.html").read_text(encoding="utf-8") for name in names()}
    assert not [name for name, text in pages.items() if text != rendered(name, "html")]
    for page in (site / "gallery" / "reports").glob("*.html"):
        for address in re.findall(r'<iframe[^>]* src="([^"#]+)', page.read_text(encoding="utf-8")):
            assert (page.parent / address).is_file()


def test_nothing_in_the_gallery_was_measured_on_a_mac_and_its_pages_say_so() -> None:
    profiles = [one for name in names() if isinstance(one := read_report(DATA / f"{name}.json"), ProfileReport)]
    assert profiles
    for one in profiles:
        assert {device.type for device in one.devices} == {"cpu"}
        assert one.environment is not None and one.environment.platform.startswith("linux")
    for page in GALLERY:
        assert re.search(r"on Linux|Linux machine|on a CPU", page.read_text(encoding="utf-8")), page
