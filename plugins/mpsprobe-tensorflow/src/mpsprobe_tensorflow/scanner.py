"""Coverage of TensorFlow's workloads: traced once, placed with the kernels of each release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mpsprobe.assembling import matrix_of, report_of
from mpsprobe.environment import collect_environment
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import (
    AdvisoryMatch,
    Environment,
    FrameworkTarget,
    OperatorFinding,
    Report,
    TableProvenance,
    Unjudged,
    WorkloadInfo,
)
from mpsprobe_tensorflow import advising, models, releases
from mpsprobe_tensorflow.findings import findings, transfers
from mpsprobe_tensorflow.libraries import import_tensorflow
from mpsprobe_tensorflow.names import BACKEND
from mpsprobe_tensorflow.placing import grappler
from mpsprobe_tensorflow.placing.crossing import Border, border
from mpsprobe_tensorflow.placing.flattening import flatten
from mpsprobe_tensorflow.placing.nodes import ARGUMENTS, Graph
from mpsprobe_tensorflow.placing.placer import place
from mpsprobe_tensorflow.since import kernels_of, native_since
from mpsprobe_tensorflow.tables import table
from mpsprobe_tensorflow.tables.fits import optimizers_off
from mpsprobe_tensorflow.tracing import Step, building_in_cpp, without_collecting

WHICH = {
    "plain": "These are the operations that TensorFlow places; its optimizer folds and fuses some afterwards",
    models.OPTIMIZED: "These are the operations that TensorFlow's optimizer leaves; the plugin has one more, not known",
    models.EAGER: "These are the operations of the traced step, each placed by itself, as where nothing is traced",
}


@dataclass
class Placement:
    """What one release does with a step."""

    target: FrameworkTarget
    operators: list[OperatorFinding]
    not_judged: list[Unjudged]
    border: Border
    advisories: list[AdvisoryMatch]


class TensorflowScanner:
    """Predicts where TensorFlow places what; see ``docs/explanation/tensorflow.md`` for how."""

    backend = BACKEND

    def releases(self, text: str) -> list[str]:
        """``--release`` as exact releases of the plugin, oldest first.

        Raises:
            UsageError: there is no such release.
        """
        return releases.chosen(text)

    def scan(
        self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress
    ) -> Report:
        """Judge ``workload`` for each of ``torch_releases``, which are releases of the plugin here.

        Raises:
            MpsprobeError: TensorFlow is missing, or the workload cannot be built or traced.
        """
        progress.start(2, "loading TensorFlow")
        try:
            with without_collecting():
                tensorflow = import_tensorflow(f"the workload '{workload.name}'")
                with building_in_cpp():
                    return _report(workload, options, torch_releases, progress, tensorflow)
        finally:
            progress.stop()


def _report(
    workload: Workload, options: RunOptions, names: Sequence[str], progress: Progress, tensorflow: Any
) -> Report:
    progress.advance(f"tracing {workload.name}")
    made = workload.build(options)
    step = made if isinstance(made, Step) else models.step_of(made, options, workload.name)
    progress.advance("placing its operations")
    graph = _flat(step)
    soft = bool(tensorflow.config.get_soft_device_placement())
    version = tensorflow.__version__
    found = [_placed(step, graph, release, options, soft, version) for release in names]
    unknown = sum(one.nbytes is None for one in found[-1].border.crossings)
    if unknown:
        step.notes.append(f"of {unknown} tensors that are copied the shape is not known: they count as none")
    info = _info(workload.name, step, graph, options)
    environment = _environment(version)
    operations = [node for node in graph.nodes if node.operator not in ARGUMENTS]
    since = None
    if len(found) == 1 and not found[0].not_judged:
        since = native_since(operations, options.macos)
    summary = {"native_since": since, "parameters_bytes": step.parameters_bytes}
    reports = [
        report_of(
            one.operators,
            {**summary, "transfers": transfers(one.border.crossings)},
            workload=info,
            target=one.target,
            environment=environment,
            not_judged=one.not_judged,
            advisories=one.advisories,
        )
        for one in found
    ]
    return reports[0] if len(reports) == 1 else matrix_of(reports)


def _placed(step: Step, graph: Graph, release: str, options: RunOptions, soft: bool, tensorflow: str) -> Placement:
    build = table.load(release)
    kernels = kernels_of(release, options.macos)
    eager = options.graph == models.EAGER
    placed = place(graph, kernels, soft=soft, eager=eager)
    if options.graph == models.OPTIMIZED:
        devices = grappler.devices(graph, placed, kernels)
        off = optimizers_off(build.release)
        step = replace(step, graph=grappler.optimized(step.graph, [*step.returned, *step.effects], devices, off))
        graph = _flat(step)
        placed = place(graph, kernels, soft=soft)
    crossings = border(graph, placed, eager=eager)
    operators, unknown = findings(step, graph, placed, crossings, kernels, options.macos)
    wheel, sha256 = list(build.wheels.items())[-1]
    target = FrameworkTarget(
        backend=BACKEND,
        label=BACKEND,
        release=build.release,
        source=wheel,
        sha256=sha256,
        macos=options.macos,
        macos_minimum=build.macos_minimum,
        table=TableProvenance(wheel=wheel, sha256=sha256),
        notes=[*releases.notes(build.release), *advising.slow(step, build.release, tensorflow, options.phase)],
    )
    advisories = advising.matches(step, graph, build.release, tensorflow, options.phase)
    return Placement(target, operators, unknown, crossings, advisories)


def _flat(step: Step) -> Graph:
    return flatten(step.graph, step.held, step.resident, step.returned, step.open_dimension, step.times)


def _info(name: str, step: Step, graph: Graph, options: RunOptions) -> WorkloadInfo:
    return WorkloadInfo(
        name=name,
        architecture=step.architecture,
        phase="training" if options.phase == "training" else "inference",
        dtype=options.dtype,
        parameters=step.parameters,
        batch_size=step.batch_size,
        autocast=options.autocast,
        optimizer=step.optimizer,
        notes=list(dict.fromkeys([*step.notes, *graph.notes, WHICH[options.graph]])),
    )


def _environment(version: str) -> Environment:
    import keras

    others = dict.fromkeys(("torch", "torch_build", "transformers", "torchvision"))  # they took no part
    return collect_environment().model_copy(update={**others, "tensorflow": version, "keras": keras.__version__})
