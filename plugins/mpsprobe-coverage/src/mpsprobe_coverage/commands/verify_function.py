"""What ``mpsprobe verify`` does, as a function of ``mpsprobe``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from mpsprobe.options import converted
from mpsprobe.plugins.registry import get_registry
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions, Workload
from mpsprobe_coverage.commands.functions import StepOptions
from mpsprobe_coverage.commands.verify import place, precision, verified
from mpsprobe_coverage.commands.verify import verify as command

if TYPE_CHECKING:
    from mpsprobe.schemas import PrecisionReport, VerificationReport


class VerifyOptions(StepOptions, total=False):
    """The flags of ``mpsprobe verify``, whose help says more of each.

    Attributes:
        device: ``mps``, ``cuda``, ``virtual``; ``cpu`` for half precision.
        made: ask about half precision with made weights too.
        reproduce: the file for a small program that shows the first wrong operator.
    """

    device: str
    made: bool
    reproduce: str | None


def verify(
    model: object, inputs: object = None, **options: Unpack[VerifyOptions]
) -> VerificationReport | PrecisionReport:
    """Whether a device computes a step of ``model`` rightly; for half precision on the CPU a ``PrecisionReport``.

    A copy of the model is run: the program's own stays as it is.

    Args:
        model: a ``torch.nn.Module``, a function or a pipeline, or the name of a workload.
        inputs: what it is called with: a tensor, a tuple of positional or a dict of keyword arguments.
        options: called as the flags are.

    Raises:
        UsageError: there is no such device, or options do not go together.
        WorkloadError: the model cannot be copied, or has no values. A device that raises is no error here: the report
            has what was found before, and ``failure``.
    """
    values = converted(command, options)
    wanted, made, file = (
        values.pop(name, usual) for name, usual in (("device", "auto"), ("made", True), ("reproduce", None))
    )
    registry = get_registry()

    def make() -> Workload:
        return registry.workload_of(model, inputs)

    own = {"dtype": dtype} if (dtype := getattr(make(), "dtype", None)) and "dtype" not in values else {}
    run_options = RunOptions(**{"phase": "training", **own, **values})
    here = place(registry, wanted, run_options)
    if here == "cpu":
        return precision(make(), run_options, made or not isinstance(model, str), SilentProgress())
    return verified(registry, make, run_options, here, file, SilentProgress(), lambda text: None)
