"""Files of names: what a table says, what it takes from its kind, and one line for each mistake."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import get_args

import pytest

from mpsprobe.errors import WorkloadError
from mpsprobe_hf.calls import CALLS
from mpsprobe_hf.catalog import FILES, entries, listed, shared
from mpsprobe_hf.catalog.__main__ import listing
from mpsprobe_hf.catalog.entry import Field, Kind
from mpsprobe_hf.catalog.reading import Names
from mpsprobe_hf.losses import LOSSES
from mpsprobe_hf.tensors import KINDS

ROOM = files("mpsprobe_hf.catalog")
NAME = """\
[like.small]
like = "decoder"
class = "GPT2LMHeadModel"
columns = ["config.vocab_size", "config.n_embd"]

[name."my-gpt.2"]
like = "small"
checkpoint = "me/mine"
model_type = "gpt2"
summary = "Mine"
parameters = 1000
sizes = [300, 16]
config.n_layer = 2
training.also = [{name = "position_ids", kind = "integers", shape = ["batch", "seq"], high = "$config.vocab_size"}]
"""


def read(text: str) -> Names:
    return Names(text, "mine.toml", shared())


def test_a_name_is_its_kind_and_what_differs() -> None:
    names = read(NAME)
    names.check_models()
    [entry] = names.entries().values()
    assert (entry.name, entry.family, entry.model_type, entry.checkpoint) == ("my-gpt.2", "text", "gpt2", "me/mine")
    assert entry.config == {"vocab_size": 300, "n_embd": 16, "n_layer": 2}
    assert entry.inference.inputs[0] == Field("input_ids", "tokens", ("batch", "seq"), 300, {"pad": 0, "left": True})
    assert entry.training is not None and entry.training.loss == "output"
    *_, labels, positions = entry.training.inputs
    assert (labels.name, labels.high, positions.name, positions.high) == ("labels", 300, "position_ids", 300)
    assert entry.batch_size == {"inference": 1, "training": 8} and entry.seq_len == 128
    [only] = read(NAME.replace("training.also", "prompt") + "training = false\n").entries().values()
    assert only.training is None and [field.name for field in only.prompt] == ["position_ids"]


@pytest.mark.parametrize(
    ("right", "wrong", "line", "says"),
    [
        ("summary", "sumary", 10, r"unknown key 'sumary'.*did you mean summary"),
        ('model_type = "gpt2"', 'model_type = "gtp2"', 9, r"unknown model type 'gtp2'.*gpt2"),
        ("GPT2LMHeadModel", "GPT2LMHedModel", 6, r"unknown class 'GPT2LMHedModel'.*GPT2LMHeadModel"),
        ('like = "small"', 'like = "smal"', 7, r"unknown kind of name 'smal'.*small"),
        ('"integers"', '"integer"', 14, r"unknown kind of input 'integer'.*integers"),
        ('kind = "integers"', 'like = "token"', 14, r"unknown input 'token'.*tokens"),
        ("$config.vocab_size", "$config.vocabsize", 14, r"unknown value '\$config.vocabsize'.*vocab_size"),
        ("[300, 16]", "[300]", 12, r"'sizes' has 1 values, not 2: config.vocab_size, config.n_embd"),
        ("= 1000", '= "1000"', 11, r"'parameters' is not a whole number"),
        ("= 1000", "= true", 11, r"'parameters' is not a whole number"),
        ("= 1000", "= 0", 11, r"'parameters', 'batch_size' and 'shortest' are at least 1"),
        ("config.n_layer = 2", "longest = 100", 6, r"'seq_len' is not between"),
        ("config.n_layer = 2", "batch_size.trainin = 2", 13, r"unknown phase 'trainin'.*training"),
        ("config.n_layer = 2", 'family = "texts"', 13, r"unknown family 'texts'.*text"),
        ("training.also", "training.als", 14, r"unknown key 'als'.*also"),
        ("parameters = 1000\n", "", 6, r"\[name.my-gpt.2\] lacks 'parameters'"),
        (', shape = ["batch", "seq"]', "", 14, r"an input lacks 'shape'"),
        ('columns = ["config.vocab', 'column = ["config.vocab', 4, r"unknown key 'column'.*columns"),
        ("[like.small]", "[lik.small]", 1, r"unknown table 'lik'.*like"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(right: str, wrong: str, line: int, says: str) -> None:
    text = NAME.replace(right, wrong, 1)
    assert text != NAME
    with pytest.raises(WorkloadError) as raised:
        read(text).check_models()
    message = str(raised.value)
    assert message.startswith(f"mine.toml:{line}: ") and re.search(says, message), message
    assert "\n" not in message


def test_what_is_no_toml_says_where() -> None:
    with pytest.raises(WorkloadError, match=r"mine\.toml: .*line 2"):
        read("[name.x]\nlike = \n")


def test_the_list_of_names_is_that_of_the_files() -> None:
    assert ROOM.joinpath("names.json").read_text(encoding="utf-8") == listing(), "run python -m mpsprobe_hf.catalog"
    assert list(listed()) == list(entries())


@pytest.mark.parametrize("file", FILES)
def test_our_files_name_what_transformers_has(file: str) -> None:
    Names(ROOM.joinpath(f"{file}.toml").read_text(encoding="utf-8"), f"{file}.toml", shared()).check_models()


def test_kinds_losses_and_calls_are_functions() -> None:
    assert set(get_args(Kind)) == set(KINDS)
    for entry in entries().values():
        for architecture in map(entry.architecture, entry.phases):
            assert architecture.loss in {"output", *LOSSES}, entry.name
            assert architecture.call in {"", *CALLS}, entry.name
