"""Whether a workload fits (``coverage --memory``, ``--chip``, ``chips``), and the largest that does (``fit``)."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mpsprobe_coverage.knowledge.chips.store import all_chips
from mpsprobe_coverage.scanning import largest_size
from mpsprobe_devkit.testing import run_cli

SMALL = ["--size", "small", "--torch", "2.13.0"]
LARGE = ["--phase", "training", "--batch-size", "54"]
"""It takes 2.2 GB."""


def answer(*arguments: str) -> tuple[dict[str, Any], int]:
    """``memory.fit`` of ``coverage bert-base`` with ``arguments``, and the exit code."""
    result = run_cli(
        "coverage", "bert-base", *SMALL, "--format", "json", "--fail-on", "memory", *arguments, process=False
    )
    return json.loads(result.stdout)["memory"]["fit"], result.code


def test_fits_with_a_margin_at_both_ends() -> None:
    found, code = answer("--chip", "m2-pro-16gb")
    assert (found["machine"], found["answer"], found["basis"], code) == ("m2-pro-16gb", "fits", "published", 0)
    low, high = found["low"], found["high"]
    assert low["recommended_bytes"] < high["recommended_bytes"] and low["margin_bytes"] < high["margin_bytes"]
    assert low["allowed_bytes"] == int(1.7 * low["recommended_bytes"])
    assert low["collects_bytes"] == int(1.4 * low["recommended_bytes"]) and found["sources"]


def test_where_only_one_of_the_published_figures_is_enough_it_is_unclear_and_more_than_the_mac_has() -> None:
    found, code = answer("--phase", "training", "--batch-size", "875", "--memory", "16GB")
    assert found["answer"] == "unclear" and code == 1
    assert found["low"]["answer"] == "raises" and found["high"]["answer"] != "raises"


def test_the_message_is_pytorchs_with_the_call_at_which_it_raises() -> None:
    found, code = answer(*LARGE, "--memory", "1GB")
    low = found["low"]
    assert found["answer"] == "raises" and code == 1
    assert low["message"].startswith("MPS backend out of memory (MPS allocated: ")
    assert f"max allowed: {low['allowed_bytes'] / 2**30:.2f} GiB" in low["message"]
    assert low["operator"].startswith("aten::") and low["module"] and ".py:" in low["call_site"]
    assert low["first_step"] and low["margin_bytes"] < 0


def test_parameters_alone_are_too_much() -> None:
    found, _ = answer("--memory", "200MB")
    assert [found["low"][name] for name in ("refused", "phase", "operator")] == ["parameters", None, None]
    shown = run_cli("coverage", "bert-base", "--torch", "2.13.0", "--memory", "200MB", process=False).stdout
    assert "Does not fit on a Mac with" in shown and "its parameters alone 437.9 MB" in " ".join(shown.split())


def test_more_memory_than_the_mac_has_does_not_fit(tmp_path: Path) -> None:
    arguments = ("--memory", "1GB", "--fail-on", "memory", "-o", tmp_path / "r.json")
    ended = run_cli("coverage", "bert-base", *arguments, process=False)
    assert ended.code == 1
    assert ended.stderr.startswith("Does not fit on a Mac with 1 GB: it needs 1.1 GB, 8.4 MB more than the Mac has")
    assert "--fail-on: it needs 1.1 GB of memory, 8.4 MB more than the Mac has" in ended.stderr


def test_a_watermark_of_zero_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.0")
    found, _ = answer(*LARGE, "--memory", "1GB")
    assert found["answer"] == "pressure" and found["low"]["allowed_bytes"] is None


def test_a_format_that_shows_allocations_asks_for_them(tmp_path: Path) -> None:
    report, shown, again = (tmp_path / name for name in ("report.json", "step.pickle", "again.pickle"))
    run_cli("coverage", "bert-base", *SMALL, "-o", report, "--export", f"memory-viz={shown}", process=False)
    assert json.loads(report.read_text("utf-8"))["memory"]["allocations"]["storages"]
    run_cli("export", report, "--to", "memory-viz", "-o", again, process=False)
    assert again.read_bytes() == shown.read_bytes()


def test_every_chip_is_listed() -> None:
    result = run_cli("chips", process=False)
    assert result.code == 0 and [line.split()[0] for line in result.stdout.splitlines()[2:-2]] == [*all_chips()]
    rows = run_cli("chips", "list", "--format", "json", process=False).json()
    assert [row["name"] for row in rows] == [*all_chips()] and rows[0]["family"] == 7


def test_one_chip_with_its_limits_and_their_threads() -> None:
    result = run_cli("chips", "show", "m2-pro", process=False)
    assert "with 16 GB" in result.stdout and "with 32 GB" in result.stdout
    assert "10.67-11.84 GiB" in result.stdout and "AlexsJones/llmfit#754" in result.stdout
    document = run_cli("chips", "show", "M3 Max 64GB", "--format", "json", process=False).json()
    assert [one["memory_bytes"] for one in document["limits"]] == [64 * 2**30]
    wrong = run_cli("chips", "show", "m3-maxx", process=False)
    assert wrong.code == 2 and "did you mean 'm3-max'" in wrong.stderr


def fit(workload: str, *arguments: str) -> Any:
    """The report of ``fit``."""
    size = () if ".py:" in workload else SMALL
    return run_cli("fit", workload, *arguments, *size, "--format", "json", process=False).json()


def test_the_largest_batch_fits_and_the_next_one_does_not() -> None:
    training = ("bert-base", "--phase", "training", "--memory", "2GB")
    (row,) = fit(*training, "--plain")["rows"]
    assert row["runs"] <= 4
    sizes = row["without_pressure"]["low"], row["largest"]["low"], row["largest"]["high"] + 1
    for size, answer in zip(sizes, ("fits", "pressure", "raises"), strict=True):
        asked = ("--batch-size", str(size), "--format", "json")
        report = run_cli("coverage", *training, *SMALL, *asked, process=False).json()
        assert report["memory"]["fit"]["answer"] == answer, size


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
    monkeypatch.setattr(largest_size, "import_module", lambda name: SimpleNamespace(AdamW8bit=EightBits))
    rows = {one["what"]: one for one in fit("bert-base", "--phase", "training", "--memory", "1GB")["rows"]}
    saved = rows["as it is"]["peak_bytes"] - rows["8-bit AdamW"]["peak_bytes"]
    parameters = 38_603_520
    assert saved == pytest.approx(parameters * 6, rel=0.05) and "torch.compile" in rows["8-bit AdamW"]["note"]


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

def fixed():
    return Fixed(), torch.ones(2, 3, 224, 224)

def listed():
    return Listed(), ([torch.ones(3, 224, 448), torch.ones(3, 224, 448)],)

def sliced():
    return Pipeline(), torch.ones(1, 4, 32, 32)
"""


