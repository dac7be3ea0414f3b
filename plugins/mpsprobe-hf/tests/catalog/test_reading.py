"""Files of names: what a table says, what it takes from its kind, and one line for each mistake."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import get_args

import pytest

from mpsprobe.declarations import resolve
from mpsprobe.errors import UnknownName, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe_hf.catalog import FILES, entries, listed, pipelines, shared
from mpsprobe_hf.catalog.__main__ import listing
from mpsprobe_hf.catalog.entry import Field, Kind
from mpsprobe_hf.catalog.reading import Names
from mpsprobe_hf.names_file import check, in_file
from mpsprobe_hf.plugin import mpsprobe_resolve_workload
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
sizes = [300, 24]
config.n_layer = 2
training.also = [{name = "position_ids", kind = "integers", shape = ["batch", "seq"], high = "$config.vocab_size"}]
"""


def read(text: str) -> Names:
    return Names(text, "mine.toml", shared())


def test_a_name_is_its_kind_and_what_differs() -> None:
    names = read(NAME)
    check(names)
    [entry] = names.entries().values()
    assert (entry.name, entry.family, entry.model_type, entry.checkpoint) == ("my-gpt.2", "text", "gpt2", "me/mine")
    assert entry.config == {"vocab_size": 300, "n_embd": 24, "n_layer": 2}
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
        ("[300, 24]", "[300]", 12, r"'sizes' has 1 values, not 2: config.vocab_size, config.n_embd"),
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
        ("config.n_layer = 2", 'loss = "men"', 13, r"unknown loss 'men'.*mean"),
        ("config.n_layer = 2", 'call = "bark_stage"', 13, r"unknown call 'bark_stage'.*bark_stages"),
        ("config.n_layer = 2", 'batch_size.training = "2"', 13, r"'batch_size' is not a whole number"),
        ("config.n_layer = 2", 'seq_len = "$checkpoint"', 13, r"'seq_len' is not a whole number"),
        ("config.n_layer = 2", 'seq_unit = "$seq_unit"', 6, r"\[name.my-gpt.2\] leads back to itself"),
        ("config.n_layer = 2", "prompt = [3]", 13, r"an input is neither a name nor a table"),
        ("training.also", "training = true  #", 14, r"'training' is not a table or false"),
        ("config.n_layer = 2", 'with = "$pad"', 13, r"'with' is not a table"),
        ('"$config.vocab_size"}', '"300"}', 14, r"'high' of an input is not a whole number"),
        ('like = "decoder"', 'like = "small"', 6, r"\[name.my-gpt.2\] leads back to itself"),
        ('"batch", "seq"', '"batch", "sek"', 14, r"'sek' is no dimension: a number, batch, seq"),
        ('"batch", "seq"', '"batch", 0', 14, r"'0' is no dimension"),
        ("[like.small]", "name.x = 3\n[like.small]", 1, r"\[name.x\] is not a table"),
        ("[like.small]", "input = 3\n[like.small]", 1, r"\[input.NAME\] is not a table"),
        ("[like.small]", "[lik.small]", 1, r"unknown table 'lik'.*like"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(right: str, wrong: str, line: int, says: str) -> None:
    text = NAME.replace(right, wrong, 1)
    assert text != NAME
    with pytest.raises(WorkloadError) as raised:
        check(read(text))
    message = str(raised.value)
    assert message.startswith(f"mine.toml:{line}: ") and re.search(says, message), message
    assert "\n" not in message


def test_what_is_no_toml_says_where() -> None:
    with pytest.raises(WorkloadError, match=r"mine\.toml: .*line 2"):
        read("[name.x]\nlike = \n")


def test_a_file_of_the_users_is_a_workload(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(NAME, encoding="utf-8")
    declaration = mpsprobe_resolve_workload(f"{path}:my-gpt.2")
    assert declaration is not None and resolve(declaration.target) is in_file
    workload = in_file(f"{path}:my-gpt.2")
    assert workload.describe()["checkpoint"] == "me/mine" and in_file(str(path)).entry == workload.entry
    assert workload.build(RunOptions()).kwargs["input_ids"].shape == (1, 128)
    with pytest.raises(UnknownName, match="my-gpt"):
        in_file(f"{path}:my-gpt")
    path.write_text(NAME + NAME[NAME.index("[name") :].replace("my-gpt.2", "other"), encoding="utf-8")
    with pytest.raises(UsageError, match=r"has 2 names\n.*mine.toml:my-gpt.2 or .*mine.toml:other"):
        in_file(str(path))
    with pytest.raises(WorkloadError, match=r"cannot read '.*none.toml'"):
        in_file(str(tmp_path / "none.toml"))


def test_the_list_of_names_is_that_of_the_files() -> None:
    assert ROOM.joinpath("names.json").read_text(encoding="utf-8") == listing(), "run python -m mpsprobe_hf.catalog"
    assert list(listed()) == [*pipelines(), *entries()]


@pytest.mark.parametrize("file", FILES)
def test_our_files_name_what_transformers_has(file: str) -> None:
    check(Names(ROOM.joinpath(f"{file}.toml").read_text(encoding="utf-8"), f"{file}.toml", shared()))


def test_kinds_of_inputs_are_functions() -> None:
    assert set(get_args(Kind)) == set(KINDS)


PIPELINE = """\
[name.my-sdxl]
like = "turned"
checkpoint = "me/mine"
components.unet = {like = "narrow", config = {sample_size = 32}}

[component.narrow]
class = "UNet2DConditionModel"
config = {cross_attention_dim = 64}

[like.turned]
family = "image"
pipeline = "StableDiffusionXLPipeline"
summary = "Mine"
components = {unet = "narrow", vae.class = "AutoencoderKL", scheduler.class = "DDIMScheduler"}
"""


def test_a_pipeline_of_the_users_is_data_of_the_same_form(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PIPELINE, encoding="utf-8")
    facts = in_file(str(path)).describe()
    assert facts["pipeline"] == "StableDiffusionXLPipeline" and set(facts["components"]) == {"unet", "vae", "scheduler"}
    assert facts["components"]["unet"]["config"] == {"cross_attention_dim": 64, "sample_size": 32}
    for right, wrong, line, says in (
        ('like = "narrow"', 'like = "narow"', 4, r"unknown component 'narow'.*narrow"),
        ("{sample_size = 32}", "32", 4, r"'config' of a component is not a table"),
        ("components.unet", "component.unet", 4, r"unknown key 'component'.*components"),
        ('pipeline = "StableDiffusionXLP', 'pipeline = "StableDiffusionXP', 1, r"unknown pipeline 'StableDiffusionXP"),
        ('class = "UNet', 'clas = "UNet', 1, r"a component lacks 'class'"),
        ('checkpoint = "me/mine"', "seq_len = 3", 1, r"lacks 'checkpoint'"),
        ('summary = "Mine"', 'summary = "Mine"\nseq_len = 3', 1, r"unknown key 'seq_len'"),
    ):
        with pytest.raises(WorkloadError) as raised:
            check(read(PIPELINE.replace(right, wrong, 1)))
        message = str(raised.value)
        assert message.startswith(f"mine.toml:{line}: ") and re.search(says, message), message
