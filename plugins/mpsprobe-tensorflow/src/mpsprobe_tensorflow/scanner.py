"""Coverage of TensorFlow's workloads: traced once, placed with the kernels of each release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mpsprobe.assembling import matrix_of, report_of
from mpsprobe.environment import collect_environment
from mpsprobe.protocols import Progress, RunOptions, Workload
from mpsprobe.schemas import FrameworkTarget, Report, TableProvenance
from mpsprobe_tensorflow import BACKEND, models
from mpsprobe_tensorflow.findings import findings, matches, slow, transfers
from mpsprobe_tensorflow.libraries import import_tensorflow, took_part
from mpsprobe_tensorflow.placing import grappler
from mpsprobe_tensorflow.placing.crossing import Border, border
from mpsprobe_tensorflow.placing.flattening import flatten
from mpsprobe_tensorflow.placing.kernels import kernels_of, native_since
from mpsprobe_tensorflow.placing.nodes import ARGUMENTS, Graph
from mpsprobe_tensorflow.placing.placer import place
from mpsprobe_tensorflow.tables import table
from mpsprobe_tensorflow.tables.releases import optimizers_off
from mpsprobe_tensorflow.tracing import Step, building_in_cpp, without_collecting

WHICH = {
    "plain": "These are the operations that TensorFlow places; its optimizer folds and fuses some afterwards",
    models.OPTIMIZED: "These are the operations that TensorFlow's optimizer leaves; the plugin has one more, not known",
    models.EAGER: "These are the operations of the traced step, each placed by itself, as where nothing is traced",
}


class TensorflowScanner:
    """Predicts where TensorFlow places what; see ``docs/explanation/tensorflow.md`` for how."""

    backend = BACKEND

    def releases(self, text: str) -> list[str]:
        """``--release`` as exact releases of the plugin, oldest first."""
        return table.chosen(text)

    def scan(
        self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress
    ) -> Report:
        """Judge ``workload`` for each of ``torch_releases``, which are releases of the plugin here."""
        progress.start(2, "loading TensorFlow")
        try:
            with without_collecting():
                tensorflow = import_tensorflow(f"the workload '{workload.name}'")
                with building_in_cpp():
                    return _report(workload, options, torch_releases, progress, tensorflow)
        finally:
            progress.stop()


def _report(
    workload: Workload, options: RunOptions, releases: Sequence[str], progress: Progress, tensorflow: Any
) -> Report:
    progress.advance(f"tracing {workload.name}")
    built = workload.build(options)
    step = built if isinstance(built, Step) else models.step_of(built, options, workload.name)
    progress.advance("placing its operations")
    graph = _flat(step)
    soft = bool(tensorflow.config.get_soft_device_placement())
    version = tensorflow.__version__
    placed = [_placed(step, graph, release, options, soft, version) for release in releases]
    newest, crossed = placed[-1]
    if unknown := sum(crossing.nbytes is None for crossing in crossed.crossings):
        step.notes.append(f"of {unknown} tensors that are copied the shape is not known: they count as none")
    summary: dict[str, Any] = {"native_since": None, "parameters_bytes": step.parameters_bytes}
    if len(placed) == 1 and not newest["not_judged"]:
        operations = [node for node in graph.nodes if node.operator not in ARGUMENTS]
        summary["native_since"] = native_since(operations, options.macos)
    of_step = {name: getattr(step, name) for name in ("architecture", "parameters", "batch_size", "optimizer")}
    notes = list(dict.fromkeys([*step.notes, *graph.notes, WHICH[options.graph]]))
    info = models.info(workload.name, options, notes=notes, **of_step)
    environment = collect_environment().model_copy(update=took_part(workload.name))
    about: dict[str, Any] = {"workload": info, "environment": environment}
    reports = [
        report_of(summary={**summary, "transfers": transfers(crossed.crossings)}, **about, **fields)
        for fields, crossed in placed
    ]
    return reports[0] if len(reports) == 1 else matrix_of(reports)


def _placed(
    step: Step, graph: Graph, release: str, options: RunOptions, soft: bool, tensorflow: str
) -> tuple[dict[str, Any], Border]:
    """The fields of the report on one release, and what is copied there."""
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
    crossed = border(graph, placed, eager=eager)
    operators, not_judged = findings(step, graph, placed, crossed, kernels, options.macos)
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
        notes=[*table.notes(build.release), *slow(step, build.release, tensorflow, options.phase)],
    )
    advisories = matches(step, graph, build.release, tensorflow, options.phase)
    fields = {"target": target, "operators": operators, "not_judged": not_judged, "advisories": advisories}
    return fields, crossed


def _flat(step: Step) -> Graph:
    return flatten(step.graph, step.held, step.resident, step.returned, step.open_dimension, step.times)
