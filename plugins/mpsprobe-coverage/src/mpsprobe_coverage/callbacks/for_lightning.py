"""``mpsprobe.LightningCallback``, for Lightning's ``Trainer``; needs Lightning only where it is made."""

from __future__ import annotations

from functools import partial
from typing import Any

from mpsprobe.schemas import CoverageReport
from mpsprobe_coverage.callbacks.steps import WatchedSteps, on_cpu, parent, without_values

_Parent = parent("Callback", "lightning.pytorch", "pytorch_lightning")  # two packages, whose classes differ


class LightningCallback(WatchedSteps, _Parent or object):  # type: ignore[misc]
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

    Attributes:
        report: what was found, once the last of the batches is over.

    Raises:
        UsageError: an argument that cannot be.
        MissingPackage: neither ``lightning`` nor ``pytorch-lightning`` is installed.
    """

    needs = None if _Parent else ("mpsprobe.LightningCallback", "lightning")
    _found: dict[str, Any] = {}
    _step, _predicts = 0, False

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to count batches."""
        self._step = trainer.fit_loop.total_batch_idx + 1
        self._begin_training(self._step + 1)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Watch this batch, if it is one of those."""
        self._step += 1
        if self._wants(self._step) and trainer.is_global_zero:
            self._predicts = self._begin(pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Watch no more; after the last of the batches, write down what was found."""
        if not self._wants(self._step) or not trainer.is_global_zero:
            return
        predict = partial(self._predicted, trainer, pl_module, batch, batch_idx) if self._predicts else None
        self._predicts = False
        if self._end(self._step, predict):
            self._write_down(trainer, pl_module)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write down what was found where there were fewer batches than were to be watched."""
        self._close()
        if self.report is None:
            self._write_down(trainer, pl_module)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Watch no more."""
        self._close()

    def state_dict(self) -> dict[str, Any]:
        """What was found, for checkpoints."""
        return self._found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What an earlier part of the training found."""
        self._found = state_dict

    def _write_down(self, trainer: Any, pl_module: Any) -> None:
        def log(entry: dict[str, Any], numbers: dict[str, float]) -> None:
            self._found = entry
            for logger in trainer.loggers:
                logger.log_metrics(numbers, trainer.global_step)

        if not self._conclude(pl_module, log):
            trainer.should_stop = True

    def _predicted(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> CoverageReport:
        options: dict[str, Any] = {"clip_norm": trainer.gradient_clip_val or 0.0}
        options["grad_accum"] = trainer.accumulate_grad_batches
        autocast = {"16-mixed": "float16", "bf16-mixed": "bfloat16"}.get(str(trainer.precision))
        step = without_values(pl_module).training_step
        return self._predict(partial(step, on_cpu(batch), batch_idx), autocast=autocast, **options)
