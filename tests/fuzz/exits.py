"""Programs on the native device that end right after a backward pass: how many of them abort.

``python -m tests.fuzz.exits 300`` from the root of the repository. Each is a fork, made before there is any thread,
that ends as Python does. ``--unawaited`` leaves out what waits for autograd's thread (``ending.cpp``).
"""

from __future__ import annotations

import argparse
import atexit
import os
import sys
import time
from collections import Counter

import torch

from mpsprobe_coverage.devices.native import device as native
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY

LAYERS = 50
MOST_AT_ONCE = 8  # more than there are processors, so that threads wait for their turn


class Doubled(torch.autograd.Function):
    """A node that keeps an object of Python."""

    @staticmethod
    def forward(context: object, value: torch.Tensor) -> torch.Tensor:
        context.kept = [object()]  # type: ignore[attr-defined]
        return value * 2

    @staticmethod
    def backward(_: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


def end(chain: Chain, awaited: bool) -> None:
    """A backward pass, as the last thing in this process."""
    native.NativeDevice(chain, lines=False).__enter__()
    if not awaited:
        atexit.unregister(native._await_autograd)
    value = torch.ones(3, device="mps", requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda one: [one], lambda one: one[0]):
        result = value
        for _ in range(LAYERS):
            result = Doubled.apply(result).sin()  # type: ignore[no-untyped-call]
    result.sum().backward()


def main() -> int | None:
    """Exit code 1 where a process did not end with 0; ``None`` in the processes that are counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--unawaited", action="store_true")
    parser.add_argument("--longest", type=float, default=200, help="seconds after which no more are started")
    arguments = parser.parse_args()
    native.DEVICE.load()
    chain = Chain(MPS_FAMILY.target("installed"))
    codes: Counter[int] = Counter()
    begun, left, running = time.monotonic(), arguments.count, 0
    while left or running:
        if left and running < MOST_AT_ONCE and time.monotonic() - begun < arguments.longest:
            if os.fork() == 0:
                end(chain, not arguments.unawaited)
                return None
            left, running = left - 1, running + 1
        elif running:
            codes[os.waitstatus_to_exitcode(os.wait()[1])] += 1
            running -= 1
        else:
            break
    sys.stdout.write(f"{codes.total()} exits in {time.monotonic() - begun:.0f} s: {dict(codes)}\n")
    return int(set(codes) != {0})


if __name__ == "__main__":
    if code := main():
        sys.exit(code)
