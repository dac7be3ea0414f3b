"""``mpsprobe coverage --compile``: a process that compiles one workload, and what its parent makes of the answer.

A process of its own: torch looks for MPS once, and whatever is compiled stays in the process.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import MpsprobeError, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import AdvisoryMatch, CompiledStep, CoverageReport
from mpsprobe.suggestions import first_line, printable, type_name
from mpsprobe_coverage.pool import Limits, Worker, serve, threads_for

if TYPE_CHECKING:
    from mpsprobe_coverage.scanning.vary import Vary

HELD = {"inference": 3, "training": 8}
"""What a step with values takes of this machine's memory: times the bytes of its parameters, and ``ALWAYS``.

Measured as the peak over the memory before (torch 2.13.0, gpt2, bert and t5 at small size): 3.1 to 3.3 times in
inference (gpt2 with all its layers: 2.0), 8.0, 7.7 and 20 in training (8.5), where t5 has 1.5 GB of outputs and copies.
"""
ALWAYS = 3 * 2**29
"""Bytes: what outputs and the copies that are compared take, whatever the parameters."""
_MODULE = "mpsprobe_coverage.commands.compiling"


def with_compiled(
    report: CoverageReport, workload: str, options: RunOptions, seconds: float, vary: Vary | None = None
) -> CoverageReport:
    """``report`` with the step of ``workload`` under ``torch.compile``, and what is known to be wrong of that.

    Without a native device it has a note that says so.

    Raises:
        MpsprobeError: it cannot be compiled here: another release, no answer within ``seconds``.
    """
    from mpsprobe_coverage.knowledge.kernels.releases import installed_release
    from mpsprobe_coverage.reporting.faster import with_change

    installed = installed_release()
    if report.target.version != installed:
        raise UsageError(
            f"--compile is about the installed torch {installed}, whose generator it runs, not {report.target.version}",
            "Leave --torch out, or install that release.",
        )
    shared = {
        "options": asdict(options),
        "vary": None if vary is None else asdict(vary),
        "values": fits(report.summary.parameters_bytes or 0, options),
    }
    worker = Worker(_MODULE, shared, Limits(seconds), each=1, threads=threads_for(1))
    try:
        answer = worker.answer(workload)
    finally:
        worker.kill()
        worker.close()
    if answer.text is None:
        raise WorkloadError(f"'{workload}' was not compiled: {answer.error}", answer.hint)
    said = json.loads(answer.text)
    if "error" in said:
        raise WorkloadError(f"'{workload}' was not compiled: {said['error']}", said["hint"])
    if "note" in said:
        notes = [*report.workload.notes, said["note"]]
        return report.model_copy(update={"workload": report.workload.model_copy(update={"notes": notes})})
    compiled = CompiledStep.model_validate(said["compiled"])
    known = {advisory.id for advisory in report.advisories}
    new = [AdvisoryMatch.model_validate(match) for match in said["advisories"] if match["id"] not in known]
    summary = report.summary.model_copy(update={"advisories": report.summary.advisories + len(new)})
    update = {"compiled": compiled, "advisories": [*report.advisories, *new], "summary": summary}
    if report.time is not None and compiled.step_ms is not None:
        update["time"] = with_change(report.time, "compile", "torch.compile", compiled.step_ms)
    return report.model_copy(update=update)


def write_kernels(step: CompiledStep, folder: str) -> None:
    """Each kernel as ``graph_0/generated_kernel_2.metal`` or ``graph_0/backward/…`` below ``folder``.

    Raises:
        UsageError: it cannot be written there.
    """
    try:
        for kernel in step.kernels:
            file = Path(folder, f"{kernel.name}.metal")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(kernel.source, encoding="utf-8")
    except OSError as error:
        shown = printable(folder)
        raise UsageError(f"no kernels can be written to {shown}: {error.strerror}", "Name another folder.") from error


def fits(parameters_bytes: int, options: RunOptions) -> bool:
    """Whether this machine has the memory for a step with values."""
    from mpsprobe_coverage.verifying.verification import free_bytes

    return (free := free_bytes()) is None or parameters_bytes * HELD[options.phase] + ALWAYS < free


def prepared(shared: dict[str, Any]) -> Callable[[str], str]:
    """What answers the name of a workload with its compiled step, as JSON."""
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe_coverage.devices.compiling import DEVICE
    from mpsprobe_coverage.knowledge.kernels.backends import family_named
    from mpsprobe_coverage.programs.compiled_step import compiled_step
    from mpsprobe_coverage.scanning.vary import Vary

    warnings.simplefilter("ignore")  # of torch, about itself: what matters is in the answer
    logging.disable()
    options, vary = RunOptions(**shared["options"]), shared["vary"] and Vary(**shared["vary"])

    def answer(name: str) -> str:
        try:
            DEVICE.load()
        except UsageError as error:
            return json.dumps({"note": f"the step was not compiled: {error.message}"})
        table = family_named(options.backend).target("installed")
        said: dict[str, Any] = {}
        # With values goes on what stops where it reads one; without, models may be larger than this machine.
        # What stops before it is compiled is compiled without values only where it cannot be with them.
        tries = ((False, False), (True, True), (False, True)) if shared["values"] else ((False, True),)
        for values, anyway in tries:
            try:
                workload = get_registry().workload(name)
                step, known = compiled_step(workload, options, table, vary, values=values, anyway=anyway)
            except MpsprobeError as error:
                said = said or {"error": error.message, "hint": error.hint}
            except Exception as error:  # noqa: BLE001 - of a model, or of torch
                said = said or {"error": f"{type_name(error)}: {first_line(error)}", "hint": None}
            else:
                matches = [match.model_dump(mode="json") for match in known]
                said = {"compiled": step.model_dump(mode="json"), "advisories": matches}
                if step.failure is None or values:
                    break
        return json.dumps(said)

    return answer


if __name__ == "__main__":
    serve(prepared)
