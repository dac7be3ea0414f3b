"""Models from a user's own file: found, run, and reported when they fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun, Workload
from mpsprobe.userfile import declare, load, split
from mpsprobe_devkit.testing import run_cli

GOOD = '''
class Model:
    """As much of a module as is asked for."""
    training = None
    def train(self, mode): self.training = mode
    def named_parameters(self): return []
    def half(self): self.halved = True; return self
    def __call__(self, x): return x

def plain():
    """A model with one input."""
    return Model(), [1, 2]

def with_options(batch_size=3, *, seq_len=None, phase="?", dtype="?"):
    return Model(), {"x": (batch_size, seq_len, phase, dtype)}

def required(batch_size):
    return Model(), {"x": batch_size}

def unknown(batch_size, path, *more, **options):
    return Model(), {"x": path}

def anything(**options):
    return Model(), options

def returns_nothing():
    pass

def returns_three():
    return Model(), 1, 2

def fails():
    return inner()

def inner():
    raise RuntimeError("no such weights\\n\\x1b[31m")

def leaves():
    raise SystemExit(3)
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my model.py"
    path.write_text(GOOD, encoding="utf-8")
    return path


def build(file: Path, function: str, **options: object) -> TorchRun:
    return load(f"{file}:{function}").build(RunOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b.py:make", ("a/b.py", "make")),
        (r"C:\x\file.py:function", (r"C:\x\file.py", "function")),
        (r"C:\x\file.py", (r"C:\x\file.py", "")),
        ("FILE.PY:make", ("FILE.PY", "make")),
        ("b.py:", ("b.py", "")),
        ("bert-base", None),
        ("hf:bert", None),
        ("org/model.py-thing", None),
        ("", None),
        (":", None),
    ],
)
def test_split(name: str, expected: tuple[str, str] | None) -> None:
    found = split(name)
    assert (found and (str(found[0]), found[1])) == expected


def test_declaration_says_where_it_is(file: Path) -> None:
    declaration = declare(f"{file}:plain")
    assert declaration is not None
    assert declaration.target == "mpsprobe.userfile:load"
    assert "plain()" in declaration.summary
    assert declare("bert-base") is None


def test_load_is_a_workload(file: Path) -> None:
    assert isinstance(load(f"{file}:plain"), Workload)


def test_missing_file_names_the_nearest(file: Path) -> None:
    with pytest.raises(WorkloadError, match="there is no file") as caught:
        declare(f"{file.parent / 'my_model.py'}:plain")
    assert "my model.py" in str(caught.value.hint)
    with pytest.raises(WorkloadError) as caught:
        declare(str(file.parent / "nowhere" / "x.py:plain"))
    assert "no folder" in str(caught.value.hint)


def test_folder_and_missing_function_name(file: Path) -> None:
    (file.parent / "folder.py").mkdir()
    with pytest.raises(WorkloadError, match="is a folder"):
        declare(f"{file.parent / 'folder.py'}:plain")
    with pytest.raises(WorkloadError, match="which function") as caught:
        declare(str(file))
    assert "my model.py:plain" in str(caught.value.hint)


@pytest.mark.parametrize(("line", "what"), [("number = 3", "an int"), ("number = plain()[0]", "a Model")])
def test_what_is_no_function_is_said_to_be_none(file: Path, line: str, what: str) -> None:
    file.write_text(f"{GOOD}\n{line}\n", encoding="utf-8")
    with pytest.raises(WorkloadError, match=f"has no function 'number': that is {what}") as caught:
        build(file, "number")
    assert f"In your file: my model.py:{len(GOOD.splitlines()) + 2}: {line}\n" in str(caught.value.hint)


def test_unknown_function_names_the_nearest(file: Path) -> None:
    with pytest.raises(WorkloadError, match="has no function 'plan'") as caught:
        build(file, "plan")
    assert "plain" in str(caught.value.hint)


def test_positional_inputs_and_mode(file: Path) -> None:
    run = build(file, "plain", phase="training")
    assert (run.args, run.kwargs) == ((1, 2), {})
    assert run.model.training is True
    assert build(file, "plain").model.training is False


def test_options_go_by_name(file: Path) -> None:
    assert build(file, "with_options").kwargs == {"x": (3, None, "inference", "float32")}
    run = build(file, "with_options", batch_size=8, seq_len=16, phase="training", dtype="bfloat16")
    assert run.kwargs == {"x": (8, 16, "training", "bfloat16")}
    assert (run.batch_size, run.seq_len) == (8, 16)
    assert not hasattr(run.model, "halved")
    assert build(file, "required").kwargs == {"x": None}
    assert set(build(file, "anything", seq_len=4).kwargs) == {"phase", "dtype", "seq_len", "weights"}


def test_size_that_the_function_does_not_take(file: Path) -> None:
    with pytest.raises(UsageError, match="takes no seq_len"):
        build(file, "plain", seq_len=4)


def test_a_parameter_that_no_option_gives_is_named(file: Path) -> None:
    with pytest.raises(WorkloadError, match="'unknown' needs the argument 'path', which mpsprobe cannot") as caught:
        build(file, "unknown")
    assert "my model.py:20: def unknown(batch_size, path, *more, **options):" in str(caught.value.hint)


def test_dtype_is_applied_when_the_function_does_not_take_it(file: Path) -> None:
    assert build(file, "plain", dtype="float16").model.halved is True


@pytest.mark.parametrize(("function", "what"), [("returns_nothing", "nothing"), ("returns_three", "a tuple of Model")])
def test_wrong_result(file: Path, function: str, what: str) -> None:
    with pytest.raises(WorkloadError, match=f"returned {what}") as caught:
        build(file, function)
    assert "(model, inputs)" in str(caught.value.hint)


def test_exception_shows_the_users_lines(file: Path) -> None:
    with pytest.raises(WorkloadError, match="raised RuntimeError: no such weights") as caught:
        build(file, "fails")
    assert "\x1b" not in str(caught.value)
    hint = str(caught.value.hint)
    assert "in fails: return inner()" in hint
    assert "in inner: raise RuntimeError" in hint
    assert "userfile.py" not in hint


def test_packages_inside_the_folder_are_not_the_users_lines(file: Path) -> None:
    packages = file.parent / "venv" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "inside.py").write_text("def check(): raise ValueError('no')\n", encoding="utf-8")
    file.write_text(
        f"import sys; sys.path.append({str(packages)!r})\nimport inside\ndef make():\n    inside.check()\n", "utf-8"
    )
    try:
        with pytest.raises(WorkloadError) as caught:
            build(file, "make")
    finally:
        sys.path.remove(str(packages))
        del sys.modules["inside"]
    assert str(caught.value.hint) == "In your file: my model.py:4 in make: inside.check()"


def test_exit_is_an_error(file: Path) -> None:
    with pytest.raises(WorkloadError, match="raised SystemExit: 3") as caught:
        build(file, "leaves")
    assert f"mpsprobe run {file}" in str(caught.value.hint)


def test_a_program_gets_no_arguments_of_ours_and_is_sent_to_run(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mpsprobe", "coverage", f"{file}:main"])
    file.write_text("import sys\ndef main():\n    assert sys.argv == [__file__]\n", encoding="utf-8")
    with pytest.raises(WorkloadError, match="returned nothing") as caught:
        build(file, "main")
    assert f"mpsprobe run {file}" in str(caught.value.hint)
    assert sys.argv[0] == "mpsprobe"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"def make(:\n", "SyntaxError"),
        (b"import no_such_module_at_all\n", "ModuleNotFoundError"),
        (b"\x00\x01\x02", "(SyntaxError|ValueError)"),
        (b"\xff\xfe\xff", "(SyntaxError|UnicodeDecodeError)"),
        (b"make = 3\n", "has no function 'make'"),
        (b"", "has no function 'make'"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "broken.py"
    path.write_bytes(content)
    with pytest.raises(WorkloadError, match=what):
        build(path, "make")
    load(f"{path}:make").describe()


def test_neighbours_can_be_imported_and_nothing_stays(file: Path) -> None:
    (file.parent / "neighbour_of_mine.py").write_text("value = 7\n", encoding="utf-8")
    file.write_text(
        GOOD + "\ndef near():\n    import neighbour_of_mine as n\n    return Model(), (n.value,)\n", "utf-8"
    )
    before = list(sys.path)
    assert build(file, "near").args == (7,)
    assert sys.path == before
    del sys.modules["neighbour_of_mine"]


def test_torch_run_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "from mpsprobe.protocols import TorchRun\ndef make():\n    return TorchRun(model=3, notes=('mine',))\n", "utf-8"
    )
    run = build(path, "make", phase="training")
    assert (run.model, run.notes) == (3, ("mine",))


@pytest.mark.parametrize(
    ("line", "framework"),
    [
        ("import keras", "tensorflow"),
        ("from tensorflow.keras import layers", "tensorflow"),
        ("import torch, keras", "torch"),
        ("from . import keras", "torch"),
        ("def make(): import tensorflow as tf", "tensorflow"),
        ("import numpy", "torch"),
        ("no python", "torch"),
    ],
)
def test_the_framework_is_what_a_file_imports(tmp_path: Path, line: str, framework: str) -> None:
    (tmp_path / "made.py").write_text(f"{line}\n", "utf-8")
    declared = declare(f"{tmp_path / 'made.py'}:make")
    assert declared is not None and declared.framework == framework
    assert load(declared.name).framework == framework


def test_describe_does_not_run_the_file(tmp_path: Path) -> None:
    path = tmp_path / "describe.py"
    path.write_text("raise SystemExit\ndef make(phase, *, seq_len=3):\n    '''First.\n\n    Second.'''\n", "utf-8")
    facts = load(f"{path}:make").describe()
    assert facts == {"file": str(path), "line": 2, "description": "First.", "options": ["phase", "seq_len"]}


@pytest.mark.parametrize("words", [("coverage", "{}.py:f"), ("coverage", "{}*"), ("import", "{}"), ("run", "{}")])
def test_a_name_longer_than_any_file_has(words: tuple[str, str]) -> None:
    command, name = words
    result = run_cli(command, name.format("a" * 300), process=False)
    assert result.code == 2 and "unexpected" not in result.stderr and "left out" not in result.stderr
