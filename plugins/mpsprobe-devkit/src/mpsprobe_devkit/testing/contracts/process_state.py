"""What code of a plugin must leave as it found it: threads, torch's defaults, generators of random numbers, hooks."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOR_GOOD = ("environment variables", "sys.path", "the warnings filter")
SIGNALS = ("SIGINT", "SIGTERM", "SIGALRM", "SIGPROF", "SIGUSR1", "SIGHUP")


def process_state(*, random_numbers: bool = True) -> dict[str, Any]:
    """The state of this process, by what it is; values compare equal while it is unchanged.

    Args:
        random_numbers: include the generators, which code that draws numbers for a good reason moves on.
    """
    state: dict[str, Any] = {
        "the working folder": Path.cwd(),
        "environment variables": dict(os.environ),
        "sys.path": list(sys.path),
        "the warnings filter": list(warnings.filters),
        "sys.stdout": sys.stdout,
        "sys.stderr": sys.stderr,
        "the hook sys.excepthook": sys.excepthook,
        "the trace function (sys.settrace)": sys.gettrace(),
        "the profile function (sys.setprofile)": sys.getprofile(),
        "the recursion limit": sys.getrecursionlimit(),
        "garbage collection": (gc.isenabled(), gc.get_threshold(), list(gc.callbacks)),
        "tracemalloc": tracemalloc.is_tracing(),
        "handlers of the root logger": list(logging.getLogger().handlers),
        "signal handlers": {name: signal.getsignal(getattr(signal, name)) for name in SIGNALS if hasattr(signal, name)},
    }
    if random_numbers:
        state["Python's random numbers"] = random.getstate()
    return {**state, **_of_numpy(random_numbers), **_of_torch(random_numbers)}


def _of_numpy(random_numbers: bool) -> dict[str, Any]:
    numpy = sys.modules.get("numpy")
    if numpy is None or not random_numbers:
        return {}
    name, keys, *rest = numpy.random.get_state()
    return {"numpy's random numbers": (name, keys.tobytes(), *rest)}


def _of_torch(random_numbers: bool) -> dict[str, Any]:
    """Of torch where something has imported it; importing it is no business of a contract."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_dtype"):
        return {}
    state: dict[str, Any] = {
        "torch's default dtype": torch.get_default_dtype(),
        "torch's default device": torch.get_default_device(),
        "torch's grad mode": torch.is_grad_enabled(),
        "torch's inference mode": torch.is_inference_mode_enabled(),
        "torch's number of threads": torch.get_num_threads(),
        "torch's deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "torch's precision of matrix products": torch.get_float32_matmul_precision(),
        "torch's anomaly detection": torch.is_anomaly_enabled(),
        "torch's autocast": torch.is_autocast_enabled(),
        "torch's profiler": torch.autograd._profiler_enabled(),
        "torch's dispatch modes": torch._C._len_torch_dispatch_stack(),
        "torch's function modes": torch._C._len_torch_function_stack(),
    }
    if random_numbers:
        state["torch's random numbers"] = bytes(torch.get_rng_state().tolist())  # not by numpy, which need not be there
    return state


@contextmanager
def restored() -> Iterator[None]:
    """Torch's defaults, generators and hooks are afterwards as before: one clause does not spoil the next.

    What an import inside brings for good (variables, ``sys.path``) stays.
    """
    before = process_state()
    try:
        yield
    finally:
        after = process_state()
        put_back(before, [name for name in before if before[name] != after[name] and name not in FOR_GOOD])


def put_back(before: Mapping[str, Any], changed: list[str]) -> None:
    """Give what is named in ``changed`` its value in ``before`` again, where there is a way to."""
    torch: Any = sys.modules.get("torch")
    ways: dict[str, Callable[[Any], object]] = {
        "the working folder": os.chdir,
        "environment variables": _set_variables,
        "the warnings filter": _set_filters,
        "sys.path": lambda path: sys.path.__setitem__(slice(None), path),
        "the trace function (sys.settrace)": sys.settrace,
        "the profile function (sys.setprofile)": sys.setprofile,
        "the recursion limit": sys.setrecursionlimit,
        "Python's random numbers": random.setstate,
        "numpy's random numbers": _set_numpy,
    }
    if torch is not None:
        ways |= {
            "torch's default dtype": torch.set_default_dtype,
            # Naming the CPU would leave a mode behind that nobody had asked for.
            "torch's default device": lambda one: torch.set_default_device(None if one.type == "cpu" else one),
            "torch's grad mode": torch.set_grad_enabled,
            "torch's number of threads": torch.set_num_threads,
            "torch's deterministic algorithms": torch.use_deterministic_algorithms,
            "torch's random numbers": _set_torch,
            "torch's precision of matrix products": torch.set_float32_matmul_precision,
        }
    for name in changed:
        if name in ways:
            ways[name](before[name])


def _set_numpy(state: Any) -> None:
    numpy: Any = sys.modules["numpy"]
    name, keys, *others = state
    numpy.random.set_state((name, numpy.frombuffer(keys, dtype=numpy.uint32), *others))


def _set_torch(state: bytes) -> None:
    torch: Any = sys.modules["torch"]
    torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _set_variables(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def _set_filters(filters: Any) -> None:
    warnings.simplefilter("default", append=True)  # tells the module that its filters changed
    warnings.filters[:] = filters  # type: ignore[index]
