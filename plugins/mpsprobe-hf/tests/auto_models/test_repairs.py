"""Default configurations made whole, and which model a part is judged in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from meta_forward import binds, build_on_meta, run_on_meta

from mpsprobe.errors import MissingPackage, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe_hf.auto_models import model_types
from mpsprobe_hf.auto_models.classes import holder_of, part_types
from mpsprobe_hf.auto_models.configs.repairs import declared, part_for, repair
from mpsprobe_hf.auto_models.inputs.families import FAMILIES
from mpsprobe_hf.auto_models.model_types import load


def test_what_follows_is_filled_in() -> None:
    inside = SimpleNamespace(num_attention_heads=4, hidden_size=32, head_dim=None, num_key_value_heads=2)
    outside = SimpleNamespace(sub_configs={"text_config": None}, text_config=inside)
    assert repair(outside) == ["head_dim = 8"]
    assert (inside.head_dim, inside.num_key_value_heads) == (8, 2)


def test_what_is_declared_for_a_part_reaches_the_whole() -> None:
    from transformers import Glm4vConfig

    config = Glm4vConfig(**declared(Glm4vConfig))
    wanted = FAMILIES["glm4v_text"].config["rope_parameters"]
    assert config.text_config.rope_parameters == wanted


def test_a_part_is_what_the_whole_gives_it() -> None:
    from transformers import ZoeDepthConfig

    assert "backbone_config" not in declared(ZoeDepthConfig)  # although ``FAMILIES`` declares something for BEiT alone


def test_a_class_of_a_part_is_made_of_that_part() -> None:
    from transformers import MusicgenConfig, MusicgenModel

    config = MusicgenConfig(**declared(MusicgenConfig))
    assert part_for(MusicgenModel, config).model_type == "musicgen_decoder"


def test_holders() -> None:
    held = {"dia_decoder": "dia", "blt_local_encoder": "blt", "bert": "", "clip": ""}
    assert {part: holder_of(part) for part in held} == held


RUNNABLE = {
    "hf:bark": "BarkSemanticModel",
    "hf:dia_decoder": "DiaModel",
    "hf:dac": "DacModel",
    "hf:kyutai_speech_to_text": "KyutaiSpeechToTextModel",
    "hf:encoder-decoder": "EncoderDecoderModel",
    "hf:nemotron": "NemotronModel",
    "hf:time_series_transformer": "TimeSeriesTransformerModel",
    "hf:timesfm": "TimesFmModel",
    "hf:canine": "CanineModel",
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", RUNNABLE)
def test_derived_inputs_run(name: str) -> None:
    run = build_on_meta(load(name), size="small")
    assert run.architecture == RUNNABLE[name]
    binds(run)
    run_on_meta(run, training=False)
    assert any("dia_decoder belongs to dia" in note for note in run.notes) == (name == "hf:dia_decoder")


@pytest.mark.parametrize("name", ["hf:vitmatte", "hf:omdet-turbo"])
def test_a_default_that_builds_only_as_a_checkpoint_has_it(name: str) -> None:
    assert build_on_meta(load(name)).model.config.model_type == name.removeprefix("hf:")


def test_a_part_without_a_model_and_a_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_types, "holder_of", lambda model_type: "")
    with pytest.raises(WorkloadError, match="no model that transformers would choose"):
        build_on_meta(load("hf:dia_decoder"))


def test_a_missing_package_leaves_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def needs_timm(workload: Any, options: RunOptions) -> None:
        if workload.model_type in ("gemma3n", "gemma3n_audio"):
            raise MissingPackage(workload.name, "timm")

    assert part_types("gemma3n") == ["gemma3n_text", "gemma3n_audio"]
    workload = load("hf:gemma3n")
    monkeypatch.setattr(type(workload), "_sized", needs_timm)
    with pytest.raises(MissingPackage, match=r"can be judged without it: hf:gemma3n_text\."):
        build_on_meta(workload)


class Around:
    """A configuration whose class does not name the type of its part, as in older releases of transformers."""

    model_type = "around"
    sub_configs: ClassVar[dict[str, type]] = {"text_config": object}

    def __init__(self) -> None:
        self.text_config = SimpleNamespace(model_type="glm4v_text")


def test_a_part_is_known_by_the_default() -> None:
    assert declared(Around)["text_config"]["rope_parameters"]["mrope_section"] == [8, 12, 12]
