"""What this plugin offers. Thin: it imports neither torch nor any library whose models it makes."""

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
    """The catalog of each room."""
    from mpsprobe_hf.catalog import models
    from mpsprobe_hf.diffusers import names as diffusers
    from mpsprobe_hf.vision import names as vision

    transformers = [
        WorkloadDeclaration(
            name=name,
            target="mpsprobe_hf.transformers.workload:named",
            summary=facts["summary"],
            family=facts["family"],
            phases=tuple(facts["phases"]),
            requires=tuple(facts["requires"]),
        )
        for name, facts in models().items()
    ]
    return [*transformers, *diffusers.named(), *vision.named()]


@hookimpl
def mpsprobe_resolve_workload(name: str) -> WorkloadDeclaration | None:
    """Names that no list has: the first room whose form it is."""
    from mpsprobe_hf.diffusers import names as diffusers
    from mpsprobe_hf.transformers import names as transformers
    from mpsprobe_hf.vision import names as vision

    return vision.declare(name) or diffusers.declare(name) or transformers.declare(name)


@hookimpl
def mpsprobe_workload_space(space: str) -> Iterable[WorkloadDeclaration] | None:
    """Every name of a library, as it is installed."""
    from mpsprobe_hf.diffusers import names as diffusers
    from mpsprobe_hf.transformers import names as transformers
    from mpsprobe_hf.vision import names as vision

    rooms = {"hf": transformers, "diffusers": diffusers, "timm": vision, "torchvision": vision}
    return rooms[space].space(space) if space in rooms else None


@hookimpl
def mpsprobe_workload_of(model: object, inputs: object) -> Workload | None:
    """Pipelines; whoever has one has imported them."""
    pipelines = sys.modules.get("transformers.pipelines.base")
    if pipelines is None or not isinstance(model, pipelines.Pipeline):
        return None
    from mpsprobe_hf.transformers.pipelines import PipelineWorkload

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
            target="mpsprobe_hf.transformers.runners.trainer:TrainerRunner",
            summary="transformers' Trainer, with its data loader, clipping, scheduler and callbacks.",
        ),
        RunnerDeclaration(
            name="accelerate",
            target="mpsprobe_hf.transformers.runners.accelerate:AccelerateRunner",
            summary="The loop of accelerate's documentation: prepare, accumulate, backward, clip, step.",
        ),
    ]
