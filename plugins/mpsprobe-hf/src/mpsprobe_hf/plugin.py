"""What this plugin offers. Thin: it imports neither torch nor transformers."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mpsprobe import hookimpl
from mpsprobe.declarations import CommandDeclaration, RunnerDeclaration, WorkloadDeclaration

if TYPE_CHECKING:
    from mpsprobe.protocols import Workload


@hookimpl
def mpsprobe_workloads() -> Iterable[WorkloadDeclaration]:
    """The catalog."""
    from mpsprobe_hf.catalog import listed

    return [
        WorkloadDeclaration(
            name=name,
            target="mpsprobe_hf.workload:named",
            summary=facts["summary"],
            family=facts["family"],
            phases=tuple(facts["phases"]),
            requires=tuple(facts["requires"]),
        )
        for name, facts in listed().items()
    ]


@hookimpl
def mpsprobe_resolve_workload(name: str) -> WorkloadDeclaration | None:
    """Model types, checkpoint folders and repositories of the Hub."""
    from mpsprobe_hf.auto_models.names import declare

    return declare(name)


@hookimpl
def mpsprobe_workload_space(space: str) -> Iterable[WorkloadDeclaration] | None:
    """Every model type, with its classes."""
    if space != "hf":
        return None
    from mpsprobe_hf.auto_models.classes import declared_classes, model_types
    from mpsprobe_hf.auto_models.names import of_type

    return [of_type(model_type, declared_classes(model_type)) for model_type in model_types()]


@hookimpl
def mpsprobe_workload_of(model: object, inputs: object) -> Workload | None:
    """Pipelines; whoever has one has imported them."""
    pipelines = sys.modules.get("transformers.pipelines.base")
    if pipelines is None or not isinstance(model, pipelines.Pipeline):
        return None
    from mpsprobe_hf.pipelines import PipelineWorkload

    return PipelineWorkload(model, inputs)


@hookimpl
def mpsprobe_commands() -> Iterable[CommandDeclaration]:
    """What a checkpoint holds."""
    return [
        CommandDeclaration(
            name="checkpoint",
            target="mpsprobe_hf.checkpoint.command:checkpoint",
            summary="What a checkpoint holds, what MPS does with it, and what it takes; nothing is loaded.",
        )
    ]


@hookimpl
def mpsprobe_runners() -> Iterable[RunnerDeclaration]:
    """The training loops that users of Hugging Face's libraries run."""
    return [
        RunnerDeclaration(
            name="trainer",
            target="mpsprobe_hf.runners.trainer:TrainerRunner",
            summary="transformers' Trainer, with its data loader, clipping, scheduler and callbacks.",
        ),
        RunnerDeclaration(
            name="accelerate",
            target="mpsprobe_hf.runners.accelerate:AccelerateRunner",
            summary="The loop of accelerate's documentation: prepare, accumulate, backward, clip, step.",
        ),
    ]
