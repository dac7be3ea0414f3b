"""Models from a user's own file: found, run, and reported when they fail."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mpsprobe.errors import MpsprobeError
from mpsprobe.protocols import RunOptions, TorchRun, Workload
from mpsprobe.userfile import declare, execute, load, of_user, split
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

def near():
    import neighbour_of_mine as n
    return Model(), (n.value,)

def own():
    from mpsprobe.protocols import TorchRun
    return TorchRun(model=3, notes=('mine',))

number = 3
made = plain()[0]
'''
FILES: dict[str, bytes] = {
    "my model.py": GOOD.encode(),
    "neighbour_of_mine.py": b"value = 7\n",
    "program.py": b"import sys\ndef main():\n    assert sys.argv == [__file__]\n",
    "no_syntax.py": b"def make(:\n",
    "no_module.py": b"import no_such_module_at_all\n",
    "null.py": b"\x00\x01\x02",
    "other_text.py": b"\xff\xfe\xff",
    "no_function.py": b"make = 3\n",
    "empty.py": b"",
}
# What is asked for, and parts of what is said: the error, its message, its hint.
WRONG: dict[str, list[str]] = {
    "my_model.py:plain": ["there is no file", "my model.py"],
    "nowhere/x.py:plain": ["there is no file", "no folder"],
    "folder.py:plain": ["is a folder"],
    "my model.py": ["which function", "my model.py:plain"],
    "my model.py:number": ["no function 'number': that is an int", "In your file: my model.py:49: number = 3\n"],
    "my model.py:made": ["no function 'made': that is a Model", "In your file: my model.py:50: made = plain()[0]\n"],
    "my model.py:plan": ["has no function 'plan'", "Did you mean plain?"],
    "my model.py:unknown": [
        "'unknown' needs the argument 'path', which mpsprobe cannot",
        "my model.py:20: def unknown(batch_size, path, *more, **options):",
    ],
    "my model.py:returns_nothing": ["returned nothing", "(model, inputs)", "mpsprobe run {folder}"],
    "my model.py:returns_three": ["returned a tuple of Model, int, int\n", "(model, inputs)"],
    "my model.py:fails": ["raised RuntimeError: no such weights\n", "in fails: return inner()\n", "in inner: raise"],
    "my model.py:leaves": ["raised SystemExit: 3\n", "mpsprobe run {folder}"],
    "program.py:main": ["returned nothing", "mpsprobe run {folder}"],
    "no_syntax.py:make": ["SyntaxError"],
    "no_module.py:make": ["ModuleNotFoundError"],
    "null.py:make": ["raised "],
    "other_text.py:make": ["raised "],
    "no_function.py:make": ["has no function 'make'"],
    "empty.py:make": ["has no function 'make'"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.py").mkdir()
    return tmp_path


def build(folder: Path, name: str, **options: object) -> TorchRun:
    declare(f"{folder}/{name}")
    return load(f"{folder}/{name}").build(RunOptions(**options))  # type: ignore[arg-type]


def said(folder: Path, name: str, **options: object) -> str:
    with pytest.raises(MpsprobeError) as caught:
        build(folder, name, **options)
    return f"{type(caught.value).__name__}: {caught.value}\n"


def test_a_name_has_a_file_and_a_function() -> None:
    assert split("a/b.py:make") == (Path("a/b.py"), "make")
    assert split(r"C:\x\file.py:function") == (Path(r"C:\x\file.py"), "function")
    assert split(r"C:\x\file.py") == (Path(r"C:\x\file.py"), "")
    assert split("FILE.PY:make") == (Path("FILE.PY"), "make")
    assert split("b.py:") == (Path("b.py"), "")
    assert not [name for name in ("bert-base", "hf:bert", "org/model.py-thing", "", ":") if split(name)]
    assert declare("bert-base") is None


def test_a_declaration_leads_to_a_workload(folder: Path) -> None:
    declaration = declare(f"{folder}/my model.py:plain")
    assert declaration is not None
    assert declaration.target == "mpsprobe.userfile:load" and "plain()" in declaration.summary
    assert isinstance(load(declaration.name), Workload)


def test_what_is_wrong_is_told_with_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["mpsprobe", "coverage"]
    monkeypatch.setattr(sys, "argv", arguments)  # which a program does not get
    messages = {name: said(folder, name) for name in WRONG}
    wanted = {name: [part.replace("{folder}", str(folder)) for part in parts] for name, parts in WRONG.items()}
    assert not {name: text for name, text in messages.items() if not all(part in text for part in wanted[name])}
    assert all(text.startswith("WorkloadError") for text in messages.values())
    assert "\x1b" not in messages["my model.py:fails"] and "userfile.py" not in messages["my model.py:fails"]
    assert said(folder, "my model.py:plain", seq_len=4).startswith(
        "UsageError: the function 'plain' takes no seq_len\n"
    )
    assert sys.argv is arguments


def test_what_a_model_raises_later_is_its_files_too(tmp_path: Path) -> None:
    code = "def called(f): return f()\ndef fails(): raise OSError('mine')\ndef make(): return (called, fails)\n"
    (tmp_path / "late.py").write_text(code)
    called, fails = execute(tmp_path / "late.py").make()
    del sys.modules["mpsprobe_user_late"]
    with pytest.raises(OSError, match="mine") as theirs:
        fails()
    assert str(of_user(theirs.value)).splitlines() == [
        "'late.py' raised OSError: mine",
        "In your file: late.py:2 in fails: def fails(): raise OSError('mine')",
    ]
    with pytest.raises(OSError, match="none") as ours:
        called(lambda: execute(tmp_path / "none.py"))
    assert of_user(ours.value) is None


def test_inputs_mode_and_dtype(folder: Path) -> None:
    run = build(folder, "my model.py:plain", phase="training", dtype="float16")
    assert (run.args, run.kwargs, run.model.training, run.model.halved) == ((1, 2), {}, True, True)
    assert build(folder, "my model.py:plain").model.training is False


def test_options_go_by_name(folder: Path) -> None:
    assert build(folder, "my model.py:with_options").kwargs == {"x": (3, None, "inference", "float32")}
    asked = {"batch_size": 8, "seq_len": 16, "phase": "training", "dtype": "bfloat16"}
    run = build(folder, "my model.py:with_options", **asked)
    assert run.kwargs == {"x": (8, 16, "training", "bfloat16")}
    assert (run.batch_size, run.seq_len) == (8, 16)
    assert not hasattr(run.model, "halved")
    assert build(folder, "my model.py:required").kwargs == {"x": None}
    assert set(build(folder, "my model.py:anything", seq_len=4).kwargs) == {"phase", "dtype", "seq_len", "weights"}


def test_packages_inside_the_folder_are_not_the_users_lines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = folder / "venv" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "inside.py").write_text("def check(): raise ValueError('no')\n", encoding="utf-8")
    (folder / "uses.py").write_text("import inside\ndef make():\n    inside.check()\n", "utf-8")
    monkeypatch.syspath_prepend(str(packages))
    text = said(folder, "uses.py:make")
    del sys.modules["inside"]
    assert text.endswith("\nIn your file: uses.py:3 in make: inside.check()\n")


def test_neighbours_can_be_imported_and_nothing_stays(folder: Path) -> None:
    before = list(sys.path)
    assert build(folder, "my model.py:near").args == (7,)
    assert sys.path == before
    del sys.modules["neighbour_of_mine"]


def test_torch_run_is_left_alone(folder: Path) -> None:
    run = build(folder, "my model.py:own", phase="training")
    assert (run.model, run.notes) == (3, ("mine",))


def test_the_framework_is_what_a_file_imports(tmp_path: Path) -> None:
    expected = {
        "import keras": "tensorflow",
        "from tensorflow.keras import layers": "tensorflow",
        "import torch, keras": "torch",
        "from . import keras": "torch",
        "def make(): import tensorflow as tf": "tensorflow",
        "import numpy": "torch",
        "no python": "torch",
    }
    for line, framework in expected.items():
        (tmp_path / "made.py").write_text(f"{line}\n", "utf-8")
        declared = declare(f"{tmp_path / 'made.py'}:make")
        assert declared is not None and declared.framework == load(declared.name).framework == framework, line


def test_describe_does_not_run_the_file(folder: Path) -> None:
    path = folder / "describe.py"
    path.write_text("raise SystemExit\ndef make(phase, *, seq_len=3):\n    '''First.\n\n    Second.'''\n", "utf-8")
    facts = load(f"{path}:make").describe()
    assert facts == {"file": str(path), "line": 2, "description": "First.", "options": ["phase", "seq_len"]}
    for broken in ("no_syntax.py", "null.py", "other_text.py", "empty.py"):
        assert load(f"{folder / broken}:make").describe() == {"file": str(folder / broken)}


@pytest.mark.parametrize("words", [("coverage", "{}.py:f"), ("coverage", "{}*"), ("import", "{}"), ("run", "{}")])
def test_a_name_longer_than_any_file_has(words: tuple[str, str]) -> None:
    command, name = words
    result = run_cli(command, name.format("a" * 300), process=False)
    assert result.code == 2 and "unexpected" not in result.stderr and "left out" not in result.stderr
