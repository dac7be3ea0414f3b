"""What a name or path stands for: folders, single files, wheels, what is installed; and the folder's own tests."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from made_projects import COMMAND, HEAD, TOML, make_project

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe_devkit.checking import check_plugin
from mpsprobe_devkit.checking.examination import examine
from mpsprobe_devkit.checking.public import is_public
from mpsprobe_devkit.checking.subject import found_subject
from mpsprobe_devkit.testing import install_plugin

HELLO = HEAD + COMMAND.replace("under_test.command", "under_test_file") + "\nimport click\n\n@click.command()\n"
HELLO += "def hello(): ...\n"


def _codes(target: str | Path) -> set[str]:
    found = check_plugin(target)
    assert all(text.isprintable() and len(text) <= 1000 for one in found for text in (one.message, one.where))
    return {one.code for one in found}


def test_a_folder_that_is_a_project_comes_before_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kind(target: str) -> str:
        with found_subject(target) as subject:
            return subject.kind

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mpsprobe-exporters").mkdir()
    assert kind("mpsprobe-exporters") == "installed"
    (tmp_path / "mpsprobe-exporters" / "pyproject.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(TOML, encoding="utf-8")
    assert [kind(one) for one in ("mpsprobe-exporters", "./mpsprobe-exporters", ".")] == ["folder"] * 3


def test_what_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "x.txt").touch()
    (tmp_path / "badge.py").touch()
    for target in ("", " ", "\0", "./nowhere", "nowhere.whl", "a" * 5000 + "/", tmp_path, tmp_path / "x.txt"):
        with pytest.raises(UsageError) as caught:
            check_plugin(target)
    with pytest.raises(UsageError, match="No such file") as caught:
        check_plugin(tmp_path / "bagde.py")
    assert "badge.py" in (caught.value.hint or "")
    with pytest.raises(UnknownName, match="did you mean 'mpsprobe-exporters'"):
        check_plugin("mpsprobe-exporter")


HOSTILE = (
    *(
        b"\xff\x00\xfe" * 100,
        b"",
        b"#" * 10_000_000,
        b"a = " + b"[" * 20_000,
        b'project = "x"',
        b"[project]\nname = 3\n",
    ),
    b'[project]\nversion = "1"\n[project.entry-points.mpsprobe]\nx = "json"\n',
    b'[project]\nname = "x"\nversion = "1"\nentry-points = []\ndependencies = {}\n',
    b'[project]\nname = "x"\nversion = "1"\n[project.entry-points]\nmpsprobe = ["x"]\n',
    *(b'[tool.poetry]\nname = "x"\n', b'tool = "x"\n[project]\nversion = "1"\n'),
    b'[project]\nname = "\\u001b[31mred\\n<b>"\n[project.entry-points.mpsprobe]\n"a b\\u001b" = "../../etc/passwd"\n',
)


def test_a_hostile_project_is_a_finding(tmp_path: Path) -> None:
    for content in HOSTILE:
        (tmp_path / "pyproject.toml").write_bytes(content)
        assert "bad-package" in _codes(tmp_path), content[:50]


@pytest.mark.parametrize("source", [".", "lib", "python/code"])
def test_the_package_is_found_where_builds_find_it(tmp_path: Path, source: str) -> None:
    project = make_project(tmp_path, source=source, toml=TOML + 'two = "under_test.second"\n')
    examined = examine(project)
    assert examined.contributes == {"command": ["hello-under-test"]}
    assert [one.message for one in examined.findings] == [  # the second entry point is looked at too
        "its import failed: ModuleNotFoundError: No module named 'under_test.second'"
    ]


def _wheel(folder: Path, *, without: str = "", **members: str) -> Path:
    package = make_project(folder) / "src" / "under_test"
    path, info = folder / "under_test-1.0-py3-none-any.whl", "under_test-1.0.dist-info"
    metadata = "Metadata-Version: 2.4\nName: under-test\nVersion: 1.0\nRequires-Dist: mpsprobe>=0.1\n"
    files = {file.name: file.read_text("utf-8") for file in package.iterdir() if file.name != without}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"under_test/{name}", text)
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/entry_points.txt", "[mpsprobe]\nmine = under_test.plugin\n")
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_a_wheel(tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    examined = examine(_wheel(tmp_path / "sound"))
    assert (examined.findings, examined.contributes) == ([], {"command": ["hello-under-test"]})
    assert (examined.kind, examined.version) == ("wheel", "1.0")
    for forgotten, code in (("command.py", "bad-target"), ("plugin.py", "left-out")):
        (tmp_path / forgotten).mkdir()
        [found] = check_plugin(_wheel(tmp_path / forgotten, without=forgotten))
        assert found.code == code and f"under_test.{forgotten[:-3]}" in found.message
    (tmp_path / "two").mkdir()
    assert _codes(_wheel(tmp_path / "two", **{"other-1.0.dist-info/METADATA": "", "../../out.py": ""})) == {
        "bad-package"
    }
    assert not list(tmp_path.parent.glob("out.py"))
    for content in (b"", b"PK\x03\x04 and nothing", b"\0" * 5000):
        (tmp_path / "x-1-py3-none-any.whl").write_bytes(content)
        assert _codes(tmp_path / "x-1-py3-none-any.whl") == {"bad-package"}


def test_what_is_installed(plugin_folder: Path) -> None:
    install_plugin(plugin_folder, "under_test-it", HEAD + "@hookimpl\ndef mpsprobe_probe(): return []\n")
    for name in ("under_test-it", "Under-Test.it"):
        found = check_plugin(name)
        assert [one.code for one in found] == ["missing-metadata", "left-out"]
        assert found[-1].where == "under_test_it_plugin.py:4"
    assert _codes("pluggy") == {"bad-package"}
    examined = examine("core")
    assert examined.findings == [] and "plugins" in examined.contributes["command"]


def test_a_single_file(tmp_path: Path) -> None:
    def written(text: str, name: str = "under_test_file.py") -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    examined = examine(written(HELLO))
    assert (examined.findings, examined.contributes) == ([], {"command": ["hello-under-test"]})
    assert not (tmp_path / "__pycache__").exists()
    [found] = check_plugin(written(HELLO.replace(":hello", ":hallo")))
    assert (found.code, found.where) == ("bad-target", "under_test_file.py:5") and "There is hello" in found.hint
    for block in (
        '# /// script\n# dependencies = ["mpsprobe>=99"]\n# ///\n',
        "# /// script\n# dependencies = [\n# ///\n",
        '# /// script\n# dependencies = ["no-such-0b7e"]\n# ///\n',
    ):
        assert "left-out" in _codes(written(block + HELLO))
    assert "left-out" in _codes(written("x = 1\n", "json.py"))  # it hides a module
    assert _codes(written("x = 1\n", "_private.py")) == {"bad-package"}


INSTALLED = """
from mpsprobe.plugins.discovery import find_plugins
from mpsprobe_devkit.testing import run_cli

