"""``--runner accelerate``: the loop that accelerate's documentation tells its users to write."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.protocols import Device, RunOptions, TorchRun, Workload
from mpsprobe.stepping import loss_of, make_adamw, workload_info
from mpsprobe_hf.transformers.runners.batches import EndlessBatch, built, call, reason_against, release

PRECISION = {None: "no", "float16": "fp16", "bfloat16": "bf16"}


class AccelerateRunner:
    """Satisfies ``mpsprobe.protocols.Runner``."""

    name = "accelerate"

    def unavailable(self, device: Device) -> str | None:
        """Why not."""
        return reason_against(device, "accelerate")

    def open(
        self, workload: Workload, options: RunOptions, device: Device, *, compiled: bool = False
    ) -> AccelerateSteps:
        """Build ``workload`` and prepare it. Raises as ``Runner.open``."""
        return AccelerateSteps(workload.name, built(workload, options), options, device, compiled=compiled)


class AccelerateSteps:
    """Satisfies ``mpsprobe.protocols.Steps``."""

    def __init__(
        self, name: str, run: TorchRun, options: RunOptions, device: Device, *, compiled: bool = False
    ) -> None:
        import torch
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        # Its state is one for the process and remembers device and precision of the configuration before.
        AcceleratorState._reset_state(reset_partial_state=True)
        self._accelerator = Accelerator(
            cpu=device.name == "cpu",
            mixed_precision=PRECISION[options.autocast],
            gradient_accumulation_steps=options.grad_accum,
        )
        if self._accelerator.device.type != device.name:
            raise UsageError(f"accelerate chose {self._accelerator.device.type}, not {device.name}")
        self._run, self._options, self._device = run, options, device
        model = run.model.to(device.name)
        optimizer = run.optimizer(model) if run.optimizer else make_adamw(model)
        self.info = workload_info(name, run, options, optimizer)
        if compiled:
            model = torch.compile(model)
        self._model, self._optimizer, loader = self._accelerator.prepare(model, optimizer, EndlessBatch(run).loader())
        self.model: Any = run.model
        self._batches = iter(loader)

    def step(self) -> None:
        """One optimizer update; nothing is synchronised."""
        self._update(lambda _name, action: action())

    def phases(self) -> Mapping[str, int]:
        """One optimizer update, synchronised after each phase: ns by phase, ``data`` being the batch's way here."""
        found = dict.fromkeys(("data", "forward", "backward", "optimizer"), 0)

        def timed(name: str, action: Callable[[], Any]) -> Any:
            self._device.synchronize()
            start = time.perf_counter_ns()
            result = action()
            self._device.synchronize()
            found[name] += time.perf_counter_ns() - start
            return result

        self._update(timed)
        return found

    def close(self) -> None:
        """Forget everything."""
        self._accelerator.free_memory()
        self._batches = iter(())
        self._model = self._optimizer = self.model = None
        self._run = TorchRun(model=None)
        release(self._device)

    def _update(self, timed: Callable[[str, Callable[[], Any]], Any]) -> None:
        for _ in range(self._options.grad_accum):
            batch = timed("data", lambda: next(self._batches))
            with self._accelerator.accumulate(self._model):
                loss = timed("forward", partial(self._loss, batch))
                timed("backward", partial(self._accelerator.backward, loss))
                timed("optimizer", self._optimize)

    def _loss(self, batch: dict[str, Any]) -> Any:
        return loss_of(self._run, call(self._run, self._model, batch))

    def _optimize(self) -> None:
        if self._accelerator.sync_gradients and self._options.clip_norm > 0:
            self._accelerator.clip_grad_norm_(self._model.parameters(), self._options.clip_norm)
        self._optimizer.step()  # does nothing while gradients accumulate
        self._optimizer.zero_grad()
