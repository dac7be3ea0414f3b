"""What ``mpsprobe doctor`` asks about torch, the GPU and the variables that PyTorch reads."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mpsprobe.declarations import DoctorFinding
from mpsprobe.errors import install_command
from mpsprobe.suggestions import printable
from mpsprobe_devices.machine import ask

FALLBACK = "PYTORCH_ENABLE_MPS_FALLBACK"
LOW, HIGH = "PYTORCH_MPS_LOW_WATERMARK_RATIO", "PYTORCH_MPS_HIGH_WATERMARK_RATIO"
DEFAULT_LOW, DEFAULT_HIGH = 1.4, 1.7  # on unified memory; PyTorch's page on MPS environment variables
PROFILE = "PYTORCH_MPS_LOG_PROFILE_INFO"
HIGHEST_PROFILE = 1023  # aten/src/ATen/mps/MPSProfiler.h: ten bits
C_INTEGER = re.compile(r"\s*([+-]?[0-9]{1,20})")  # what std::stoi reads of a text


def findings(environment: Mapping[str, Any]) -> list[DoctorFinding]:
    """Findings about this machine; imports torch only on a Mac, where the GPU can be asked for."""
    names = list(variables(os.environ))
    if environment.get("torch") is None:
        names.insert(0, DoctorFinding("error", "torch is not installed", f"Install it: {install_command('torch')}"))
    if platform.system() != "Darwin":
        names.append(DoctorFinding("note", "MPS needs a Mac with Apple silicon", "Predictions need none."))
    elif environment.get("torch") is not None:
        names.append(_gpu())
    return names


def _gpu() -> DoctorFinding:
    # Whether Rosetta runs this process is what sysctl.proc_translated says, by Apple's page on that environment.
    if platform.machine() == "x86_64" and ask(["/usr/sbin/sysctl", "-n", "sysctl.proc_translated"]) == "1":
        return DoctorFinding(
            "error",
            "this Python is an x86_64 program that Rosetta translates; torch's wheels for it have no MPS",
            "Install a Python for arm64, and a new environment made with it.",
        )
    from mpsprobe_devices.mps import MpsDevice

    reason = MpsDevice().unavailable()
    if reason is None:
        return DoctorFinding("ok", "the GPU can be used through MPS")
    return DoctorFinding("error", f"MPS cannot be used: {reason}")


def variables(values: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Findings about the variables that PyTorch's MPS backend reads.

    ``PYTORCH_ENABLE_MPS_FALLBACK`` goes through ``std::stoi`` when torch is loaded (aten/src/ATen/mps/MPSFallback.mm),
    the ratios are checked against each other by the allocator (MPSAllocator.mm), the bits by MPSProfiler.mm.
    """
    if (fallback := values.get(FALLBACK)) is not None:
        read = C_INTEGER.match(fallback)
        number = int(read[1]) if read else None
        if number is None or not -(2**31) <= number < 2**31:
            yield DoctorFinding(
                "error",
                f"{FALLBACK} is '{printable(fallback)}', which is not a number: on a Mac torch stops when it is loaded",
                f"Set it to 1 or 0: {FALLBACK}=1",
            )
        elif number != 0:
            yield DoctorFinding(
                "note",
                f"{FALLBACK} is on: operators without an MPS kernel run on the CPU, and torch warns only once",
                "To see which: mpsprobe coverage WORKLOAD",
            )
    defaults = {LOW: DEFAULT_LOW, HIGH: DEFAULT_HIGH}
    ratios = {name: _ratio(values[name]) if name in values else default for name, default in defaults.items()}
    for name, ratio in ratios.items():
        if ratio is None:
            message = f"{name} is '{printable(values[name])}', which is not a number from 0 on"
            yield DoctorFinding("error", message, "Unset it, or correct it.")
    low, high = ratios[LOW], ratios[HIGH]
    if low is not None and high is not None and 0 < high < low:
        yield DoctorFinding(
            "error",
            f"{LOW} ({low:g}) is above {HIGH} ({high:g}): torch stops with 'invalid low watermark ratio'",
            f"Lower both: {LOW} defaults to {DEFAULT_LOW:g}, {HIGH} to {DEFAULT_HIGH:g}.",
        )
    if high == 0:
        yield DoctorFinding(
            "warning",
            f"{HIGH} is 0: memory has no limit, and the system may come to a standstill",
            "Unset it unless a model that should fit does not.",
        )
    if (bits := values.get(PROFILE)) is not None and not _are_profile_bits(bits):
        message = f"{PROFILE} is '{printable(bits)}', which is not a number from 0 to {HIGHEST_PROFILE}"
        yield DoctorFinding("error", message)


def _ratio(text: str) -> float | None:
    try:
        ratio = float(text)
    except ValueError:
        return None
    return ratio if 0 <= ratio < float("inf") else None


def _are_profile_bits(text: str) -> bool:
    try:
        return 0 <= int(text, 0) <= HIGHEST_PROFILE
    except ValueError:
        return False
