"""Observes programs on the backend of mpsprobe-coverage's tests, all of whose operators run on the CPU.

In a process of its own: what the backend registers stays. It loads the library that it is given, and writes
``seen.json`` to the folder: for each program what was observed, and what the backend counted by itself.
"""

from __future__ import annotations

import json
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mpsprobe_programs.observing.kinds import Happened
from mpsprobe_programs.observing.observe import Observation, observe
from mpsprobe_programs.observing.reporting import report

MANY = 10_000


def training() -> list[torch.Tensor]:
    """Two steps, in whose backward pass the engine's own thread for the device works."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).to("made")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.rand(4, 6).to("made")
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.linalg.svd(model(x))[1].sum()
        (loss + model(x).cumsum(0).pow(2).sum()).backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def threads() -> list[torch.Tensor]:
    """Threads that are started inside, at once."""
    found: list[Any] = [None] * 4

    def work(number: int) -> None:
        x = torch.full((8, number + 1), 0.5).to("made").requires_grad_()
        for _ in range(20):
            x.sin().sum().backward()
        assert x.grad is not None
        found[number] = x.grad.cpu()

    started = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return found


def many() -> list[torch.Tensor]:
    """Fallbacks in a row."""
    x = torch.ones(7).to("made")
    for _ in range(MANY):
        y = torch.erfinv(x)
    return [y.cpu()]


def in_place() -> list[torch.Tensor]:
    """What is written goes back; views and lists of tensors are among the arguments."""
    x = torch.arange(12.0).to("made").view(3, 4)
    x[:, 1:3].sigmoid_()
    y = torch.cat([x, x[:1]]).index_add_(0, torch.tensor([0, 2]).to("made"), x[:2])
    return [y.cpu(), torch.stack([x, x]).cpu()]


PROGRAMS: dict[str, Callable[[], list[torch.Tensor]]] = {
    "training": training, "threads": threads, "many": many, "in place": in_place,
}  # fmt: skip


def counted() -> list[int]:
    """Fallbacks, bytes to the CPU, bytes from the CPU, as the backend counts them."""
    return list(torch.ops.mpsprobe_test_backend.counted())


def observed(run: Observation) -> dict[str, Any]:
    """The same, and by operator and phase, as it was observed."""
    calls = list(run.calls())
    fell_back: Counter[str] = Counter()
    for call in calls:
        if Happened.FELL_BACK in call.kind.happened:
            fell_back[f"{call.kind.operator} {call.kind.phase}"] += call.calls
    sums = [fell_back.total(), sum(c.to_cpu_bytes for c in calls), sum(c.from_cpu_bytes for c in calls)]
    lines = {call.kind.origin.line for call in calls if call.kind.phase == "backward"}
    return {"sums": sums, "fell back": fell_back, "kinds": len(calls), "lines of backward": sorted(lines)}


def main(library: str, folder: str) -> None:
    """Load, run, write."""
    torch.utils.rename_privateuse1_backend("made")
    module = types.ModuleType("torch.made")
    module._lazy_init = lambda: None  # type: ignore[attr-defined]
    torch._register_device_module("made", module)
    torch.ops.load_library(library)
    seen: dict[str, Any] = {}
    for name, program in PROGRAMS.items():
        bare = program()
        before = counted()
        with observe("made") as run:
            results = program()
        backend = [after - earlier for after, earlier in zip(counted(), before, strict=True)]
        same = all(map(torch.equal, bare, results))
        seen[name] = {**observed(run), "backend": backend, "same": same}
        if name == "training":
            seen["report"] = report(run, "training").model_dump(mode="json")
    Path(folder, "seen.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
