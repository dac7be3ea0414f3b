"""The callbacks for transformers and Lightning in trainings of a tiny model, on the CPU and on the virtual device."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as lightning
import pytest
import torch
from accelerate.state import AcceleratorState, GradientState, PartialState
from lightning.pytorch.loggers import CSVLogger
from transformers import BertConfig, Trainer, TrainingArguments, set_seed
from transformers import BertForSequenceClassification as Bert

import mpsprobe
from mpsprobe.errors import CheckFailed, MpsprobeError, UsageError
from tests.thorough import all_but

CONFIG = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
SENTENCES = [{"input_ids": torch.arange(n, n + 5) % 9, "labels": n % 2} for n in range(16)]
FINDING = "aten::_linalg_eigvals"
VIRTUAL = partial(mpsprobe.observe, "mps", torch="2.13.0")
DATA = [(torch.arange(n, n + 4) / 9, n % 2) for n in range(16)]
Place = Callable[[], AbstractContextManager[Any]]
PLACES: list[tuple[Place, str]] = [(nullcontext, "cpu"), (VIRTUAL, "mps")]


class Model(Bert):  # type: ignore[misc]
    """With an operator that MPS does not have, and random numbers (dropout)."""

    def forward(self, input_ids: Any = None, labels: Any = None) -> Any:
        torch.linalg.eigvals(torch.eye(2, device=input_ids.device))
        return super().forward(input_ids=input_ids, labels=labels)


class Trained(NamedTuple):
    """What a training leaves."""

    device: str
    result: list[Any]
    history: list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _accelerate_chooses_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1")  # as accelerate does where it takes MPS
    states = (PartialState, AcceleratorState, GradientState)
    before = [dict(one._shared_state) for one in states]
    for one in states:
        one._shared_state.clear()
    yield
    for one, shared in zip(states, before, strict=True):
        one._shared_state.clear()
        one._shared_state.update(shared)


def _train(folder: Path, *callbacks: Any, model: type[Model] = Model, **options: Any) -> Trained:
    set_seed(0)
    given: dict[str, Any] = {
        "max_steps": 4, "per_device_train_batch_size": 2, "logging_steps": 2, "save_steps": 4, "disable_tqdm": True,
        "dataloader_pin_memory": False, "report_to": "none", "output_dir": str(folder), **options,
    }  # fmt: skip
    trainer = Trainer(model(CONFIG), TrainingArguments(**given), train_dataset=SENTENCES, callbacks=[*callbacks])
    try:
        trainer.train()
    finally:
        for one in (PartialState, AcceleratorState, GradientState):
            one._shared_state.clear()
    history = trainer.state.log_history
    losses = [float(one.get("loss", one.get("train_loss", 0))) for one in history if "mps_missing" not in one]
    weights = [one.tolist() for one in trainer.model.parameters()]
    return Trained(str(trainer.args.device), [losses, weights, torch.rand(()).item()], history)


@pytest.mark.parametrize(("place", "device"), all_but(lambda _, device: device == "cpu", PLACES))
def test_findings_are_in_the_log_and_the_training_is_as_without_it(place: Place, device: str, tmp_path: Path) -> None:
    callback = mpsprobe.TransformersCallback(2, torch="2.13.0", path=tmp_path / "mps.json")
    with place():
        plain = _train(tmp_path / "plain")
        watched = _train(tmp_path / "watched", callback)
    assert watched.result == plain.result and watched.device == plain.device == device

    [entry] = [one for one in watched.history if "mps_findings" in one]
    assert entry["step"] == 2 and entry["mps_missing"] == 1 and entry["mps_native"] > 20
    [finding] = entry["mps_findings"]
    assert finding.startswith(f"{FINDING} missing at ") and Path(__file__).name in finding
    kept = json.loads((tmp_path / "watched" / "checkpoint-4" / "trainer_state.json").read_text(encoding="utf-8"))
    assert entry in kept["log_history"]

    assert callback.report is not None and callback.report.method == "predicted"
    assert callback.report.workload.parameters == sum(one.numel() for one in Model(CONFIG).parameters())
    assert callback.report.workload.name == "Model" and callback.report.target.torch == "2.13.0"
    assert [one.operator for one in callback.report.findings] == [FINDING]
    assert mpsprobe.load_report(tmp_path / "mps.json") == callback.report


@pytest.mark.thorough
def test_steps_are_those_that_were_named(tmp_path: Path) -> None:
    callback = mpsprobe.TransformersCallback([2, 9], torch="2.13.0")
    with VIRTUAL():
        one = _train(tmp_path / "one", callback)
        assert [entry["step"] for entry in one.history if "mps_findings" in entry] == [4], "it was the last"
        calls = {entry.operator: entry.calls for entry in callback.report or ()}
        _train(tmp_path / "again", callback)
    assert calls[FINDING] == 1
    assert calls == {entry.operator: entry.calls for entry in callback.report or ()}


def test_a_verdict_ends_the_training(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match=f"{FINDING} is missing on torch 2.13.0"):
        _train(tmp_path, mpsprobe.TransformersCallback(torch="2.13.0", fail_on="missing"))
    stopped = mpsprobe.TransformersCallback(torch="2.13.0", fail_on=["missing"], then="stop")
    assert _train(tmp_path, stopped).history[-1]["step"] == 1
    allowed = mpsprobe.TransformersCallback(torch="2.13.0", fail_on="missing,fallback", allow="*linalg_*")
    assert _train(tmp_path, allowed).history[-1]["step"] == 4


class Reads(Model):
    """Cannot be run without values."""

    def forward(self, input_ids: Any = None, labels: Any = None) -> Any:
        if input_ids.device.type == "cpu":
            return super().forward(input_ids, labels)
        raise ValueError("only on the CPU")


@pytest.mark.thorough
def test_what_cannot_be_judged_is_said(tmp_path: Path) -> None:
    callback = mpsprobe.TransformersCallback()
    [entry] = [one for one in _train(tmp_path, callback, model=Reads).history if "mps_findings" in one]
    assert entry["mps_notes"][0] == "What MPS does with these steps is not known: ValueError: only on the CPU"
    assert callback.report is not None and callback.report.method == "observed"
    assert callback.report.target.backend == "cpu" and callback.report.summary.calls > 50
    with pytest.raises(MpsprobeError, match="is not known: ValueError"):
        _train(tmp_path, mpsprobe.TransformersCallback(fail_on="missing"), model=Reads)
    with VIRTUAL(), pytest.raises(MpsprobeError, match="the model is on cpu, and not on the virtual MPS device"):
        _train(tmp_path, mpsprobe.TransformersCallback(fail_on="missing"), use_cpu=True)


def test_arguments_that_cannot_be() -> None:
    for wrong in (0, [], [1, 0], True, 1.5):
        with pytest.raises(UsageError, match="steps takes a whole number from 1"):
            mpsprobe.TransformersCallback(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown verdict 'mising'; did you mean 'missing'"):
        mpsprobe.TransformersCallback(fail_on="mising")
    with pytest.raises(UsageError, match="unknown torch release"):
        mpsprobe.TransformersCallback(torch="9.9")
    with pytest.raises(UsageError, match="then takes 'raise' or 'stop', not 'warn'"):
        mpsprobe.TransformersCallback(then="warn")  # type: ignore[arg-type]


class Lit(lightning.LightningModule):  # type: ignore[misc]
    """With an operator that MPS does not have, and random numbers (dropout)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2))
        self.losses: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        torch.linalg.eigvals(torch.eye(2, device=x.device))
        loss = torch.nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        if loss.device.type != "meta":
            self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 0.1)


