"""``mpsprobe.TransformersCallback``, for transformers' ``Trainer``; needs transformers only where it is made."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch as pytorch

from mpsprobe.schemas import CoverageReport
from mpsprobe_coverage.callbacks.steps import WatchedSteps, on_cpu, parent, without_values

_Parent = parent("TrainerCallback", "transformers")


class TransformersCallback(WatchedSteps, _Parent or object):  # type: ignore[misc]
    """For ``Trainer(…, callbacks=[mpsprobe.TransformersCallback()])``: what MPS does with the first steps.

    Where the model is on MPS or on the virtual device (``mpsprobe run``, ``with mpsprobe.observe("mps")``) the steps
    are watched. On the CPU and on CUDA a copy of the model without values is judged with the inputs of the first of
    them. Losses, weights and random numbers are what they are without it, to the last bit.

    The findings go into ``state.log_history``, so into the ``trainer_state.json`` of checkpoints: the operators of each
    verdict (``mps_native``, ``mps_fallback``, ``mps_missing``, …) and a line for each finding (``mps_findings``). The
    next line that Trainer prints has the numbers, and the logger ``mpsprobe`` warns of each finding. Trainer tells no
    callback that a step raised: such a step is watched until the next ``train()``.

    Args:
        steps: how many steps of each ``train()`` are watched, or the numbers of those that are, as Trainer counts them.
        torch: the release to judge where the device is not the real MPS: ``2.13.0``, ``latest``; ``None``: the
            installed one, or that of the virtual device.
        path: a file for the report, whose ending says how it is written: ``mps.html``, ``mps.json``.
        fail_on: verdicts that the training does not go on with: ``missing``, ``fallback``, ``unsupported``, …
        allow: operators that may have them: ``aten::linalg_qr.out``, ``linalg_qr``, ``fft_*``.
        then: what happens with such a verdict: ``raise`` a ``CheckFailed``, or ``stop`` the training.

    Attributes:
        report: what was found, once the last of the steps is over.

    Raises:
        UsageError: an argument that cannot be.
        MissingPackage: transformers is not installed.
    """

    needs = None if _Parent else ("mpsprobe.TransformersCallback", "transformers")
    _inputs: _Inputs | None = None
    _unprinted: dict[str, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin to count steps."""
        self._begin_training(state.global_step + 1)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Watch this step, if it is one of those."""
        if self._wants(state.global_step + 1) and state.is_world_process_zero:
            model = kwargs["model"]
            if self._begin(model):
                self._inputs = _Inputs(model)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Watch no more; after the last of the steps, write down what was found."""
        if not self._wants(state.global_step) or not state.is_world_process_zero:
            return
        inputs, self._inputs = self._inputs, None
        predict = None if inputs is None else partial(self._predicted, inputs, kwargs["model"], args)
        if self._end(state.global_step, predict):
            self._write_down(state, control, kwargs["model"])

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Print the numbers together with Trainer's next line."""
        if logs is not None:
            logs.update(self._unprinted)
        self._unprinted = {}

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write down what was found where the training was shorter than the steps to be watched."""
        self._close()
        if self.report is None:
            self._write_down(state, control, kwargs["model"])

    def _write_down(self, state: Any, control: Any, model: Any) -> None:
        def log(entry: dict[str, Any], numbers: dict[str, float]) -> None:
            state.log_history.append({**entry, "epoch": state.epoch, "step": state.global_step})
            self._unprinted = numbers

        if not self._conclude(model, log):
            control.should_training_stop = True

    def _predicted(self, inputs: _Inputs, model: Any, args: Any) -> CoverageReport:
        options: dict[str, Any] = {"clip_norm": args.max_grad_norm, "grad_accum": args.gradient_accumulation_steps}
        if args.fp16 or args.bf16:
            options["autocast"] = "float16" if args.fp16 else "bfloat16"
        positional, named = inputs.take()
        return self._predict(partial(without_values(model), *positional, **named), **options)


class _Inputs:
    """What ``model`` is called with next."""

    def __init__(self, model: pytorch.nn.Module) -> None:
        self._taken: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self._hook = model.register_forward_pre_hook(self._keep, with_kwargs=True)

    def _keep(self, model: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._hook.remove()
        self._taken = args, dict(kwargs)

    def take(self) -> Any:
        self._hook.remove()
        if self._taken is None:
            raise RuntimeError("the model was not called")
        return on_cpu(self._taken)
