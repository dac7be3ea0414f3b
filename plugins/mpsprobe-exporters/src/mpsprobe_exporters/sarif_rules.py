"""The rules of SARIF: each verdict with each kind of evidence, and what else a report finds, in words."""

from __future__ import annotations

from typing import Any

from mpsprobe_exporters.results import LEVELS

SEVERITIES = {"error": "error", "warning": "warning", "note": "recommendation"}
"""The levels as GitHub names them (``problem.severity``)."""
# For each: its name, what it is in a sentence, and what to do.
WORDS = {
    "missing": (
        "MissingOperator",
        "The operator has no kernel for MPS on this torch release",
        "A Mac raises NotImplementedError at this call, unless PYTORCH_ENABLE_MPS_FALLBACK=1 lets it run on the CPU. "
        "Use a torch release that has the kernel, write the call with other operators, or move it to the CPU.",
    ),
    "unsupported": (
        "UnsupportedCall",
        "MPS refuses this call of the operator",
        "A Mac raises an error at this call, and no variable changes that. Give it tensors of another dtype, shape or "
        "device, as the message says, or use a torch release that accepts them.",
    ),
    "fallback": (
        "FallbackToCpu",
        "The operator runs on the CPU instead of the GPU",
        "PyTorch copies its tensors to the CPU and back at each call, which is slow in an inner loop. "
        "Use a torch release that has the kernel, or write the call with other operators.",
    ),
    "unknown": (
        "UnknownOperator",
        "No kernel table covers the operator",
        "It comes from a library that mpsprobe has no table of. Try it on a Mac.",
    ),
    "advisory": (
        "KnownWrongResult",
        "The call is known to give wrong numbers on MPS",
        "It runs, and its results are wrong under the conditions of the advisory. "
        "'mpsprobe advisories show NAME' has the sources and what to do.",
    ),
    "stopped": (
        "RunStopped",
        "The workload raised an exception, and only the operators before it are judged",
        "Run it on the CPU first. What it raises there is not about MPS.",
    ),
    "not-judged": (
        "NotJudged",
        "mpsprobe could not judge this call",
        "Nothing is known of it. Try it on a Mac.",
    ),
    "on-the-cpu": (
        "OnTheCpu",
        "The program computes on the CPU although MPS is there",
        'Move the model and its tensors there with .to("mps").',
    ),
    "written-for-cuda": (
        "WrittenForCuda",
        "The line is written for CUDA, which no Mac has",
        "Write it for the device that is there.",
    ),
    "no-report": (
        "WorkloadNotJudged",
        "The workload could not be judged at all",
        "The message says why. Run 'mpsprobe coverage' with this workload alone.",
    ),
}
EVIDENCE = {
    "registration": "the kernels that the release registers for MPS",
    "branch": "C++ of the release that goes to MPS without a registration",
    "dtype": "a dtype that no tensor on MPS has",
    "device": "a tensor that is on the CPU",
    "message": "a guard in the release's binary, with its message",
    "metal": "the Metal kernels in the release's binary",
    "stub": "a DispatchStub in the release's binary that is never set",
    "list": "the lists of PyTorch's own tests",
    "issue": "issues of PyTorch",
}


def rule(name: str) -> dict[str, Any]:
    """The rule called ``name`` (``missing/registration``, ``advisory``) as SARIF's ``reportingDescriptor``."""
    kind, _, source = name.partition("/")
    title, short, help_text = WORDS[kind]
    evidence = f" Known by {EVIDENCE[source]}." if source else ""
    level = LEVELS[kind]
    return {
        "id": name,
        "name": title + source.capitalize(),
        "shortDescription": {"text": f"{short}."},
        "fullDescription": {"text": f"{short}.{evidence}"},
        "help": {"text": help_text, "markdown": help_text},
        "defaultConfiguration": {"level": level},
        "properties": {"tags": ["mps", kind], "precision": "high", "problem.severity": SEVERITIES[level]},
    }