def _fit(folder: Path, *callbacks: Any) -> tuple[lightning.Trainer, Lit]:
    torch.manual_seed(0)
    model = Lit()
    trainer = lightning.Trainer(
        max_steps=4, callbacks=[*callbacks], logger=CSVLogger(folder), log_every_n_steps=1,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, torch.utils.data.DataLoader(DATA, 2, shuffle=True))  # type: ignore[arg-type]
    return trainer, model


@pytest.mark.filterwarnings("ignore")  # Lightning's own advice: workers, GPUs
@pytest.mark.parametrize(("place", "device"), PLACES)
def test_findings_are_in_logger_and_checkpoint_and_the_training_is_as_without_it(
    place: Place, device: str, tmp_path: Path
) -> None:
    callback = mpsprobe.LightningCallback(2, torch="2.13.0", path=tmp_path / "mps.md")
    with place():
        _, plain = _fit(tmp_path / "plain")
        trainer, watched = _fit(tmp_path / "watched", callback)
        trainer.save_checkpoint(tmp_path / "last.ckpt")
        kept = torch.load(tmp_path / "last.ckpt", weights_only=True)["callbacks"]["LightningCallback"]
        assert all(map(torch.equal, plain.state_dict().values(), watched.state_dict().values()))
    assert watched.losses == plain.losses and len(plain.losses) == 4
    assert trainer.strategy.root_device.type == device
    assert kept["mps_missing"] == 1 and kept["mps_findings"][0].startswith(f"{FINDING} missing at ")
    [metrics] = (tmp_path / "watched").rglob("metrics.csv")
    assert "mps_missing" in metrics.read_text(encoding="utf-8")
    assert callback.report is not None and [one.operator for one in callback.report.findings] == [FINDING]
    assert callback.report.workload.name == "Lit" and FINDING in (tmp_path / "mps.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")
def test_a_verdict_ends_the_training_of_lightning(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match=f"{FINDING} is missing on torch 2.13.0"):
        _fit(tmp_path, mpsprobe.LightningCallback(torch="2.13.0", fail_on="missing"))
    trainer, _ = _fit(tmp_path, mpsprobe.LightningCallback(torch="2.13.0", fail_on="missing", then="stop"))
    assert trainer.global_step == 1
