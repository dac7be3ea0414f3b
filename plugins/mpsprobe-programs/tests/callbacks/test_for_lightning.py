"""``mpsprobe.LightningCallback`` in trainings of a tiny model, on the CPU and on the virtual device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger

import mpsprobe
from mpsprobe.errors import CheckFailed

FINDING = "aten::_linalg_eigvals"
VIRTUAL = partial(mpsprobe.observe, "mps", torch="2.13.0")
DATA = [(torch.arange(n, n + 4) / 9, n % 2) for n in range(16)]
pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own advice: workers, GPUs


class Model(lightning.LightningModule):  # type: ignore[misc]
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


def _fit(folder: Path, *callbacks: Any) -> tuple[lightning.Trainer, Model]:
    torch.manual_seed(0)
    model = Model()
    trainer = lightning.Trainer(
        max_steps=4, callbacks=[*callbacks], logger=CSVLogger(folder), log_every_n_steps=1,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, torch.utils.data.DataLoader(DATA, 2, shuffle=True))  # type: ignore[arg-type]
    return trainer, model


@pytest.mark.parametrize(("place", "device"), [(nullcontext, "cpu"), (VIRTUAL, "mps")])
def test_findings_are_in_logger_and_checkpoint_and_the_training_is_as_without_it(
    place: Callable[[], AbstractContextManager[Any]], device: str, tmp_path: Path
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
    assert callback.report.workload.name == "Model" and FINDING in (tmp_path / "mps.md").read_text(encoding="utf-8")


def test_a_verdict_ends_the_training(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match=f"{FINDING} is missing on torch 2.13.0"):
        _fit(tmp_path, mpsprobe.LightningCallback(torch="2.13.0", fail_on="missing"))
    trainer, _ = _fit(tmp_path, mpsprobe.LightningCallback(torch="2.13.0", fail_on="missing", then="stop"))
    assert trainer.global_step == 1
