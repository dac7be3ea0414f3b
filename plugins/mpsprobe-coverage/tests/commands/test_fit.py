"""``mpsprobe fit``: the largest that fits, and what saves memory, each by running it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mpsprobe_coverage.scanner import variations
from mpsprobe_devkit.testing import run_cli

SMALL = ["--size", "small", "--torch", "2.13.0"]


def fit(*arguments: str) -> dict[str, Any]:
    """The report of ``fit``."""
    result = run_cli("fit", *arguments, *SMALL, "--format", "json", process=False)
    assert result.code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def answer(*arguments: str) -> str:
    """Whether ``coverage`` says that a training of bert-base fits."""
    result = run_cli(
        "coverage", "bert-base", "--phase", "training", *SMALL, "--format", "json", *arguments, process=False
    )
    return str(json.loads(result.stdout)["memory"]["fit"]["answer"])


def test_the_largest_batch_fits_and_the_next_one_does_not() -> None:
    found = fit("bert-base", "--phase", "training", "--memory", "2GB", "--plain")
    (row,) = found["rows"]
    largest, calm = row["largest"]["low"], row["without_pressure"]["low"]
    assert answer("--memory", "2GB", "--batch-size", str(largest)) == "pressure"
    assert answer("--memory", "2GB", "--batch-size", str(row["largest"]["high"] + 1)) == "raises"
    assert answer("--memory", "2GB", "--batch-size", str(calm)) == "fits"
    assert row["runs"] <= 4


@pytest.mark.thorough
def test_what_saves_memory_was_run() -> None:
    rows = {one["what"]: one for one in fit("bert-base", "--phase", "training", "--memory", "2GB")["rows"]}
    usual = rows.pop("as it is")
    assert "not installed" in rows.pop("8-bit AdamW")["note"]
    assert {"bfloat16", "gradient checkpointing", "SGD, which keeps no state", "LoRA of rank 16"} <= set(rows)
    del rows["gradient accumulation"]  # of half the batch; gradients are there in the second forward pass
    for one in rows.values():
        assert one["peak_bytes"] < usual["peak_bytes"] and one["largest"]["low"] > 0 and one["runs"] >= 3


class EightBits(torch.optim.Optimizer):
    """Keeps two states of a byte for each number, as torchao's does."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for one in self.param_groups[0]["params"]:
            self.state[one] = {name: torch.zeros_like(one, dtype=torch.uint8) for name in ("first", "second")}
            one.data.add_(one.grad)


@pytest.mark.thorough
def test_an_optimizer_of_eight_bits_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variations, "import_module", lambda name: SimpleNamespace(AdamW8bit=EightBits))
    rows = {one["what"]: one for one in fit("bert-base", "--phase", "training", "--memory", "1GB")["rows"]}
    saved = rows["as it is"]["peak_bytes"] - rows["8-bit AdamW"]["peak_bytes"]
    parameters = 38_603_520
    assert saved == pytest.approx(parameters * 6, rel=0.05) and "torch.compile" in rows["8-bit AdamW"]["note"]


def test_slices_of_attention_are_run(tmp_path: Path) -> None:
    path = tmp_path / "sliced.py"
    path.write_text(SLICED)
    result = run_cli("fit", f"{path}:make", "--vary", "size", "--memory", "2GB", "--format", "json", process=False)
    rows = {one["what"]: one for one in json.loads(result.stdout)["rows"]}
    assert rows["attention slicing"]["largest"]["low"] > rows["as it is"]["largest"]["low"] > 16


SLICED = """
import torch

class Attention(torch.nn.Module):
    slices = 1

    def set_attention_slice(self, size):
        assert size == "auto"
        self.slices = 2

    def forward(self, image):
        rows = image.flatten(2)
        return sum(((part.transpose(1, 2) @ rows).softmax(-1)).sum() for part in rows.chunk(self.slices, 2))

class Pipeline(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.unet = Attention()

    def forward(self, image):
        return self.unet(image)

def make():
    return Pipeline(), torch.ones(1, 4, 32, 32)
"""


def test_a_context_is_as_long_as_its_cache_allows() -> None:
    found = fit("llama-3-8b", "--phase", "generate", "--dtype", "float16", "--memory", "8GB", "--plain")
    assert found["vary"] == "seq-len" and found["new_tokens"] == 8
    assert found["rows"][0]["largest"]["low"] > found["rows"][0]["size"]


