"""``generate()``: which of its calls are prefill, decode and sampling, and what its next tokens are chosen from.

What the model runs is ``prefill`` until it has a cache of its own making, then ``decode``. What is run outside of every
module is ``sampling``: logits processors, choosing tokens, stopping criteria, reordering beams, what is done with the
tokens afterwards.

A model without data gives no scores to choose tokens from, and whatever were assumed of single values would end
generation at some step, or never. So its scores are made up, as a whole, and noted as an assumption: everything after
them has real values, and goes the way that a Mac goes with such scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.data_dependent import known_values_of
from mpsprobe_coverage.devices.virtual.tensor import VirtualTensor, undispatched
from mpsprobe_coverage.reporting.memory import label_cache

PREFILL, DECODE, SAMPLING = "prefill", "decode", "sampling"
SCORES = "logits"  # the field of a model's output that holds the scores of the next token
_CACHES = ("past_key_values", "cache_params")  # the fields that hold what is kept for it
ASSUMPTION = "one token from the middle of the vocabulary is the likeliest"
LIKELIEST = 100.0  # its score; the others lie between -1 and 1


class Generation:
    """Records what runs inside ``with recording()`` by the phases of generation, on ``device``, which is open.

    ``steps`` counts the calls of the model in each phase, ``seen`` has the phases of all modules.
    """

    def __init__(self, device: VirtualDevice) -> None:
        self.device = device
        self.steps = {PREFILL: 0, DECODE: 0}
        self.seen: set[str] = set()
        self._caches: list[Any] = []
        self._parts: dict[int, str] = {}  # modules of the model that have no cache, by their id

    @contextmanager
    def recording(self) -> Iterator[None]:
        inside = False
        original: Any = torch.nn.Module.__call__

        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside:
                return original(module, *args, **kwargs)
            inside = True
            try:
                phase = self._phase(module, kwargs)
                self.seen.add(phase)
                with self.device.recording(phase):
                    output = original(module, *args, **kwargs)
            finally:
                inside = False
            self._make_up_scores(output)
            label_cache(*self._caches[-1:], *(getattr(output, name, None) for name in _CACHES))
            return output

        torch.nn.Module.__call__ = call  # type: ignore[method-assign]
        try:
            with self.device.recording(SAMPLING):
                yield
        finally:
            torch.nn.Module.__call__ = original  # type: ignore[method-assign]

    def _phase(self, module: torch.nn.Module, kwargs: dict[str, Any]) -> str:
        """Of a call of ``module`` by nobody else: an encoder's comes before the first step, a codec's after it."""
        cache = next((value for value in kwargs.values() if hasattr(value, "get_seq_length")), None)
        if cache is None:
            phase = DECODE if any(self.steps.values()) else PREFILL
            if not hasattr(module, "generate"):
                return self._parts.setdefault(id(module), phase)
        else:
            phase = DECODE if any(cache is earlier for earlier in self._caches) else PREFILL
            self._caches.append(cache)
        self.steps[phase] += 1
        return phase

    def _make_up_scores(self, output: Any) -> None:
        """Another token is the likeliest at each step, and never a special one: those stand at the ends."""
        scores = getattr(output, SCORES, None)
        if type(scores) is not VirtualTensor or not scores.dim() or known_values_of(scores) is not None:
            return
        device = self.device
        device.recorder.assumed(SCORES, ASSUMPTION, device.attribution.current())
        spec, step = scores.spec, sum(self.steps.values())
        batch, *between, count = spec.shape if len(spec.shape) > 1 else (1, *spec.shape)
        with undispatched():
            row = torch.sin(torch.arange(count, dtype=torch.float32) * 12.9898)
            row[(count // 2 + step % 7) % count] = LIKELIEST
            # Positions share their memory: a prompt may be long, and only the last position is looked at.
            rows = row.to(spec.dtype).repeat(batch, 1).reshape(batch, *[1] * len(between), count)
            scores.shadow = rows.expand(spec.shape)
