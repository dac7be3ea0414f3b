"""Checkpoint folders, good and bad, a Hub that cannot be reached, and pipelines that are handed over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from meta_forward import build_on_meta, run_once
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    pipeline,
)

import mpsprobe
from mpsprobe.errors import MpsprobeError, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe_hf.transformers.checkpoints import load

SMALL = {
    "model_type": "bert",
    "architectures": ["BertForSequenceClassification"],
    "vocab_size": 100,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
PICKLE = b"cos\nsystem\n(S'exit 7'\ntR."
TO_A_PICKLE = {"metadata": {}, "weight_map": {"classifier.weight": "pytorch_model.bin"}}
"""An index of safetensors that names a pickle."""


def folder(path: Path, config: Any) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    text = config if isinstance(config, str) else json.dumps(config)
    (path / "config.json").write_text(text, encoding="utf-8")
    return path


def saved(path: Path) -> Any:
    """A small checkpoint with weights; the model that was saved."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(3)
    values = {key: value for key, value in SMALL.items() if key not in ("model_type", "architectures")}
    model = BertForSequenceClassification(BertConfig(**values))
    model.save_pretrained(path)
    return model


def failure(path: Path, **options: Any) -> MpsprobeError:
    with pytest.raises(MpsprobeError) as caught:
        load(str(path)).build(RunOptions(**options))
    return caught.value


@pytest.mark.parametrize("phase", ["inference", "training"])
def test_random_weights_need_only_the_configuration(tmp_path: Path, phase: str) -> None:
    run = load(str(folder(tmp_path, SMALL))).build(RunOptions(phase=phase, seq_len=8))
    assert run.architecture == "BertForSequenceClassification"
    assert run.model.training == (phase == "training")
    run_once(run, training=phase == "training")


def test_what_is_built_without_memory(tmp_path: Path) -> None:
    workload = load(str(folder(tmp_path, SMALL)))
    run = build_on_meta(workload, dtype="bfloat16")
    assert {(one.dtype, one.is_meta) for one in run.model.parameters()} == {(torch.bfloat16, True)}
    with pytest.raises(UsageError):
        workload.build(RunOptions(seq_len=65))
    facts = json.loads(json.dumps(workload.describe()))
    assert facts["architecture"] == "BertForSequenceClassification" and facts["weights"] == []
    for named in (None, ["MyOwnBert"]):
        bare = folder(tmp_path, {**SMALL, "architectures": named})
        assert build_on_meta(load(str(bare))).architecture == "BertModel"