def test_it_is_found_here() -> None:
    assert "under-test" in {one.distribution for one in find_plugins()}

def test_it_is_found_by_the_command() -> None:
    result = run_cli("hello-under-test")
    assert result.stdout == "hello\\n", result.stderr
"""


@pytest.mark.slow
def test_its_own_tests_run_as_though_it_were_installed(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (project / "tests").mkdir()
    for text, code, says in (
        ("", "no-tests", "no tests"),
        (
            "def test_a():\n    assert 1 == 2, 'not so'\ndef test_b(): ...\n",
            "tests-failed",
            "test_it.py::test_a - Assert",
        ),
        ("import no_such_0b7e\n", "tests-failed", "tests/test_it.py"),
    ):
        (project / "tests" / "test_it.py").write_text(text, encoding="utf-8")
        [found] = check_plugin(project, run_tests=True, contracts=False)
        assert found.code == code and says in found.message
    (project / "tests" / "test_it.py").write_text(INSTALLED, encoding="utf-8")
    examined = examine(project, run_tests=True)
    assert examined.findings == [] and str(examined.tests).startswith("2 passed in ")
    assert not list(project.rglob("__pycache__")) and not (project / ".pytest_cache").exists()
    with pytest.raises(UsageError, match="no tests to run"):
        check_plugin("mpsprobe-exporters", run_tests=True)


def test_what_is_public() -> None:
    assert is_public("mpsprobe") and is_public("mpsprobe.schemas.profile")
    assert not any(map(is_public, ("mpsprobe.cli.main", "mpsprobe.schemas._secret", "mpsprobes")))
