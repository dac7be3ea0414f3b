"""Files of names: what a table says, what it takes from its kind, and one line for each mistake."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from mpsprobe.declarations import resolve
from mpsprobe.errors import UnknownName, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe_hf import forms
from mpsprobe_hf.catalog import FILES, entries, listed, pipelines, shared
from mpsprobe_hf.catalog.__main__ import listing
from mpsprobe_hf.catalog.entry import Entry
from mpsprobe_hf.catalog.reading import Names
from mpsprobe_hf.forms import Argument, Family
from mpsprobe_hf.names_file import check, in_file
from mpsprobe_hf.plugin import mpsprobe_resolve_workload
from mpsprobe_hf.tensors import KINDS
from mpsprobe_hf.transformers.workload import NamedWorkload

ROOM = files("mpsprobe_hf.catalog")
NAME = """\
[like.small]
like = "language_model"
class = "gpt2/GPT2LMHeadModel"
columns = ["config.vocab_size", "config.n_embd"]

[name."my-gpt.2"]
like = "small"
checkpoint = "me/mine"
summary = "Mine"
parameters = 1000
sizes = [300, 24]
config.n_layer = 2
training.arguments.position_ids = {kind = "integers", shape = ["batch", "seq"], high = "vocabulary"}
training.more = ["position_ids"]
measures.images = 3
"""


def read(text: str) -> Names:
    return Names(text, "mine.toml", shared())


def test_a_name_is_its_kind_and_what_differs() -> None:
    names = read(NAME)
    check(names)
    [entry] = names.entries().values()
    assert isinstance(entry, Entry) and entry.training is not None
    assert (entry.name, entry.family, entry.model_type, entry.checkpoint) == ("my-gpt.2", "text", "gpt2", "me/mine")
    assert entry.config == {"vocab_size": 300, "n_embd": 24, "n_layer": 2}
    assert entry.inference.own == entry.generate == Family(measures={"images": 3})
    position = Argument("integers", ("batch", "seq"), "vocabulary")
    own = Family(measures={"images": 3}, arguments={"position_ids": position}, more=("position_ids",))
    assert entry.training.own == own and entry.training.loss == ""
    assert entry.training.own.arguments["position_ids"].rule == "position_ids in mine.toml [name.my-gpt.2]"
    assert entry.batch_size == {"inference": 1, "training": 8} and entry.seq_len == 128
    generates = NAME.replace("training.", "generate.")
    [only] = read(generates).entries().values()
    assert isinstance(only, Entry) and only.generate == own and only.inference.own == entry.inference.own


@pytest.mark.parametrize(
    ("right", "wrong", "line", "says"),
    [
        ("summary", "sumary", 9, r"unknown key 'sumary'.*did you mean summary"),
        ("gpt2/GPT2", "gtp2/GPT2", 6, r"unknown model type 'gtp2'.*gpt2"),
        ("gpt2/GPT2", "GPT2", 6, r"'class' is not TYPE/CLASS"),
        ("GPT2LMHeadModel", "GPT2LMHedModel", 6, r"unknown class 'GPT2LMHedModel'.*GPT2LMHeadModel"),
        ('like = "small"', 'like = "smal"', 7, r"unknown kind of name 'smal'.*small"),
        ('"integers"', '"integer"', 13, r"unknown kind of input 'integer'.*integers"),
        ('high = "vocabulary"', 'high = "vocabular"', 13, r"unknown size of an input 'vocabular'.*vocabulary"),
        ("measures.images", "measures.image", 15, r"unknown measure 'image'.*images"),
        ("[300, 24]", "[300]", 11, r"'sizes' has 1 values, not 2: config.vocab_size, config.n_embd"),
        ("= 1000", '= "1000"', 10, r"'parameters' is not a whole number"),
        ("= 1000", "= true", 10, r"'parameters' is not a whole number"),
        ("= 1000", "= 0", 10, r"'parameters', 'batch_size' and 'shortest' are at least 1"),
        ("config.n_layer", "config.n_layers", 12, r"unknown key of config .n_layers.; did you mean n_layer"),
        ("config.n_layer = 2", "longest = 100", 6, r"'seq_len' is not between"),
        ("config.n_layer = 2", "batch_size.trainin = 2", 12, r"unknown phase 'trainin'.*training"),
        ("config.n_layer = 2", 'family = "texts"', 12, r"unknown family 'texts'.*text"),
        ("training.more", "training.mor", 14, r"unknown key 'mor'.*more"),
        ("parameters = 1000\n", "", 6, r"\[name.my-gpt.2\] lacks 'parameters'"),
        (', shape = ["batch", "seq"]', "", 13, r"an argument lacks 'shape'"),
        ('shape = ["batch", "seq"]', "shape = 3", 13, r"'shape' of an argument is not a list"),
        ('columns = ["config.vocab', 'column = ["config.vocab', 4, r"unknown key 'column'.*columns"),
        ("config.n_layer = 2", 'loss = "men"', 12, r"unknown loss 'men'.*mean"),
        ("config.n_layer = 2", 'call = "bark_stage"', 12, r"unknown call 'bark_stage'.*bark_stages"),
        ("config.n_layer = 2", 'batch_size.training = "2"', 12, r"'batch_size' is not a whole number"),
        ("config.n_layer = 2", 'seq_len = "128"', 12, r"'seq_len' is not a whole number"),
        ("training.arguments.position_ids", "training.arguments", 13, r"an argument is not a table"),
        ('like = "language_model"', 'like = "small"', 6, r"\[name.my-gpt.2\] leads back to itself"),
        ('"batch", "seq"', '"batch", "sek"', 13, r"unknown size of an input 'sek'.*seq"),
        ("[like.small]", "name.x = 3\n[like.small]", 1, r"\[name.x\] is not a table"),
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
    again = in_file(str(path))
    assert isinstance(workload, NamedWorkload) and isinstance(again, NamedWorkload) and again.entry == workload.entry
    assert workload.describe()["checkpoint"] == "me/mine"
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
    assert set(forms.KINDS) == set(KINDS)


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
        ('class = "UNet', 'clas = "UNet', 7, r"unknown key of a component 'clas'.*class"),
        ('checkpoint = "me/mine"', "seq_len = 3", 1, r"lacks 'checkpoint'"),
        ('summary = "Mine"', 'summary = "Mine"\nseq_len = 3', 1, r"unknown key 'seq_len'"),
    ):
        with pytest.raises(WorkloadError) as raised:
            check(read(PIPELINE.replace(right, wrong, 1)))
        message = str(raised.value)
        assert message.startswith(f"mine.toml:{line}: ") and re.search(says, message), message
