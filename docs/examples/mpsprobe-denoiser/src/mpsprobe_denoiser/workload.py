"""The model and its inputs, as mpsprobe asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from mpsprobe.errors import UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.suggestions import printable

from mpsprobe_denoiser.diffusion import SAMPLING_STEPS, TIMES, make
from mpsprobe_denoiser.network import CHANNELS
from mpsprobe_denoiser.plugin import NAMED
from mpsprobe_denoiser.sizes import size_of

BATCH_SIZE = 4


class DenoiserWorkload:
    """Satisfies ``mpsprobe.protocols.Workload``.

    Args:
        name: one that ``plugin.py`` declares, or ``denoiser:SIZE``.

    Raises:
        WorkloadError: it says no size.
    """

    framework = "torch"

    def __init__(self, name: str) -> None:
        size = size_of(NAMED.get(name, name))
        if size is None:
            raise WorkloadError(f"'{printable(name)}' is none of the denoisers", f"There are: {', '.join(NAMED)}.")
        self.name, self.size = name, size

    def build(self, options: RunOptions) -> TorchRun:
        """One step: a batch of images made of noise, or in training the loss of a batch.

        Raises:
            UsageError: ``--weights`` or ``--seq-len``, which mean nothing here.
        """
        if options.weights:
            raise UsageError(f"'{self.name}' has no trained weights", "Leave out --weights.")
        if options.seq_len is not None:
            raise UsageError(f"'{self.name}' has no sequences", "Name another size: denoiser:PIXELS.")
        dtype: torch.dtype = getattr(torch, options.dtype)
        batch = options.batch_size or BATCH_SIZE
        shape = (batch, CHANNELS, self.size.pixels, self.size.pixels)
        training = options.phase == "training"
        inputs = {"noise": torch.randn(shape).to(dtype)}
        if training:
            inputs["images"] = torch.rand(shape).to(dtype)
            inputs["times"] = torch.arange(batch) * (TIMES // batch) % TIMES
        return TorchRun(
            model=make(self.size.width).to(dtype).train(training),
            kwargs=inputs,
            architecture="UNet",
            batch_size=batch,
            notes=() if training else (f"a step makes whole images, in {SAMPLING_STEPS} calls of the network",),
        )

    def describe(self) -> Mapping[str, Any]:
        """Facts for ``mpsprobe workloads show``."""
        return {
            "architecture": "UNet",
            "pixels": self.size.pixels,
            "width": self.size.width,
            "sampling_steps": SAMPLING_STEPS,
            "default_batch_size": BATCH_SIZE,
        }
