"""Whatever an answer depends on: where one part of it is another, the answer that is kept is not given."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpsprobe.answers import folder, lookup
from mpsprobe.answers.folder import keep
from mpsprobe.answers.lookup import Answer, find
from mpsprobe.answers.question import Question
from mpsprobe.plugins.registry import Registry, get_registry, use_registry
from mpsprobe.protocols import RunOptions
from mpsprobe_coverage.commands.coverage import coverage

OTHERS: dict[str, Any] = {
    "phase": "training", "dtype": "float16", "batch_size": 3, "seq_len": 7, "size": "small", "autocast": "bfloat16",
    "grad_accum": 2, "clip_norm": 0.5, "lora": True, "lora_rank": 4, "macos": "14", "chip": "m2", "memory": 2**34,
    "backend": "xpu", "new_tokens": 9, "decoding": "beams", "cache": "static", "word_timestamps": True,
    "allocations": True, "graph": "eager", "torch_release": "2.6.0", "vary": ["seq-len", 1, 9],
}  # fmt: skip
REPORT = {"kind": "coverage"}


@dataclass
class World:
    """A checkpoint, a folder of installed packages, a plugin that is edited in place, and what is asked."""

    root: Path
    monkeypatch: pytest.MonkeyPatch
    workload: str = "checkpoint"
    options: dict[str, Any] = field(default_factory=dict)

    def ask(self) -> Question:
        """As a new process does."""
        return Question.of_command(coverage, self.workload, self.options, cached=True)

    def answer(self) -> Answer | None:
        """What the cache has."""
        return find(self.ask(), atlas=False)

    def keep(self) -> None:
        """Keep an answer."""
        assert keep(self.ask().key, self.ask().asked, REPORT)

    def write(self, path: str, text: str) -> None:
        """As a file is that nobody has just written, or a tool that puts times back."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        os.utime(file, (1_600_000_000, 1_600_000_000))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HOME", raising=False)
    for path, text in {
        "checkpoint/config.json": '{"width": 4}',
        "checkpoint/layers/weights.safetensors": "1234",
        "packages/transformers-5.0.0.dist-info/METADATA": "Name: transformers\nVersion: 5.0.0\n",
        "plugins/mine.py": '"""Mine."""\n',
    }.items():
        made.write(path, text)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    monkeypatch.chdir(tmp_path)
    before = get_registry()
    use_registry(Registry(folders=[str(tmp_path / "plugins")]))
    yield made
    use_registry(before)
    sys.modules.pop("mine", None)


def _plugins(version: str, **how: Any) -> Callable[[World], None]:
    """With one more plugin, of that version."""

    def change(world: World) -> None:
        found = [one.found for one in Registry().plugins()]
        more = found[0]._replace(name="another", distribution="another", version=version)
        use_registry(Registry(found=[*found, more], **how))

    return change


def _new_version(world: World) -> None:
    packages = world.root / "packages"
    (packages / "transformers-5.0.0.dist-info").rename(packages / "transformers-5.0.1.dist-info")


def _file_of_names(world: World) -> None:
    """Kept with one content, asked with another."""
    world.write("names.toml", "[mine]\n")
    world.workload = "names.toml:mine"
    world.keep()
    world.write("names.toml", "[mimi]\n")


CHANGES: dict[str, Callable[[World], None]] = {
    "a file of the checkpoint": lambda world: world.write("checkpoint/config.json", '{"width": 5}'),
    "a file in a folder of it": lambda world: world.write("checkpoint/layers/weights.safetensors", "1235"),
    "a file of names": _file_of_names,
    "one more file": lambda world: world.write("checkpoint/tokenizer.json", "{}"),
    "a file that is gone": lambda world: (world.root / "checkpoint" / "config.json").unlink(),
    "a plugin that is edited in place": lambda world: world.write("plugins/mine.py", '"""Mine!"""\n'),
    "a variable of Hugging Face's": lambda world: world.monkeypatch.setenv("HF_HOME", "elsewhere"),
    "a variable of torch's": lambda world: world.monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1"),
    "the version of a library": _new_version,
    "another library": lambda world: (world.root / "packages" / "peft-1.0.dist-info").mkdir(),
    "the order of folders": lambda world: world.monkeypatch.setattr(sys, "path", [*sys.path[1:], sys.path[0]]),
    "Python": lambda world: world.monkeypatch.setattr(sys, "version", "3.99.0"),
    "a plugin": _plugins("1.0"),
    "the version of a plugin": _plugins("1.1"),
    "a plugin that is switched off": _plugins("1.0", blocked=["another"]),
    "the workload": lambda world: setattr(world, "workload", "bert-base"),
    **{
        f"--{name}": lambda world, name=name, value=value: world.options.__setitem__(name, value)  # type: ignore[misc]
        for name, value in OTHERS.items()
    },
}  # fmt: skip


def test_every_option_is_among_them() -> None:
    """With those that are not, no answer is kept."""
    not_kept = {one.name for one in fields(RunOptions)} - set(OTHERS)
    assert not_kept == {"weights", "trust_remote_code"}
    assert not [name for name in not_kept if Question("coverage", "bert-base", {name: True}).key]


def test_what_is_the_same_is_given(world: World) -> None:
    world.keep()
    world.monkeypatch.setenv("UNREAD", "1")
    world.write("notes.txt", "nobody reads it")
    world.options = {"phase": "inference", "torch_release": "installed", "everything": True, "fail_on": ("missing",)}
    answer = world.answer()
    assert answer is not None and answer.source == "cache"
    assert {**answer.document, "recalled": None} == {**REPORT, "recalled": None}


@pytest.mark.parametrize("part", CHANGES)
def test_another_part_is_never_answered_from_the_cache(part: str, world: World) -> None:
    world.keep()
    CHANGES[part](world)
    assert world.answer() is None


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.sampled_from(sorted(CHANGES)), min_size=2, max_size=4, unique=True))
@pytest.mark.thorough
def test_nor_are_several(parts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for made in world.__wrapped__(tmp_path_factory.mktemp("world"), monkeypatch):  # type: ignore[attr-defined]
            made.keep()
            for part in parts:
                CHANGES[part](made)
            assert made.answer() is None


def test_what_did_not_come_to_its_end_is_not_kept(world: World) -> None:
    for failed in (SimpleNamespace(failure="x"), SimpleNamespace(releases=[SimpleNamespace(failure="x")])):
        lookup.keep(world.ask(), failed)  # type: ignore[arg-type]
    assert folder.kept() == []


def test_only_what_lasts_is_kept(world: World) -> None:
    """A function in a user's file may read anything, and what a Hub holds may change."""
    use_registry(Registry())
    lasting = ["checkpoint", "bert-base", "hf:bert", "hf:bert/BertModel", "diffusers:sdxl/unet"]
    assert [
        name for name in (*lasting, "org/model", "sdxl/unet") if Question("coverage", name, {}).is_lasting
    ] == lasting
    assert not Question("coverage", "model.py:make", {}).key
    assert not Question("coverage", "bert-base", {}, cached=False).key
