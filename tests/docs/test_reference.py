"""The reference lacks no command, flag, variable, exit code or code of a finding."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from _site.commands import context_of, options_of, paths, setting, variable

from mpsprobe import errors
from mpsprobe.cli import main
from mpsprobe_coverage.commands.options import FAILING
from mpsprobe_devkit.checking.codes import CODES
from tests.docs.pages import DOCS
from tests.house.tree import PLUGINS, ROOT, python_files

REFERENCE = DOCS / "reference"
COMMANDS = [path for path in paths() if path]
VARIABLE = re.compile(r"\"(_?MPSPROBE_[A-Z_]+)\"")
TAG = re.compile(r"<[^>]+>")


def _text(page: Path) -> str:
    """What a reader sees of a page of the site, in one line."""
    return " ".join(html.unescape(TAG.sub(" ", page.read_text(encoding="utf-8"))).split())


def test_every_command_has_a_page() -> None:
    pages = {path.stem for path in (REFERENCE / "commands").glob("*.md")}
    assert pages == {path[0] for path in COMMANDS}
    for name in pages:
        page = (REFERENCE / "commands" / f"{name}.md").read_text(encoding="utf-8")
        assert page == f"# mpsprobe {name}\n\n```{{command}} {name}\n```\n"


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_flag_stands_on_the_page_of_its_command(path: tuple[str, ...], site: Path) -> None:
    page = _text(site / "reference" / "commands" / f"{path[0]}.html")
    assert f"mpsprobe {' '.join(path)} --help" in page
    for option in options_of(path):
        for word in (*option.opts, variable(option), setting(path, option)):
            assert word in page


def test_a_group_stands_before_the_commands_in_it(site: Path) -> None:
    for path in COMMANDS:
        if len(path) > 1:
            page = _text(site / "reference" / "commands" / f"{path[0]}.html")
            assert page.index(f"$ mpsprobe {path[0]} --help") < page.index(f"$ mpsprobe {' '.join(path)} --help")


def test_every_command_stands_in_the_list(site: Path) -> None:
    page = _text(site / "reference" / "commands.html")
    for path in COMMANDS:
        assert f"{' '.join(path)} {context_of(path).command.get_short_help_str(200)}" in page


def test_every_variable_of_the_program_is_told() -> None:
    sources = [ROOT / "mpsprobe", *(plugin / "src" for plugin in PLUGINS)]
    texts = [path.read_text(encoding="utf-8") for folder in sources for path in python_files(folder)]
    used = {name for text in texts for name in VARIABLE.findall(text)}
    page = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(_?MPSPROBE_[A-Z_]+)`", page, flags=re.MULTILINE))
    assert len(used) >= 4
    assert used <= documented | {variable(option) for path in paths() for option in options_of(path)}


def test_every_variable_of_a_flag_is_told(site: Path) -> None:
    page = _text(site / "reference" / "settings.html")
    assert all(variable(option) in page for path in paths() for option in options_of(path))


def test_every_exit_code_is_told() -> None:
    page = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", page, flags=re.MULTILINE)}
    tree = [
        error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.MpsprobeError)
    ]
    signals = {main.INTERRUPTED, main.TERMINATED, main.READER_GONE}
    assert documented == {0, 1, main.FAILED, *signals, *(error.exit_code for error in tree)}


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
