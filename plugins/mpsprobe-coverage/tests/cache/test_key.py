"""Whatever an answer depends on: where one part of it is another, the answer that is kept is not given."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpsprobe.plugins.registry import Registry, get_registry, use_registry
from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.cache import surroundings as around
from mpsprobe_coverage.cache import watching
from mpsprobe_coverage.cache.entries import Answer, keep
from mpsprobe_coverage.commands.instant import Question

MODEL = """
import os
import json
from pathlib import Path

import layers
import shapes.more


def make():
    here = Path(__file__).parent
    width = json.loads((here / "config.json").read_text())["width"] + int(os.environ.get("WIDTH", "0"))
    names = sorted(one.name for one in (here / "blocks").iterdir())
    try:
        (here / "absent.json").read_text()
    except FileNotFoundError:
        pass
    return layers.Net(width + shapes.more.EXTRA + len(names)), ()
"""
NET = "class Net:\n    named_parameters = train = __call__ = lambda *_: None\n"
LAYERS = NET + "    def __init__(self, width): pass\n"
OPTIONS = {**{one.name: one.default for one in fields(RunOptions)}, "torch_release": "installed", "vary": None}
OTHERS = {
    "phase": "training", "dtype": "float16", "batch_size": 3, "seq_len": 7, "size": "small", "autocast": "bfloat16",
    "grad_accum": 2, "clip_norm": 0.5, "lora": True, "lora_rank": 4, "macos": "14", "chip": "m2", "memory": 2**34,
    "backend": "xpu", "new_tokens": 9, "decoding": "beams", "cache": "static", "word_timestamps": True,
    "allocations": True, "graph": "eager", "torch_release": "2.6.0", "vary": ["seq-len", 1, 9],
}  # fmt: skip


@dataclass
class World:
    """A user's project, a folder of installed packages, tables, and what is asked."""

    project: Path
    installed: Path
    tables: Path
    monkeypatch: pytest.MonkeyPatch
    workload: str = "model.py:make"
    options: dict[str, Any] = field(default_factory=lambda: dict(OPTIONS))

    def ask(self) -> Question:
        """As the command does."""
        return Question("coverage", self.workload, self.options, cached=True)

    def answer(self) -> str | None:
        """Run it as a new process does, and keep what comes of it; why it was not kept."""
        forget(self.project)
        question = self.ask()
        with question.watched() as watch:
            get_registry().workload(self.workload).build(RunOptions())
        assert watch is not None
        evidence = watch.evidence()
        forget(self.project)
        if watch.refusal is None:
            assert keep(question.key, Answer(question.asked, "", "{}", evidence))
        return watch.refusal

    def write(self, path: Path, text: str) -> None:
        """As a file is that nobody has just written, or a tool that puts times back."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (1_600_000_000, 1_600_000_000))


def forget(project: Path) -> None:
    """The modules of the project, which a new process does not have."""
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(project)):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path / "project", tmp_path / "packages", tmp_path / "tables", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for path, text in {
        "model.py": MODEL,
        "layers.py": LAYERS,
        "shapes/__init__.py": "",
        "shapes/more.py": "EXTRA = 1\n",
        "config.json": '{"width": 4}',
        "blocks/a.txt": "",
        "blocks/weights.safetensors": "1234",
    }.items():
        made.write(made.project / path, text)
    made.write(made.installed / "transformers-5.0.0.dist-info" / "METADATA", "Name: transformers\nVersion: 5.0.0\n")
    made.write(made.tables / "torch-2.6.0.table", "a kernel")
    monkeypatch.syspath_prepend(str(made.installed))
    monkeypatch.setattr(around, "DATA", (str(made.tables),))
    monkeypatch.setattr(watching, "SLACK_NS", 0)  # the files were written a moment ago
    monkeypatch.chdir(made.project)
    for name in ("WIDTH", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    before = get_registry()
    yield made
    use_registry(before)
    forget(tmp_path)


def _content(path: str) -> Callable[[World], None]:
    """Another content, of the same length and the same time of change."""
    return lambda world: world.write(world.project / path, Path(path).read_text(encoding="utf-8")[:-1] + "#")


def _new_version(world: World) -> None:
    (world.installed / "transformers-5.0.0.dist-info").rename(world.installed / "transformers-5.0.1.dist-info")


def _new_file(world: World) -> None:
    world.write(world.project / "other.py", MODEL)
    world.workload = "other.py:make"


def _plugins(version: str, **how: Any) -> Callable[[World], None]:
    """With one more plugin, of that version."""

    def change(world: World) -> None:
        found = [one.found for one in Registry().plugins()]
        more = replace(found[0], name="mine", distribution="mine", version=version)
        use_registry(Registry(found=[*found, more], **how))

    return change


def _folder_plugin(world: World) -> None:
    world.write(world.project.parent / "plugins" / "mine.py", '"""Mine."""\n')
    use_registry(Registry(folders=[str(world.project.parent / "plugins")]))


CHANGES: dict[str, Callable[[World], None]] = {
    "the user's file": _content("model.py"),
    "a module that it imports": _content("layers.py"),
    "a module of a package": _content("shapes/more.py"),
    "a file that it reads": _content("config.json"),
    "a file that was not there": lambda world: world.write(world.project / "absent.json", "{}"),
    "a file that is gone": lambda world: (world.project / "config.json").unlink(),
    "a folder that it lists": lambda world: world.write(world.project / "blocks" / "b.txt", ""),
    "a module in front of another": lambda world: world.write(world.project / "json.py", ""),
    "a variable that it reads": lambda world: world.monkeypatch.setenv("WIDTH", "2"),
    "a variable of Hugging Face's": lambda world: world.monkeypatch.setenv("HF_HOME", "elsewhere"),
    "a variable of torch's": lambda world: world.monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1"),
    "the version of a library": _new_version,
    "another library": lambda world: (world.installed / "peft-1.0.dist-info").mkdir(),
    "a table": lambda world: world.write(world.tables / "torch-2.6.0.table", "a Kernel"),
    "a table of another release": lambda world: world.write(world.tables / "torch-9.0.0.table", ""),
    "the order of folders": lambda world: world.monkeypatch.setattr(sys, "path", [*sys.path[1:], sys.path[0]]),
    "Python": lambda world: world.monkeypatch.setattr(sys, "version", "3.99.0"),
    "a plugin": _plugins("1.0"),
    "the version of a plugin": _plugins("1.1"),
    "a plugin that is switched off": _plugins("1.0", blocked=["mine"]),
    "a plugin of a folder": _folder_plugin,
    "the function": lambda world: setattr(world, "workload", "model.py:other"),
    "the file": _new_file,
    "the folder": lambda world: world.monkeypatch.chdir(world.project.parent),
    **{
        f"--{name}": lambda world, name=name, value=value: world.options.__setitem__(name, value)  # type: ignore[misc]
        for name, value in OTHERS.items()
    },
}  # fmt: skip


def test_every_option_is_among_them() -> None:
    """With those that are not, no answer is kept."""
    not_kept = {one.name for one in fields(RunOptions)} - set(OTHERS)
    assert not_kept == {"weights", "trust_remote_code"}
    assert not [name for name in not_kept if Question("coverage", "x", {**OPTIONS, name: True}, cached=True).cached]


def test_what_is_the_same_is_given(world: World) -> None:
    assert world.answer() is None
    assert world.ask().answer is not None
    for path in world.project.rglob("*.*"):  # a checkout, a copy: other times, the same content
        os.utime(path)
    world.monkeypatch.setenv("UNREAD", "1")
    world.write(world.project / "notes.txt", "nobody reads it")
    assert world.ask().answer is not None


@pytest.mark.parametrize("part", CHANGES)
def test_another_part_is_never_answered_from_the_cache(part: str, world: World) -> None:
    assert world.answer() is None
    CHANGES[part](world)
    assert world.ask().answer is None


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.sampled_from(sorted(CHANGES)), min_size=2, max_size=4, unique=True))
@pytest.mark.thorough
def test_nor_are_several(parts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for made in world.__wrapped__(tmp_path_factory.mktemp("world"), monkeypatch):  # type: ignore[attr-defined]
            assert made.answer() is None
            for part in parts:
                CHANGES[part](made)
            assert made.ask().answer is None


def test_what_an_earlier_function_imported_counts(world: World) -> None:
    """In one process, the module is imported and the file is read only once."""
    world.write(world.project / "config.py", "from pathlib import Path\n\nWIDTH = Path('config.json').read_text()\n")
    code = f"import config\n{NET}\n\ndef first():\n    return Net(), ()\n\n\nsecond = first\n"
    world.write(world.project / "model.py", code)
    earlier = None
    for function in ("first", "second"):
        world.workload = f"model.py:{function}"
        question = world.ask()
        with question.watched(earlier) as earlier:
            get_registry().workload(world.workload).build(RunOptions())
        assert earlier is not None
        assert keep(question.key, Answer(question.asked, "", "{}", earlier.evidence()))
    assert world.ask().answer is not None
    _content("config.json")(world)
    assert world.ask().answer is None


REFUSED = {
    "import random\n\n\ndef make():\n    random.random()": "it drew random numbers",
    "import random\n\n\ndef make():\n    random.SystemRandom().random()": "it drew random numbers without a seed",
    "import numpy\n\n\ndef make():\n    numpy.random.rand()": "it drew random numbers of numpy",
    "import numpy\n\n\ndef make():\n    numpy.random.default_rng()": "it drew random numbers without a seed",
    "import torch\n\n\ndef make():\n    torch.seed()": "draws random numbers without a seed",
    "import time\n\n\ndef make():\n    time.time()": "uses time",
    "from datetime import date\n\n\ndef make():\n    date.today()": "uses datetime",
    "import subprocess, sys\n\n\ndef make():\n    subprocess.run([sys.executable, '-c', ''])": "it started a process",
    "import os\n\n\ndef make():\n    os.system('exit')": "it started a process",
    "import socket\n\n\ndef make():\n    socket.getaddrinfo('localhost', 1)": "it used the network",
    "from pathlib import Path\n\n\ndef make():\n    Path('new').write_text('1')\n    Path('new').read_text()": (
        "changed while it was read"
    ),
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_may_be_another_next_time_is_not_kept(source: str, world: World) -> None:
    world.write(world.project / "model.py", f"{NET}\n\n{source}\n    return Net(), ()\n")
    assert REFUSED[source] in str(world.answer())
