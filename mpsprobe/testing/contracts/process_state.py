"""What code of a plugin must leave as it found it: threads, torch's defaults, generators of random numbers, hooks."""

from __future__ import annotations

import gc
import io
import logging
import os
import random
import signal
import sys
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from mpsprobe.testing.contracts.clauses import Broken, listed

PATIENCE_S = 2.0  # a thread that was told to stop may need a moment
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
        state["torch's random numbers"] = bytes(torch.get_rng_state().numpy().tobytes())
    return state


@contextmanager
def left_as_found(what: str, *, random_numbers: bool = True) -> Iterator[None]:
    """What runs inside leaves the process as it found it, prints nothing and leaves no thread behind.

    Whatever an import inside brings (a thread of a library, a warnings filter) has to be there before: run it once.

    Args:
        what: the subject of "changes …": "building it for training".

    Raises:
        Broken: it does not; what it changed is named. What can be put back is.
    """
    threads, before = set(threading.enumerate()), process_state(random_numbers=random_numbers)
    printed = io.StringIO()
    with redirect_stdout(printed):
        yield
    after = process_state(random_numbers=random_numbers)
    changed = [name for name, value in after.items() if name in before and before[name] != value]
    _put_back(before, changed)
    refuse_threads(what, threads)
    if changed:
        raise Broken(f"{what} changes {listed(changed)}")
    if printed.getvalue():
        raise Broken(f"{what} prints {printed.getvalue()[:60]!r} to standard output, which is for data")


def refuse_threads(what: str, before: set[threading.Thread]) -> None:
    """No thread runs that is not in ``before``, a moment later.

    Raises:
        Broken: one does.
    """
    until = time.monotonic() + PATIENCE_S
    while left := [thread for thread in threading.enumerate() if thread not in before]:
        if time.monotonic() > until:
            raise Broken(f"{what} leaves a thread running: {listed([thread.name for thread in left])}")
        time.sleep(0.01)


def _put_back(before: Mapping[str, Any], changed: list[str]) -> None:
    """What would spoil the tests that follow."""
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
    }
    if torch is not None:
        ways |= {
            "torch's default dtype": torch.set_default_dtype,
            "torch's default device": torch.set_default_device,
            "torch's grad mode": torch.set_grad_enabled,
            "torch's number of threads": torch.set_num_threads,
            "torch's deterministic algorithms": torch.use_deterministic_algorithms,
            "torch's precision of matrix products": torch.set_float32_matmul_precision,
        }
    for name in changed:
        if name in ways:
            ways[name](before[name])


def _set_variables(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def _set_filters(filters: Any) -> None:
    warnings.simplefilter("default", append=True)  # tells the module that its filters changed
    warnings.filters[:] = filters  # type: ignore[index]
