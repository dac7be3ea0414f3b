"""How the categories of a report are called in the files of ``torch.profiler``, and what its readers make of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

STEP_PREFIX = "ProfilerStep#"
STEP_NAME = re.compile(r"ProfilerStep#\d{1,9}", re.ASCII)
TIMED_STEP = "timed_step"  # the category of a timed step, which was not profiled; ``mpsprobe import`` knows it
# Facts of a kernel that the views of torch-tb-profiler show, where a trace has them.
KERNEL_FACTS = ("est. achieved occupancy %", "blocks per SM", "registers per thread", "shared memory")
_LINKS = ("External id", "Input Dims", "Input type", "Python id", "Python parent id", "Python module id", "device")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The ``cat`` of each category, and whether identities that torch-tb-profiler needs are written.

    Attributes:
        linked: write ``External id`` and ``Python id``, and times that are exact as floating-point numbers.
    """

    categories: dict[str, str]
    linked: bool = False

    @property
    def taken(self) -> frozenset[str]:
        """Keys of ``args`` that the writer sets itself."""
        return frozenset({"correlation", *_LINKS, *KERNEL_FACTS} if self.linked else {"correlation"})


_KINETO = {
    "step": "user_annotation",
    "phase": "user_annotation",
    "module": "python_function",
    "operator": "cpu_op",
    "kernel": "kernel",
    "copy": "gpu_memcpy",
    "fallback": "fallback",
    "other": "other",
}


def chrome(device: str) -> Dialect:
    """Today's names of ``torch.profiler``; a fallback keeps its own, so that a viewer can find it by its category."""
    launch = f"{device}_runtime" if device in ("cuda", "xpu", "mtia") else "privateuse1_runtime"
    return Dialect({**_KINETO, "launch": launch})


def tensorboard() -> Dialect:
    """What torch-tb-profiler 0.4.3 reads: ``runtime`` is its only name of a launch, and it knows no fallbacks.

    A phase gets a name that it does not know, because it would count every annotation as work of the CPU; the trace
    view shows it all the same.
    """
    return Dialect({**_KINETO, "launch": "runtime", "fallback": "cpu_op", "phase": "phase"}, linked=True)
