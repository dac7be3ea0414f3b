"""What ``plugins new`` writes: names that can be, Python that ruff has nothing to say about, plugins that work."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.requirements import Requirement

import mpsprobe
from mpsprobe.errors import UsageError
from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe.plugins.registry import Registry
from mpsprobe_devkit.scaffold.names import LONGEST, PREFIX, author_from_git, names_of
from mpsprobe_devkit.scaffold.rendering import KINDS, render
from mpsprobe_devkit.testing import run_cli
from tests.thorough import all_but

ALL = tuple(KINDS)
LONG = ("z" * (LONGEST // 2) + "-" + "y" * LONGEST)[:LONGEST]
REFUSED = {
    "cannot be the name": (
        *(
            "",
            "   ",
            "a" * 300,
            "../thing",
            "/absolute",
            "C:\\thing",
            "..",
            "my thing",
            "my\nthing",
            "<script>",
            'my"thing',
        ),
        *("\x1b[31mthing", "3d", "-thing", "my-thing-", "my--thing", "My_Thing", "my.thing", "\udcff", "mpsprobe"),
        *("b\N{CYRILLIC SMALL LETTER A}dge", "thing\N{ZERO WIDTH SPACE}"),
    ),
    "keyword": ("class",),
    "module of Python itself": ("json",),
    "means something else": ("tests", "nul", "com1"),
    "mpsprobe itself uses": ("mpsprobe-coverage", "pydantic"),
    "installed already": ("pip", "torch"),
    "imported already": ("markdown-it",),
}


def test_a_name_gives_the_package_and_the_short_name() -> None:
    for name in ("my-thing", "mpsprobe-my-thing", "x", "mpsprobe-3d", "a" * LONGEST, "match"):
        names = names_of(name)
        assert (names.distribution, names.package) == (name, name.replace("-", "_"))
        assert names.short == name.removeprefix(PREFIX) and names.package.isidentifier()


def test_other_names_are_refused_with_a_reason_and_a_name_that_works() -> None:
    for says, names in REFUSED.items():
        for name in names:
            with pytest.raises(UsageError, match=says) as caught:
                names_of(name)
            assert str(caught.value).isprintable() or "\n" in str(caught.value)
            proposed = re.findall(r"'([^']+)'", (caught.value.hint or "").partition("with a letter")[0])
            assert [names_of(one).distribution for one in proposed if len(one) > 1] == [
                o for o in proposed if len(o) > 1
            ]
    with pytest.raises(UsageError) as caught:
        names_of("My_Thing")
    assert caught.value.hint == "Call it 'my-thing'."


@given(st.text(max_size=LONGEST + 5))
@example("mpsprobe-")
@example("mpsprobe-.-")
def test_whatever_is_typed_is_a_name_or_refused(name: str) -> None:
    try:
        names = names_of(name)
    except UsageError as error:
        assert error.hint
        return
    assert names.package.isidentifier() and re.fullmatch(r"[a-z0-9][a-z0-9-]*", names.short)


def test_the_author_is_whom_git_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "gitconfig"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.chdir(tmp_path)
    for content, expected in (
        (b"", {}),
        (
            b"[user]\nname = Ada Lovelace\nemail = ada@engine.example\n",
            {"name": "Ada Lovelace", "email": "ada@engine.example"},
        ),
        (b'[user]\nname = "A \\"b\\"\x1b[31m"\nemail = not an address <x@y>\n', {"name": 'A "b"[31m'}),
        (b"[user\n\xff\x00", {}),
    ):
        config.write_bytes(content)
        assert author_from_git() == expected
    monkeypatch.setenv("PATH", str(tmp_path))
    assert author_from_git() == {}


def _write(folder: Path, name: str, kinds: tuple[str, ...]) -> Path:
    for path, text in render(names_of(name), [KINDS[one] for one in kinds], {}).items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("kinds", [*((one,) for one in ALL), ALL], ids="+".join)
def test_a_package_has_everything(kinds: tuple[str, ...]) -> None:
    author = {"name": 'Ada "A"', "email": "ada@engine.example"}
    files = render(names_of("mpsprobe-my-thing"), [KINDS[one] for one in kinds], author)
    wanted = {".github/workflows/ci.yml", ".gitignore", "README.md", "pyproject.toml"}
    wanted |= {f"src/mpsprobe_my_thing/{name}" for name in ("__init__.py", "plugin.py", "py.typed")}
    wanted |= {f"src/mpsprobe_my_thing/{kind}.py" for kind in kinds} | {f"tests/test_{kind}.py" for kind in kinds}
    assert set(files) == wanted | ({"tests/train.txt"} if "scanner" in kinds else set())
    for path, text in files.items():
        assert text == "" or (text.endswith("\n") and not text.endswith("\n\n") and "%%" not in text), path
    project = tomllib.loads(files["pyproject.toml"])["project"]
    needed = {Requirement(one).name: Requirement(one) for one in project["dependencies"]}
    assert needed["mpsprobe"].specifier.contains(mpsprobe.__version__, prereleases=True)
    assert ("torch" in needed) == bool({"workload", "device"} & set(kinds))
    assert project["entry-points"]["mpsprobe"] == {"my-thing": "mpsprobe_my_thing.plugin"}
    assert project["authors"] == [author]


def test_ruff_has_nothing_to_say_whatever_the_name(tmp_path: Path) -> None:
    folders = [_write(tmp_path, name, ALL) for name in ("a", "mpsprobe-my-thing", LONG)]
    folders += [_write(tmp_path, f"two-{a}-{b}", (a, b)) for a, b in itertools.combinations(ALL, 2)]
    for arguments in (["check", "--no-cache", "--quiet"], ["format", "--no-cache", "--diff", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *arguments, *folders]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_what_a_scanner_reads_is_a_name_of_its_own(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(_write(plugin_folder, "rendered-log", ("scanner",)) / "src"))
    registry = Registry([FoundPlugin("rendered-log", "rendered-log", "0.1.0", "rendered_log.plugin")], strict=True)
    assert registry.scanner_for(registry.workload("rendered-log:train.log").framework) is not None


@pytest.mark.slow
@pytest.mark.parametrize("kind", all_but("command".__eq__, ALL))
def test_what_is_written_passes_its_own_tests_and_the_check(kind: str, tmp_path: Path) -> None:
    written = run_cli("plugins", "new", f"fresh-{kind}", "--kind", kind, cwd=tmp_path, process=False)
    line = next(line for line in written.stdout.splitlines() if line.startswith("  mpsprobe plugins check"))
    checked = run_cli(*line.split()[1:], "--format", "json", cwd=tmp_path, process=False).json()
    assert [(one["code"], one["message"]) for one in checked["findings"]] == [("missing-metadata", "it lacks license")]
    assert checked["contributes"] == {kind: [f"fresh-{kind}"]}
