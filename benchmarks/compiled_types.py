"""How many model types come to the end of a step under ``coverage --compile``, of those that compile on the CPU.

    python benchmarks/compiled_types.py [--draw 30] [--seed 41] [--phase inference] [--seconds 300]

Types of ``hf:`` are drawn with a seed, at small size, one after another. A line is printed for each as it comes:
whether ``torch.compile(model, backend="aot_eager")`` takes the step on the CPU, and what ended the step here, or that
it ran (with values, where it needs those); how many kernels there were, compared and wrong. Each of the two is a forked
process of its own, which answers as that of the command does; what takes longer than ``--seconds`` is ended.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import torch

from mpsprobe.plugins.registry import get_registry
from mpsprobe.protocols import RunOptions
from mpsprobe.stepping import TorchStep
from mpsprobe.suggestions import first_line, type_name
from mpsprobe_coverage.commands.compiling import fits, prepared
from mpsprobe_coverage.devices.compiling import DEVICE
from mpsprobe_coverage.verifying.runs import built
from mpsprobe_hf.transformers.classes import model_types


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draw", type=int, default=30)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--phase", default="inference")
    parser.add_argument("--seconds", type=int, default=300, help="for each of the two")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    torch.set_num_threads(1)
    DEVICE.load()
    assert torch.ops.mpsprobe.is_found()  # before anything else looks for MPS, in all processes that are forked
    import_module("transformers.modeling_utils")
    options = RunOptions(phase=asked.phase, size="small")
    answered: list[bool] = []
    for name in Random(asked.seed).sample(model_types(), asked.draw):
        workload = f"hf:{name}"
        known = _forked(lambda workload=workload: _on_the_cpu(workload, options), asked.seconds)
        if "error" in known:
            _print(f"{name}: not on the CPU: {known['error']}")
            continue
        shared = {"options": asdict(options), "vary": None, "values": fits(known["bytes"], options)}
        begun = time.monotonic()
        said = _forked(lambda workload=workload, shared=shared: prepared(shared)(workload), asked.seconds)
        step = said.get("compiled", {"failure": said.get("error", "no answer")})
        failure, kernels = step["failure"], step.get("kernels", [])
        answered.append(failure is None)
        compared, wrong = (sum(bool(one[what]) for one in kernels) for what in ("compared", "faults"))
        values = "with values" if step.get("values") else "without"
        made = f"{values}, {step.get('graphs', 0)} graphs, {len(kernels)} kernels, {compared} compared, {wrong} wrong"
        _print(f"{name}: {failure or 'ran'} ({made}; {time.monotonic() - begun:.0f} s)")
        _print(f"  {sum(answered)} of {len(answered)}")


def _on_the_cpu(workload: str, options: RunOptions) -> str:
    run = built(get_registry().workload(workload), options)
    held = sum(one.numel() * one.element_size() for one in run.model.parameters())
    TorchStep(replace(run, model=torch.compile(run.model, backend="aot_eager")), options, "cpu").take()
    return json.dumps({"bytes": held})


def _forked(answer: Callable[[], str], seconds: float) -> dict[str, Any]:
    """What ``answer`` says in a process of its own; ``error``: why there is nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "answer.json")
        process = os.fork()
        if process == 0:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            try:
                file.write_text(answer(), encoding="utf-8")
            except BaseException as error:  # noqa: BLE001 - whatever a model raises
                file.write_text(json.dumps({"error": f"{type_name(error)}: {first_line(error)}"}), encoding="utf-8")
            os._exit(0)
        end = time.monotonic() + seconds
        while not os.waitpid(process, os.WNOHANG)[0]:
            if time.monotonic() > end:
                os.killpg(process, signal.SIGKILL)
                os.waitpid(process, 0)
                return {"error": f"longer than {seconds} s"}
            time.sleep(0.2)
        said: dict[str, Any] = json.loads(file.read_bytes()) if file.is_file() else {"error": "no answer"}
        return said


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
