"""``mpsprobe.LightningCallback``, for Lightning's ``Trainer``; needs Lightning only where it is made."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from os import PathLike
from typing import Any, Literal

from mpsprobe.errors import MissingPackage
from mpsprobe.schemas import CoverageReport
from mpsprobe_coverage.callbacks.steps import WatchedSteps, numbers, on_cpu, parent, without_values

_Parent = parent("Callback", "lightning.pytorch", "pytorch_lightning")  # two packages, whose classes differ


class LightningCallback(_Parent or object):  # type: ignore[misc]
    """For ``Trainer(…, callbacks=[mpsprobe.LightningCallback()])``: what MPS does with the first batches.

    Where the model is on MPS or on the virtual device (``mpsprobe run``, ``with mpsprobe.observe("mps")``) they are
    watched. On the CPU and on CUDA a copy of the model without values is judged with the first of them. Losses, weights
    and random numbers are what they are without it, to the last bit.

    Each logger of the Trainer gets the number of operators of each verdict (``mps_native``, ``mps_fallback``,
    ``mps_missing``, …), a checkpoint also a line for each finding (``mps_findings``, in this callback's state), and the
    logger ``mpsprobe`` warns of each.

    Args:
        steps: how many batches of each ``fit()`` are watched, or the numbers of those that are, from 1 on.
        torch: the release to judge where the device is not the real MPS: ``2.13.0``, ``latest``; ``None``: the
            installed one, or that of the virtual device.
        path: a file for the report, whose ending says how it is written: ``mps.html``, ``mps.json``.
        fail_on: verdicts that the training does not go on with: ``missing``, ``fallback``, ``unsupported``, …
        allow: operators that may have them: ``aten::linalg_qr.out``, ``linalg_qr``, ``fft_*``.
        then: what happens with such a verdict: ``raise`` a ``CheckFailed``, or ``stop`` the training.

    Raises:
        UsageError: an argument that cannot be.
        MissingPackage: neither ``lightning`` nor ``pytorch-lightning`` is installed.
    """

    def __init__(
        self,
        steps: int | Collection[int] = 1,
        *,
        torch: str | None = None,
        path: str | PathLike[str] | None = None,
        fail_on: str | Sequence[str] = (),
        allow: str | Sequence[str] = (),
        then: Literal["raise", "stop"] = "raise",
    ) -> None:
        if _Parent is None:
            raise MissingPackage("mpsprobe.LightningCallback", "lightning")
        super().__init__()
        self._watched = WatchedSteps(steps, torch, path, fail_on, allow, then)
        self._said: dict[str, Any] = {}
        self._step, self._predicts = 0, False

    @property
    def report(self) -> CoverageReport | None:
        """What was found, once the last of the batches is over."""
        return self._watched.report

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to count batches."""
        self._step = trainer.fit_loop.total_batch_idx + 1
        self._watched.begin_training(self._step + 1)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Watch this batch, if it is one of those."""
        self._step += 1
        if self._watched.wants(self._step) and trainer.is_global_zero:
            self._predicts = self._watched.begin(pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Watch no more; after the last of the batches, write down what was found."""
        if not self._watched.wants(self._step) or not trainer.is_global_zero:
            return
        predict = partial(self._predicted, trainer, pl_module, batch, batch_idx) if self._predicts else None
        self._predicts = False
        if self._watched.end(self._step, predict):
            self._conclude(trainer, pl_module)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write down what was found where there were fewer batches than were to be watched."""
        self._watched.close()
        if self._watched.report is None:
            self._conclude(trainer, pl_module)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Watch no more."""
        self._watched.close()

    def state_dict(self) -> dict[str, Any]:
        """What was found, for checkpoints."""
        return self._said

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What an earlier part of the training found."""
        self._said = state_dict

    def _conclude(self, trainer: Any, pl_module: Any) -> None:
        said = self._watched.conclude(pl_module)
        if said:
            self._said = said
            for logger in trainer.loggers:
                logger.log_metrics(numbers(said), trainer.global_step)
        if not self._watched.passes():
            trainer.should_stop = True

    def _predicted(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> CoverageReport:
        options: dict[str, Any] = {"clip_norm": trainer.gradient_clip_val or 0.0}
        options["grad_accum"] = trainer.accumulate_grad_batches
        autocast = {"16-mixed": "float16", "bf16-mixed": "bfloat16"}.get(str(trainer.precision))
        if autocast is not None:
            options["autocast"] = autocast
        step = without_values(pl_module).training_step
        return self._watched.predicted(partial(step, on_cpu(batch), batch_idx), **options)
