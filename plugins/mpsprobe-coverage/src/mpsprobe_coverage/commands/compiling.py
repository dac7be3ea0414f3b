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
from typing import Any

from mpsprobe.errors import MpsprobeError, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import AdvisoryMatch, CompiledStep, CoverageReport
from mpsprobe.suggestions import first_line, printable, type_name
from mpsprobe_coverage.pool import Limits, Worker, serve, threads_for

_MODULE = "mpsprobe_coverage.commands.compiling"


def with_compiled(report: CoverageReport, workload: str, options: RunOptions, seconds: float) -> CoverageReport:
    """``report`` with the step of ``workload`` under ``torch.compile``, and what is known to be wrong of that.

    Raises:
        MpsprobeError: it cannot be compiled here: no native device, another release, no answer within ``seconds``.
    """
    from mpsprobe_coverage.knowledge.kernels.releases import installed_release
    from mpsprobe_coverage.reporting.faster import with_change

    installed = installed_release()
    if report.target.version != installed:
        raise UsageError(
            f"--compile is about the installed torch {installed}, whose generator it runs, not {report.target.version}",
            "Leave --torch out, or install that release.",
        )
    worker = Worker(_MODULE, asdict(options), Limits(seconds), each=1, threads=threads_for(1))
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
    compiled = CompiledStep.model_validate(said["compiled"])
    known = {one.id for one in report.advisories}
    new = [AdvisoryMatch.model_validate(one) for one in said["advisories"] if one["id"] not in known]
    summary = report.summary.model_copy(update={"advisories": report.summary.advisories + len(new)})
    update = {"compiled": compiled, "advisories": [*report.advisories, *new], "summary": summary}
    if report.time is not None and compiled.step_ms is not None:
        update["time"] = with_change(report.time, "compile", "torch.compile", compiled.step_ms)
    return report.model_copy(update=update)


def write_kernels(step: CompiledStep, folder: str) -> None:
    """Each kernel as ``graph_0/generated_kernel_2.metal`` below ``folder``, which need not be there.

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


def _prepared(options: dict[str, Any]) -> Callable[[str], str]:
    """What answers the name of a workload with its compiled step, as JSON."""
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe_coverage.knowledge.kernels.backends import family_named
    from mpsprobe_coverage.scanning.compiled import compiled_step

    warnings.simplefilter("ignore")  # of torch, about itself: what matters is in the answer
    logging.disable()

    def answer(name: str) -> str:
        asked = RunOptions(**options)
        try:
            table = family_named(asked.backend).target("installed")
            step, advisories = compiled_step(get_registry().workload(name), asked, table)
        except MpsprobeError as error:
            return json.dumps({"error": error.message, "hint": error.hint})
        except Exception as error:  # noqa: BLE001 - of a model, or of torch
            return json.dumps({"error": f"{type_name(error)}: {first_line(error)}", "hint": None})
        matches = [one.model_dump(mode="json") for one in advisories]
        return json.dumps({"compiled": step.model_dump(mode="json"), "advisories": matches})

    return answer


if __name__ == "__main__":
    serve(_prepared)