def test_real_weights(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = saved(tmp_path)
    capfd.readouterr()
    run = load(str(tmp_path)).build(RunOptions(weights=True, dtype="float32"))
    assert "Loading weights" not in capfd.readouterr().err, "a progress bar where nobody sees it"
    assert torch.equal(run.model.classifier.weight, model.classifier.weight)
    assert any("weights of" in note for note in run.notes)
    half = load(str(tmp_path)).build(RunOptions(weights=True, dtype="bfloat16"))
    assert half.model.classifier.weight.dtype == torch.bfloat16


def test_a_quantized_checkpoint_says_that_it_is_judged_without(tmp_path: Path) -> None:
    quantized = {**SMALL, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
    run = build_on_meta(load(str(folder(tmp_path, quantized))))
    assert any("quantized (gptq)" in note for note in run.notes)
    assert {one.dtype for one in run.model.parameters()} == {torch.float32}


def test_weights_that_are_not_there_or_pickled(tmp_path: Path) -> None:
    folder(tmp_path, SMALL)
    assert "no weights" in str(failure(tmp_path, weights=True))
    (tmp_path / "pytorch_model.bin").write_bytes(PICKLE)
    error = failure(tmp_path, weights=True)
    assert "pickled" in error.message and "safetensors" in str(error.hint)
    assert load(str(tmp_path)).build(RunOptions()).architecture == "BertForSequenceClassification"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(TO_A_PICKLE), encoding="utf-8")
    error = failure(tmp_path, weights=True)
    assert "pickled" in error.message and "pytorch_model.bin, which model.safetensors.index" in error.message


def test_broken_weights(tmp_path: Path) -> None:
    saved(tmp_path)
    path = tmp_path / "model.safetensors"
    for size in (100, 7, 0):
        path.write_bytes(path.read_bytes()[:size])
        assert "model.safetensors" in failure(tmp_path, weights=True).message


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("{", "not valid JSON"),
        ("", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]", "is a list, not an object"),
        ({}, "does not say its model_type"),
        ({"model_type": 3}, "does not say its model_type"),
        ({"model_type": "brt"}, "does not know"),
        ({**SMALL, "hidden_size": "many"}, "cannot be used"),
        ({**SMALL, "hidden_size": 17}, "hidden"),
        ({**SMALL, "num_hidden_layers": 10**9}, "num_hidden_layers = 1000000000"),
        ({**SMALL, "num_labels": 10**9}, "num_labels = 1000000000"),
        ({**SMALL, "num_attention_heads": [[10**9]]}, r"num_attention_heads = 1000000000"),
        ({**SMALL, "text_config": {"deeper": {"depths": [2, 10**9]}}}, r"text_config.deeper.depths = 1000000000"),
        ({**SMALL, "num_labels": 10**90}, "num_labels = a number of 299 bits"),
        ('{"hidden_size": 1' + "0" * 5000 + "}", "has a number of 5,001 digits"),
        ({**SMALL, "num_attention_heads": 0}, "(cannot be|ZeroDivision)"),
        ({**SMALL, "hidden_size": -16}, "cannot be"),
    ],
)
def test_broken_configurations(tmp_path: Path, config: Any, says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        load(str(folder(tmp_path, config))).build(RunOptions())


def test_a_model_of_too_many_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number may be usual, and their product is not."""
    monkeypatch.setattr("mpsprobe_hf.transformers.construct.MOST_MODULES", 5)
    assert "has more than 5 modules" in str(failure(folder(tmp_path, SMALL)))


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([], "save_pretrained"),
        (["adapter_config.json"], "adapter"),
        (["model_index.json"], "diffusers"),
        (["checkpoint-10/config.json"], "checkpoint-10"),
    ],
)
def test_folder_without_a_configuration(tmp_path: Path, files: list[str], says: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}", encoding="utf-8")
    error = failure(tmp_path)
    assert "has no config.json" in error.message and says in str(error.hint)


OWN_CODE = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.MyConfig", "AutoModel": "mine.MyModel"}}


def test_own_code_is_refused_unless_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path, OWN_CODE)
    (tmp_path / "mine.py").write_text("raise SystemExit('it ran')\n", encoding="utf-8")
    error = failure(tmp_path)
    assert "its own Python code (mine.py)" in error.message and "--trust-remote-code" in str(error.hint)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    own = folder(tmp_path / "own", OWN_CODE)
    (own / "mine.py").write_text(
        "import torch\nfrom transformers import BertConfig, BertModel\n"
        "class MyConfig(BertConfig):\n    model_type = 'mine'\n"
        "class MyModel(BertModel):\n    config_class = MyConfig\n",
        encoding="utf-8",
    )
    run = build_on_meta(load(str(own)), trust_remote_code=True)
    assert run.architecture == "MyModel"
    for name in [one for one in sys.modules if one.startswith("transformers_modules")]:
        del sys.modules[name]


def test_repositories_of_the_hub_without_a_network(tmp_path: Path) -> None:
    """What is looked at in a folder is looked at in the cache of the Hub too; what is not there is named."""
    for name, config in (("bin", SMALL), ("labels", {**SMALL, "num_labels": 10**9}), ("code", OWN_CODE)):
        top = tmp_path / "hub" / f"models--org--{name}"
        snapshot = folder(top / "snapshots" / "0123abcd", config)
        (top / "refs").mkdir()
        (top / "refs" / "main").write_text("0123abcd", encoding="ascii")
        (snapshot / "model.safetensors.index.json").write_text(json.dumps(TO_A_PICKLE), encoding="utf-8")
        (snapshot / "pytorch_model.bin").write_bytes(PICKLE)
    script = (
        "from mpsprobe.protocols import RunOptions; from mpsprobe.errors import WorkloadError\n"
        "from mpsprobe_hf.transformers.checkpoints import load\n"
        "for name, weights in (('bin', 1), ('labels', 1), ('code', 1), ('none', 0), ('none', 1)):\n"
        "    try: load(f'org/{name}').build(RunOptions(weights=bool(weights)))\n"
        "    except WorkloadError as error: print(str(error).replace('\\n', ' '))"
    )
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=offline, check=True)
    bin_, labels, code, *none = done.stdout.splitlines()
    assert "pickled (pytorch_model.bin" in bin_ and "num_labels = 1000000000" in labels and "(mine.py)" in code
    assert len(none) == 2 and all("config.json of org/none" in one and "there is no folder" in one for one in none)
    assert "HF_HUB_OFFLINE" in none[0]


RELEASE = "2.13.0"
VOCABULARY = {"vocab_size": 6, "bos_token_id": 2, "eos_token_id": 3}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    words = {word: index for index, word in enumerate(("[UNK]", "[PAD]", "[CLS]", "[SEP]", "a", "b"))}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]", eos_token="[SEP]")


@pytest.fixture
def classifier(tokenizer: PreTrainedTokenizerFast) -> Any:
    config = BertConfig(
        **VOCABULARY,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,  # type: ignore[arg-type]
    )
    return pipeline("text-classification", model=BertForSequenceClassification(config).eval(), tokenizer=tokenizer)


def test_a_pipeline_is_judged_from_its_inputs_on_and_left_as_it_was(
    classifier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # a pipeline sets it for a list of inputs
    weight = classifier.model.classifier.weight
    before = classifier("a b")
    for inputs in ("a b", ["a b", "a"], ("a b",), {"inputs": "a b"}):
        report = mpsprobe.coverage(classifier, inputs, torch=RELEASE)
        assert report.failure is None and not report.findings
        assert report.workload.name == "TextClassificationPipeline of BertForSequenceClassification"
        assert "bert.encoder.layer.0.attention.output.dense" in {module for one in report for module in one.modules}
    assert classifier("a b") == before and classifier.device.type == "cpu"
    assert classifier.model.classifier.weight is weight


def test_one_that_generates_writes_a_few_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    model = GPT2LMHeadModel(GPT2Config(**VOCABULARY, n_embd=16, n_layer=1, n_head=2))
    writer = pipeline("text-generation", model=model, tokenizer=tokenizer)
    report = mpsprobe.coverage(writer, "a b", torch=RELEASE, phase="generate", new_tokens=3)
    assert report.failure is None and {"prefill", "decode"} <= {phase for one in report for phase in one.phases}
    assert "generate() of 3 tokens" in report.workload.notes
    assert "generate() of 8 tokens" in mpsprobe.coverage(writer, "a b", torch=RELEASE).workload.notes


def test_a_copy_of_it_is_timed(classifier: Any) -> None:
    report = mpsprobe.profile(classifier, "a b", device="cpu", steps=2, warmup=0, probe="none", no_fallbacks=True)
    assert report.cells[0].step is not None and report.cells[0].step.count == 2


def test_what_cannot_work_is_told(classifier: Any) -> None:
    for inputs, options, says in (
        (None, {}, "needs inputs"),
        ("a", {"phase": "training"}, "a pipeline is not trained"),
        ("a", {"batch_size": 2}, "Leave --batch-size out"),
    ):
        with pytest.raises(UsageError, match=says):
            mpsprobe.coverage(classifier, inputs, torch=RELEASE, **options)  # type: ignore[arg-type]
    classifier.device = torch.device("mps")
    with pytest.raises(UsageError, match="is on mps"):
        mpsprobe.coverage(classifier, "a", torch=RELEASE)
