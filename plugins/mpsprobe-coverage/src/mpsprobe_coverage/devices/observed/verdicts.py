"""What an observed call says about its device."""

from __future__ import annotations

from mpsprobe_coverage.devices.observed.kinds import Happened
from mpsprobe_coverage.knowledge.judging.judgement import Judgement

RAN = Judgement("native", evidence="it ran there")
FELL_BACK = Judgement(
    "fallback", "PyTorch's kernel for the device ran it on the CPU", evidence="PyTorch's CPU fallback was seen to run"
)
THERE_AND_BACK = Judgement(
    "fallback", "its kernel copied to the CPU and back", evidence="copies both ways were seen inside one call"
)
NO_KERNEL = "the device has no kernel for it"
MISSING = Judgement("missing", NO_KERNEL, evidence="it raised")
MISSING_RUN = Judgement("missing", f"{NO_KERNEL}; it ran on the CPU", evidence="PyTorch's CPU fallback was seen to run")
RAISED = "it raised: whether that is the device or the program is not known"


def judged(happened: Happened) -> Judgement | None:
    """The judgement on calls of which ``happened`` was seen; None where nothing is known of the device.

    A kernel that raises may refuse what the device cannot do, or what no device can: the program knows.
    """
    registered = Happened.REGISTERED in happened
    if Happened.FELL_BACK in happened:
        return FELL_BACK if registered else MISSING_RUN
    if Happened.RAISED in happened:
        return None if registered else MISSING
    return THERE_AND_BACK if Happened.THERE_AND_BACK in happened else RAN