def test_the_model_may_be_what_bounds_a_length() -> None:
    (row,) = fit("bert-base", "--vary", "seq-len", "--memory", "8GB", "--plain")["rows"]
    assert row["largest"] == {"low": 512, "high": 512} and "512" in row["bound"]


def test_images_grow_by_what_the_network_divides_them_by() -> None:
    (row,) = fit("resnet50", "--vary", "size", "--memory", "1GB", "--plain")["rows"]
    assert row["size"] == 224 and row["largest"]["low"] > 224 and row["largest"]["low"] % 32 == 0


def test_a_model_of_one_image_size_is_asked_for_others_where_it_has_a_switch() -> None:
    (row,) = fit("vit-base", "--vary", "size", "--memory", "1GB", "--plain")["rows"]
    assert row["largest"]["low"] > row["size"] == 224 and row["largest"]["low"] % 16 == 0


MADE = """
import torch

class Fixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cut = torch.nn.Conv2d(3, 4, 14, stride=14)

    def forward(self, image):
        if image.shape[-1] != 224:
            raise ValueError("only 224")
        return self.cut(image)

class Listed(Fixed):
    def forward(self, images):
        return [self.cut(one[None]) for one in images]

def fixed():
    return Fixed(), torch.ones(2, 3, 224, 224)

def listed():
    return Listed(), ([torch.ones(3, 224, 448), torch.ones(3, 224, 448)],)
"""


def test_images_of_a_model_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text(MADE)

    def row(name: str) -> dict[str, Any]:
        arguments = ["--vary", "size", "--memory", "1GB", "--plain", "--format", "json"]
        result = run_cli("fit", f"{path}:{name}", *arguments, process=False)
        assert result.code == 0, result.stderr
        found: dict[str, Any] = json.loads(result.stdout)["rows"][0]
        return found

    fixed, listed = row("fixed"), row("listed")
    assert fixed["size"] == fixed["largest"]["low"] == 224 and "only 224" in fixed["bound"]
    assert listed["size"] == 448 and listed["largest"]["low"] > 4000 and listed["largest"]["low"] % 14 == 0


def test_a_memory_smaller_than_the_parameters_is_said_without_a_run() -> None:
    (row,) = fit("bert-base", "--memory", "20MB", "--plain")["rows"]
    assert row["largest"] == {"low": 0, "high": 0} and row["runs"] == 0 and "parameters alone" in row["note"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bert-base"], "fit on which Mac?"),
        (["bert-base", "--chip", "m2"], "fit on which Mac?"),
        (["bert-base", "--chip", "m9-16gb"], "unknown chip"),
        (["bert-base", "--memory", "16GB", "--vary", "seqlen"], "did you mean 'seq-len'"),
        (["bert-base", "--memory", "16GB", "--vary", "size"], "has no image to vary"),
        (["resnet50", "--memory", "16GB", "--vary", "seq-len"], "has no sequence length to vary"),
        (["bert-base", "--memory", "16GB", "--torch", "2.6,2.13"], "about one torch release"),
    ],
)
def test_bad_input(arguments: list[str], said: str) -> None:
    result = run_cli("fit", *arguments, process=False)
    assert result.code == 2 and said in result.stderr


def test_a_workload_whose_code_makes_its_inputs(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text("import torch\n\n\ndef make():\n    return torch.nn.Linear(4, 3), torch.ones(2, 4)\n")
    result = run_cli("fit", f"{path}:make", "--memory", "8GB", process=False)
    assert result.code == 2 and "has no batch size to vary" in result.stderr


def test_every_format_of_a_report(tmp_path: Path) -> None:
    names = {"markdown": "fit.md", "html": "fit.html", "csv": "fit.csv"}
    flags = [f"--export={name}={tmp_path / path}" for name, path in names.items()]
    result = run_cli("fit", "bert-base", "--memory", "1GB", *SMALL, *flags, process=False)
    assert result.code == 0 and "The largest batch that fits" in result.stdout
    for path in names.values():
        assert "as it is" in (tmp_path / path).read_text(encoding="utf-8")
