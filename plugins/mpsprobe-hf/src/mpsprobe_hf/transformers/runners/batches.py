"""A workload's one batch as a data set that never ends, in host memory: each step pays for its way to the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from mpsprobe import stepping
from mpsprobe.errors import UsageError, install_command
from mpsprobe.protocols import Device, RunOptions, TorchRun, Workload

DEVICES = ("cpu", "cuda", "mps")
POSITIONAL = "args"  # the key under which positional inputs travel


class EndlessBatch(IterableDataset[dict[str, Any]]):
    """The inputs of ``run``, again and again, as a batch that is made already."""

    def __init__(self, run: TorchRun) -> None:
        super().__init__()
        self._batch = {**run.kwargs, **({POSITIONAL: run.args} if run.args else {})}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            yield dict(self._batch)

    def loader(self) -> DataLoader[dict[str, Any]]:
        """Batches as they are."""
        return DataLoader(self, batch_size=None)


def built(workload: Workload, options: RunOptions) -> TorchRun:
    """``workload`` in host memory, ready to be trained.

    Raises WorkloadError: it did not build a torch workload; UsageError: it has no training phase, or an input has the
    name that positional ones travel under.
    """
    if options.phase != "training":
        raise UsageError("a training loop runs training only", "Say --phase training.")
    run = stepping.built(workload, options)
    if run.args and POSITIONAL in run.kwargs:
        raise UsageError(f"the workload '{workload.name}' has an input called '{POSITIONAL}' and positional ones")
    return stepping.settled(run, options, "cpu", lambda value: value)


def call(run: TorchRun, model: Any, batch: dict[str, Any]) -> Any:
    """What ``model`` returns for ``batch``; ``run`` says how it is called."""
    kwargs = {name: value for name, value in batch.items() if name != POSITIONAL or not run.args}
    args = tuple(batch[POSITIONAL]) if run.args else ()
    return run.call(model, args, kwargs) if run.call is not None else model(*args, **kwargs)


def reason_against(device: Device, *distributions: str) -> str | None:
    """Why a loop of these ``distributions`` cannot run on ``device``; ``None`` where it can."""
    import importlib.util

    missing = [name for name in distributions if importlib.util.find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed: {install_command('mpsprobe-hf[trainer]')}"
    if device.name not in DEVICES:
        return f"it knows {', '.join(DEVICES)} only"
    if device.name == "cpu":
        return None
    best = torch.accelerator.current_accelerator()
    if best is None or best.type != device.name:
        return f"it takes the accelerator that torch prefers, which is {best.type if best else 'none'}"
    return None


def release(device: Device) -> None:
    """Give the device's memory back, where it can."""
    empty = getattr(device, "empty_cache", None)
    if empty is not None:
        empty()
