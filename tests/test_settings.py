"""Settings from pyproject.toml and variables, given to the flags that they are for; presets by name and from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe.flags import apply_settings, flag_name, name_variables
from mpsprobe.plugins.registry import get_registry
from mpsprobe.presets import load_preset, preset_names
from mpsprobe.settings import nearest_pyproject, read_settings


def _write(folder: Path, text: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def test_flags_are_named_as_click_names_parameters(tmp_path: Path) -> None:
    _write(tmp_path, '[tool.mpsprobe]\nstrict-plugins = true\n[tool.mpsprobe.my-command]\nbatch-size = 2\nphase = "x"')
    assert read_settings(tmp_path) == {"strict_plugins": True, "my-command": {"batch_size": 2, "phase": "x"}}


def test_the_nearest_file_counts_even_without_our_table(tmp_path: Path) -> None:
    _write(tmp_path, "[tool.mpsprobe]\ndebug = true")
    inner = _write(tmp_path / "inner", "[project]\nname = 'x'")
    deep = inner / "a" / "b"
    (deep / "folder" / "pyproject.toml").mkdir(parents=True)
    assert nearest_pyproject(deep) == nearest_pyproject(deep / "folder") == str(inner / "pyproject.toml")
    assert read_settings(deep) == {}
    assert read_settings(tmp_path) == {"debug": True}


def test_a_hostile_file_is_a_clear_error(tmp_path: Path) -> None:
    for text, problem in (
        ("[tool.mpsprobe\n", "is not valid TOML"),
        (b"# mpsprobe \xff", "is not valid TOML"),
        ("[tool]\nmpsprobe = 3", "is not a table"),
        ("[tool.mpsprobe]\nday = 2026-01-01", "tool.mpsprobe.day should be text"),
        ("[tool.mpsprobe.coverage]\nphase = [[1]]", "tool.mpsprobe.coverage.phase should be text"),
        ("mpsprobe = " + "[" * 5000, "is not valid TOML"),
    ):
        with pytest.raises(UsageError, match=problem):
            read_settings(_write(tmp_path, text))


def test_a_file_without_our_table_is_no_concern(tmp_path: Path) -> None:
    for text in ("", "tool = 3 # mpsprobe", "[tool.other]\nx = 'mpsprobe'", "not TOML, not ours"):
        assert read_settings(_write(tmp_path, text)) == {}


@given(st.binary(max_size=60))
def test_any_bytes_give_settings_or_a_usage_error(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    folder = _write(tmp_path_factory.mktemp("noise"), b"[tool.mpsprobe]\n" + noise)
    try:
        assert isinstance(read_settings(folder), dict)
    except UsageError as error:
        assert error.message.isprintable()


@click.group()
@click.option("--level", type=int)
def outer(level: int) -> None: ...


@outer.command("in-ner")
@click.option("-o", "--out-put", "chosen")
@click.option("-x", "short")
@click.option("--named", envvar="MINE")
@click.option("--never", allow_from_autoenv=False)
@click.option("--many", multiple=True)
@click.option("--pair", nargs=2)
@click.argument("argument", required=False)
def inner(**values: Any) -> None: ...


def test_variables_carry_the_names_of_commands_and_flags() -> None:
    name_variables(outer, "MPSPROBE_OUTER")
    assert outer.params[0].envvar == "MPSPROBE_OUTER_LEVEL"
    options = [option for option in inner.params if isinstance(option, click.Option)]
    assert {flag_name(option): (option.name, option.envvar) for option in options} == {
        "out_put": ("chosen", "MPSPROBE_OUTER_IN_NER_OUT_PUT"),
        "short": ("short", "MPSPROBE_OUTER_IN_NER_SHORT"),
        "named": ("named", "MINE"),
        "never": ("never", None),
        "many": ("many", "MPSPROBE_OUTER_IN_NER_MANY"),
        "pair": ("pair", "MPSPROBE_OUTER_IN_NER_PAIR"),
    }
    assert inner.params[-1].envvar is None  # that of the argument


def test_settings_reach_the_parameters() -> None:
    table = {"level": 3, "in-ner": {"out_put": "x", "many": "one", "pair": [1, 2]}}
    apply_settings(outer, "outer", {"outer": table})
    assert table == {"level": 3, "in-ner": {"chosen": "x", "many": ["one"], "pair": [1, 2]}}


def test_no_table_no_change() -> None:
    nothing: Any
    for nothing in (None, {}, {"outer": 3}, {"other": {"level": 1}}):
        apply_settings(outer, "outer", nothing)


def test_a_setting_of_no_flag_is_told() -> None:
    for table, problem in (
        ({"levle": 1}, "unknown setting tool.mpsprobe.outer.levle\nDid you mean 'level'?"),
        ({"level": [1]}, "tool.mpsprobe.outer.level takes one value"),
        ({"inner": {}}, "unknown setting tool.mpsprobe.outer.inner\nDid you mean 'in-ner'?"),
        ({"in-ner": {"chosen": 1}}, "unknown setting tool.mpsprobe.outer.in-ner.chosen"),
    ):
        with pytest.raises(UsageError) as caught:
            apply_settings(outer, "outer", {"outer": table})
        assert problem in str(caught.value)


def test_every_preset_can_be_run() -> None:
    for preset in map(load_preset, preset_names()):
        assert preset.summary and preset.source
        assert {one.name for one in preset.workloads} <= set(get_registry().workloads())
    preset = load_preset("pytorch-mps-2022")  # the announcement has its models and batch sizes
    assert {one.name: one.batch_size for one in preset.workloads} == {"resnet50": 128, "bert-base": 64, "vgg16": 64}
    assert set(preset.phases) == {"inference", "training"} and preset.baseline == "cpu"


def test_a_preset_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.TOML"
    path.write_text('[[workloads]]\nname = "a.py:make"\nseq_len = 7\n', encoding="utf-8")
    preset = load_preset(str(path))
    assert (preset.workloads[0].name, preset.workloads[0].seq_len, preset.phases) == ("a.py:make", 7, ["inference"])


def test_a_wrong_file_says_where(tmp_path: Path) -> None:
    for text, says in (
        ("", "wrong at 'workloads': Field required"),
        ("workloads = []", "at least 1 item"),
        ('[[workloads]]\nname = "a"\nbatch_size = 0', "wrong at 'workloads.0.batch_size'"),
        ('[[workloads]]\nname = "a"\nbatchsize = 1', "wrong at 'workloads.0.batchsize'"),
        ('phases = ["both"]\n[[workloads]]\nname = "a"', "wrong at 'phases.0'"),
        ("[[", "is not TOML"),
        ("\udcff", "is not TOML"),
    ):
        path = tmp_path / "p.toml"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(MpsprobeError) as caught:
            load_preset(str(path))
        assert says in caught.value.message


def test_what_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    for name, says in [
        ("pytorch-mps-2023", "did you mean 'pytorch-mps-2022'"),
        (str(tmp_path / "none.toml"), "cannot read the preset"),
        (str(tmp_path / "\0.toml"), "cannot read the preset"),
    ]:
        with pytest.raises(MpsprobeError) as caught:
            load_preset(name)
        assert says in caught.value.message
