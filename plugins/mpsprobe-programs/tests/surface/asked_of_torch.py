"""Asks torch about MPS while the native device is open, and after that; prints the answers as JSON.

In a process of its own, because the device stays there.
"""

from __future__ import annotations

import copy
import io
import json
import pickle
import platform
import sys
from typing import Any

import torch

from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.kernels.mps import MPS_FAMILY
from mpsprobe_coverage.kernels.releases import installed_release
from mpsprobe_programs.native.device import NativeDevice

HERE = torch.device("mps", 0)


def questions() -> dict[str, Any]:
    """What is not there without MPS."""
    return {
        "built": torch.backends.mps.is_built(),
        "available": [torch.backends.mps.is_available(), torch.mps.is_available(), torch.mps.device_count()],
        "processor": platform.processor() == "arm",
        "storage": _said(lambda: torch.UntypedStorage(8, device="mps")),
    }


def memory() -> dict[str, Any]:
    """Figures that follow what the program takes and gives back."""
    before = torch.mps.current_allocated_memory()
    torch.accelerator.reset_peak_memory_stats()
    taken = torch.empty(1000, device=HERE)
    during = torch.mps.current_allocated_memory(), torch.accelerator.memory_allocated()
    del taken
    torch.mps.set_per_process_memory_fraction(0.5)
    torch.mps.empty_cache()
    torch.accelerator.empty_cache()
    free, total = torch.accelerator.get_memory_info()
    return {
        "taken": [one - before for one in during],
        "given back": torch.mps.current_allocated_memory() - before,
        "peak": torch.accelerator.max_memory_allocated() - before,
        "total": total == torch.mps.recommended_max_memory() and free <= total,
    }


def events() -> dict[str, Any]:
    """Each kind of event, and the one stream."""
    answers = {}
    for kind in (torch.mps.Event, lambda enable_timing: torch.Event(HERE, enable_timing=enable_timing)):
        start, end = kind(enable_timing=True), kind(enable_timing=True)
        start.record()
        torch.ones(3, device=HERE).sum()
        end.record()
        end.synchronize()
        answers[type(start).__module__] = end.query() and 0 <= start.elapsed_time(end) < 60_000
    torch.mps.synchronize()
    torch.accelerator.synchronize()
    return {**answers, "accelerator": str(torch.accelerator.current_accelerator()), "stream": str(torch.Stream(HERE))}


def storages() -> dict[str, Any]:
    """Storages by themselves, saved, loaded, copied, pickled and pinned."""
    tensor, buffer = torch.arange(3.0, device=HERE), io.BytesIO()
    torch.save({"here": tensor, "there": tensor.cpu()}, buffer)

    def loaded(where: Any) -> list[str]:
        buffer.seek(0)
        return [str(one.device) for one in torch.load(buffer, map_location=where, weights_only=True).values()]

    pinned = torch.ones(2).pin_memory()
    return {
        "made": str(torch.UntypedStorage(8, device="mps").device),
        "bytes": torch.UntypedStorage([1, 2], device="mps").tolist(),
        "moved": str(tensor.cpu().untyped_storage().mps().device),
        "loaded": [loaded(None), loaded("cpu"), loaded("mps")],
        "copied": [str(one.device) for one in (copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor)))],
        "pinned": [pinned.is_pinned(), torch.ones(2).is_pinned()],
    }


def randomness() -> dict[str, Any]:
    """The same numbers as on the CPU."""
    torch.manual_seed(3)
    here = torch.rand(4, device=HERE).tolist()
    state = torch.mps.get_rng_state()
    first = torch.rand(1, device=HERE).item()
    torch.mps.set_rng_state(state)
    with torch.random.fork_rng(device_type="mps"):
        torch.rand(5, device=HERE)
    torch.manual_seed(3)
    generator = torch.Generator("mps").manual_seed(3)
    return {
        "same": here == torch.rand(4).tolist() == torch.rand(4, device=HERE, generator=generator).tolist(),
        "again": first == torch.rand(1).item(),
        "device": str(generator.device),
    }


def sparse() -> dict[str, Any]:
    """Sparse tensors and gradients. torch 2.13 has no compressed ones on MPS, on a Mac either."""
    rows = torch.nn.Embedding(4, 2, sparse=True, device=HERE)
    rows(torch.tensor([1, 1, 2], device=HERE)).sum().backward()
    eye = torch.eye(2, device=HERE)
    return {
        "gradient": rows.weight.grad.coalesce().values().tolist(),
        "product": (eye.to_sparse() @ eye).tolist(),
        "dense": (eye.to_sparse() * 2).to_dense().tolist(),
        "devices": sorted({str(one.device) for one in (rows.weight.grad, eye.to_sparse())}),
    }


def mixed() -> dict[str, Any]:
    """A step in half precision, scaled."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 2)).to(HERE)
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("mps")
    with torch.autocast("mps", dtype=torch.float16):
        found = model(torch.ones(2, 3, 4, 4, device=HERE))
        scaler.scale(found.float().square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    return {
        "results": str(found.dtype),
        "gradients": sorted({str(p.grad.dtype) for p in model.parameters()}),
        "scale": scaler.get_scale(),
    }


def refused() -> dict[str, Any]:
    """What only a Mac can do, and how that is said."""
    return {
        "shader": _said(lambda: torch.mps.compile_shader("kernel void f() {}")),
        "compiled": torch.compile(torch.sin)(torch.zeros(2, device=HERE)).tolist(),
        "numpy": _said(lambda: torch.ones(1, device=HERE).numpy()),
    }


def _said(call: Any) -> str:
    try:
        return type(call()).__name__
    except (RuntimeError, TypeError) as error:
        return str(error)


if __name__ == "__main__":
    answers: dict[str, Any] = {}
    with NativeDevice(Chain(MPS_FAMILY.target(installed_release()))) as native:
        for ask in (questions, memory, events, storages, randomness, sparse, mixed, refused):
            answers[ask.__name__] = ask()
        native.finish()
    answers["after"] = questions()
    json.dump(answers, sys.stdout)
