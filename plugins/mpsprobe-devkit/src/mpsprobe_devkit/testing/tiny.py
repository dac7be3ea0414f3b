"""A torch workload of two layers, for tests that need a real one. torch is imported when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions, TorchRun

WIDTH = 4
SAMPLES = 2


@dataclass
class TinyWorkload:
    """Two linear layers with a ReLU between them, 30 parameters, two samples of width 4.

    Attributes:
        name: what it is called.
        raises: what its forward pass raises behind the first layer, if anything.
        built: how often it was built.
        framework: always ``torch``.
    """

    name: str = "tiny"
    raises: Exception | None = None
    framework: str = "torch"
    built: int = 0

    def build(self, options: RunOptions) -> TorchRun:
        """The model in the mode and dtype of ``options``, on torch's default device; its loss is the mean square.

        Raises:
            UsageError: a ``seq_len`` was asked for, or real weights: it has neither.
        """
        import torch

        if options.seq_len is not None or options.weights:
            asked = "weights" if options.weights else "sequences"
            raise UsageError(f"the workload '{self.name}' has no {asked}", "Leave that option out.")
        self.built += 1
        dtype = getattr(torch, options.dtype)
        layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 2)]
        if self.raises is not None:
            layers.insert(1, _raising(self.raises))
        model = torch.nn.Sequential(*layers).to(dtype)
        model.train(options.phase == "training")
        samples = options.batch_size or SAMPLES
        return TorchRun(
            model,
            (torch.ones(samples, WIDTH, dtype=dtype),),
            architecture="Tiny",
            loss=lambda output: output.float().pow(2).mean(),
            batch_size=samples,
        )

    def describe(self) -> Mapping[str, Any]:
        """Its architecture and its size."""
        return {"architecture": "Tiny", "parameters": WIDTH * WIDTH + WIDTH + 2 * WIDTH + 2}


def _raising(error: Exception) -> Any:
    """A layer that raises."""
    import torch

    class Raises(torch.nn.Module):
        def forward(self, value: Any) -> Any:
            del value
            raise error

    return Raises()
