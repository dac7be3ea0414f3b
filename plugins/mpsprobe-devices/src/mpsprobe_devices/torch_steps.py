"""A torch workload on a real device, step by step: inference, or forward, backward and the optimizer's update."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.stepping import forward, loss_of, make_adamw, workload_info

if TYPE_CHECKING:
    from mpsprobe_devices.torch_device import TorchDevice


def move(value: Any, device: str) -> Any:
    """``value`` with every tensor in it on ``device``."""
    return tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, value)


class TorchSteps:
    """Satisfies ``mpsprobe.protocols.Steps``.

    Args:
        compiled: run the model through ``torch.compile``.
    """

    def __init__(
        self, name: str, run: TorchRun, options: RunOptions, device: TorchDevice, *, compiled: bool = False
    ) -> None:
        self._run, self._options, self._device = run, options, device
        self._parameters = [p for p in run.model.parameters() if p.requires_grad]
        self._optimizer: Any = None
        self._scaler: Any = None
        if options.phase == "training":
            self._optimizer = run.optimizer(run.model) if run.optimizer else make_adamw(run.model)
            if options.autocast == "float16":
                self._scaler = torch.amp.GradScaler(device.name)
        self.info = workload_info(name, run, options, self._optimizer)
        self.model: Any = run.model
        if compiled:
            run.model = torch.compile(run.model)

    def step(self) -> None:
        """One whole step; nothing is synchronised."""
        if self._options.phase == "inference":
            self._infer()
            return
        for _ in range(self._options.grad_accum):
            self._backward(self._loss())
        self._update()

    def phases(self) -> Mapping[str, int]:
        """One whole step, synchronised after each phase: ns by phase, summed over the passes that are accumulated."""
        if self._options.phase == "inference":
            return {"forward": self._timed(self._infer)[0]}
        found = {"forward": 0, "backward": 0, "optimizer": 0}
        for _ in range(self._options.grad_accum):
            spent, loss = self._timed(self._loss)
            found["forward"] += spent
            found["backward"] += self._timed(partial(self._backward, loss))[0]
        found["optimizer"] += self._timed(self._update)[0]
        return found

    def close(self) -> None:
        """Forget model, inputs and optimizer, and give the device's memory back."""
        self._run, self.model = TorchRun(model=torch.nn.Identity()), None
        self._parameters, self._optimizer, self._scaler = [], None, None
        self._device.empty_cache()

    def _timed(self, action: Callable[[], Any]) -> tuple[int, Any]:
        self._device.synchronize()
        start = time.perf_counter_ns()
        result = action()
        self._device.synchronize()
        return time.perf_counter_ns() - start, result

    def _infer(self) -> None:
        with torch.inference_mode():
            forward(self._run, self._options, self._device.name, self._run.args, self._run.kwargs)

    def _loss(self) -> Any:
        output = forward(self._run, self._options, self._device.name, self._run.args, self._run.kwargs)
        loss = loss_of(self._run, output)
        if self._options.grad_accum > 1:
            loss = loss / self._options.grad_accum
        return loss

    def _backward(self, loss: Any) -> None:
        (loss if self._scaler is None else self._scaler.scale(loss)).backward()

    def _update(self) -> None:
        if self._scaler is not None:
            self._scaler.unscale_(self._optimizer)
        if self._options.clip_norm > 0:
            torch.nn.utils.clip_grad_norm_(self._parameters, self._options.clip_norm)
        if self._scaler is not None:
            self._scaler.step(self._optimizer)
            self._scaler.update()
        else:
            self._optimizer.step()
        self._optimizer.zero_grad()
