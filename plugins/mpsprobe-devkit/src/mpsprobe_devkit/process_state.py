"""What code of a plugin may not leave changed in the process: which parts there are, what changed, putting it back.

Those of ``mpsprobe.plugins.containment``, which mpsprobe puts back itself, are a part of it. Parts are called by the
words that messages use for them (``the working folder``, ``the variable NAME``). Values are no part of a message: a
variable may be a secret. Of torch and numpy it speaks only where something has imported them.
"""

from __future__ import annotations

import gc
import locale
import logging
import os
import random
import signal
import socket
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from mpsprobe.plugins.containment import FEW

Part = tuple[Callable[[], Any], Callable[[Any], object] | None]
"""How a part is read, and how it is put back where there is a way."""

VARIABLE = "the variable "
RANDOM_NUMBERS = " random numbers"
IN_PARTS = ("the environment", "torch's default dtype and grad mode")  # one by one here
IMPORT_STAYS = ("sys.path", "the warnings filter")
"""What an import may leave behind, besides variables."""
SIGNALS = ("SIGINT", "SIGTERM", "SIGALRM", "SIGPROF", "SIGUSR1", "SIGHUP", "SIGPIPE", "SIGCHLD", "SIGSEGV")


def process_state(*, random_numbers: bool = True) -> dict[str, Any]:
    """The state of this process, by what it is; values compare equal while it is unchanged.

    Args:
        random_numbers: include the generators, which code that draws numbers for a good reason moves on.
    """
    parts = _parts()
    state = {name: parts[name][0]() for name in parts if random_numbers or not name.endswith(RANDOM_NUMBERS)}
    return {**state, **{f"{VARIABLE}{name}": value for name, value in os.environ.items()}}


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What is different in ``after``, in words; what an import of torch or numpy in between added is not."""
    variables = sorted(name for name in {*before, *after} if name.startswith(VARIABLE))
    names = [name for name in before if name in after and not name.startswith(VARIABLE)]
    return [name for name in [*names, *variables] if before.get(name) != after.get(name)]


def put_back(before: Mapping[str, Any], names: Iterable[str]) -> None:
    """Give what is in ``names`` its value in ``before`` again, where there is a way to."""
    parts = _parts()
    for name in names:
        variable = name.removeprefix(VARIABLE)
        if name in parts:
            if (write := parts[name][1]) is not None:
                write(before[name])
        elif name in before:
            os.environ[variable] = before[name]
        else:
            os.environ.pop(variable, None)


def _parts() -> dict[str, Part]:
    """Every part but the variables."""
    root, numpy, torch = logging.getLogger(), sys.modules.get("numpy"), sys.modules.get("torch")
    signals = [name for name in SIGNALS if hasattr(signal, name)]
    return {
        **{name: part for name, part in FEW.items() if name not in IN_PARTS},
        "sys.path": (lambda: list(sys.path), partial(sys.path.__setitem__, slice(None))),
        "sys.argv": (lambda: list(sys.argv), partial(setattr, sys, "argv")),
        "sys.excepthook": (lambda: sys.excepthook, partial(setattr, sys, "excepthook")),
        "the trace function (sys.settrace)": (sys.gettrace, sys.settrace),
        "the profile function (sys.setprofile)": (sys.getprofile, sys.setprofile),
        "the locale": (partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)),
        "the default time-out of sockets": (socket.getdefaulttimeout, socket.setdefaulttimeout),
        "garbage collection": (lambda: (gc.isenabled(), gc.get_threshold(), list(gc.callbacks)), None),
        "tracemalloc": (tracemalloc.is_tracing, None),
        "the handlers of the root logger": (lambda: list(root.handlers), None),
        "the level of the root logger": (lambda: root.level, root.setLevel),
        "Python's random numbers": (random.getstate, random.setstate),
        **{
            f"the handler of {number}": (partial(signal.getsignal, getattr(signal, number)), None) for number in signals
        },
        **(_of_numpy(numpy) if numpy is not None else {}),
        **(_of_torch(torch) if hasattr(torch, "get_default_dtype") else {}),
    }


def _of_numpy(numpy: Any) -> dict[str, Part]:
    def read() -> Any:
        name, keys, *rest = numpy.random.get_state()
        return name, tuple(keys.tolist()), *rest

    return {"numpy's random numbers": (read, numpy.random.set_state)}


def _of_torch(torch: Any) -> dict[str, Part]:
    def default_device() -> Any:
        """``None`` where nobody has set one: to set the CPU instead would leave a mode behind."""
        return getattr(sys.modules.get("torch.utils._device"), "CURRENT_DEVICE", None)

    def set_random_numbers(state: bytes) -> None:
        torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))

    deterministic = torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms
    precision = torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
    return {
        "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "torch's default device": (default_device, torch.set_default_device),
        "torch's grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
        "torch's inference mode": (torch.is_inference_mode_enabled, None),
        "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
        "torch's deterministic algorithms": deterministic,
        "torch's precision of matrix products": precision,
        "torch's anomaly detection": (torch.is_anomaly_enabled, None),
        "torch's autocast": (torch.is_autocast_enabled, None),
        "torch's profiler": (torch.autograd._profiler_enabled, None),
        "torch's dispatch modes": (torch._C._len_torch_dispatch_stack, None),
        "torch's function modes": (torch._C._len_torch_function_stack, None),
        # Not by numpy, which need not be there.
        "torch's random numbers": (lambda: bytes(torch.get_rng_state().tolist()), set_random_numbers),
    }