def test_images_of_a_model_of_ones_own_and_slices_of_its_attention(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(MADE)
    asked = ("--vary", "size", "--memory", "1GB")
    [fixed] = fit(f"{tmp_path}/made.py:fixed", *asked, "--plain")["rows"]
    [listed] = fit(f"{tmp_path}/made.py:listed", *asked, "--plain")["rows"]
    assert fixed["size"] == fixed["largest"]["low"] == 224 and "only 224" in fixed["bound"]
    assert listed["size"] == 448 and listed["largest"]["low"] > 4000 and listed["largest"]["low"] % 14 == 0
    rows = {one["what"]: one for one in fit(f"{tmp_path}/made.py:sliced", *asked[:2], "--memory", "2GB")["rows"]}
    assert rows["attention slicing"]["largest"]["low"] > rows["as it is"]["largest"]["low"] > 16


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
        (["models.py:late", "--memory", "16GB"], "has no batch size to vary"),
    ],
)
def test_bad_input(folder: Path, arguments: list[str], said: str) -> None:
    result = run_cli("fit", *arguments, cwd=folder, process=False)
    assert result.code == 2 and said in result.stderr


def test_every_format_of_a_report(tmp_path: Path) -> None:
    pages = [tmp_path / name for name in ("markdown", "html", "csv")]
    flags = [f"--export={path.name}={path}" for path in pages]
    result = run_cli("fit", "bert-base", "--memory", "1GB", *SMALL, *flags, process=False)
    assert result.code == 0 and "No batch fits" in result.stdout and "PyTorch raises beyond" in result.stdout
    assert all("as it is" in path.read_text(encoding="utf-8") for path in pages)
