"""``diffusers:PIPELINE`` and ``diffusers:PIPELINE/PART``, brought to life by ``build``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import UnknownName, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.suggestions import printable
from mpsprobe_hf.diffusers.names import PREFIX
from mpsprobe_hf.installed import check_installed
from mpsprobe_hf.sizes import check_made_alike

if TYPE_CHECKING:
    from mpsprobe.protocols import Workload
    from mpsprobe_hf.diffusers.recipe import Recipe

FEW_LAYERS = "but made with few layers of each kind (--size small)"


def load(name: str) -> Workload:
    """The workload called ``name``.

    Raises:
        UnknownName: no such pipeline, or the pipeline has no such part; carries the nearest.
        MissingPackage: a package that it needs is not installed.
    """
    from mpsprobe_hf.catalog import pipelines
    from mpsprobe_hf.diffusers.classes import LIBRARIES, pipeline_names
    from mpsprobe_hf.diffusers.names import HUB_ID, place_of

    check_installed(f"the workload '{name}'", LIBRARIES)
    from mpsprobe_hf.diffusers.folders import recipe_of
    from mpsprobe_hf.diffusers.models import quiet
    from mpsprobe_hf.diffusers.recipe import recipe

    asked = name.removeprefix(PREFIX)
    place = place_of(asked)
    pipeline, slash, part = asked.partition("/") if place is None else (place.name, place.part, place.part)
    if place is None and HUB_ID.fullmatch(asked) and pipeline not in (*pipelines(), *pipeline_names()):
        raise WorkloadError(
            f"'{printable(asked)}' is neither in the cache of the Hub nor in the catalog",
            f"Nothing is downloaded here. Fetch its configurations: hf download {asked} --include '*.json'",
        )
    with quiet():
        if place is not None and place.folder is not None:
            made = recipe_of(place.folder, place.name)
        elif place is not None:
            made = recipe(place.entry)
            made = replace(made, notes=(*made.notes, "as the catalog has them: nothing was fetched"))
        else:
            made = recipe(pipeline)
    if slash and part not in made.parts():
        hint = f"The parts of {PREFIX}{pipeline} are {', '.join(made.parts())}."
        raise UnknownName("part", part, made.parts(), hint)
    return PipelineWorkload(name, made, part)


class PipelineWorkload:
    """A pipeline with random weights, whole or a part of it. Satisfies ``mpsprobe.protocols.Workload``."""

    framework = "torch"

    def __init__(self, name: str, recipe: Recipe, part: str = "") -> None:
        self.name = name
        self.recipe = recipe
        self.part = part

    def build(self, options: RunOptions) -> TorchRun:
        """The models on torch's default device, and a call of the pipeline or its part, or a step of training.

        Raises:
            UsageError: an option that a pipeline cannot honour.
            WorkloadError: it cannot be built.
        """
        self._check(options)
        recipe = self.recipe
        if options.size == "small":
            recipe = replace(recipe, notes=(*recipe.notes, FEW_LAYERS))
        if options.phase == "training":
            from mpsprobe_hf.diffusers.training import training_step

            return training_step(recipe, options, self._who)
        from mpsprobe_hf.diffusers.parts import part_run
        from mpsprobe_hf.diffusers.running import pipeline_run

        if self.part:
            return part_run(recipe, self.part, options, self._who)
        return pipeline_run(recipe, options, self._who)

    def describe(self) -> Mapping[str, Any]:
        """The components with their sizes, where those are from, and the parts that can be named."""
        recipe = self.recipe
        return {
            "pipeline": recipe.pipeline.__name__,
            "checkpoint": recipe.checkpoint,
            "part": self.part,
            "parts": list(recipe.parts()),
            "components": {
                name: {"class": one.class_name.rpartition(":")[2], "config": _plain(one.config)}
                for name, one in recipe.components.items()
            },
            "inputs": _plain(recipe.arguments),
            "notes": list(recipe.notes),
        }

    @property
    def _who(self) -> str:
        return f"'{self.name}'"

    def _check(self, options: RunOptions) -> None:
        check_made_alike(self.name, options)
        if options.phase == "training" and self.part not in ("", self.recipe.denoiser):
            raise UsageError(
                f"{self._who} is not trained here: of a pipeline it is the {self.recipe.denoiser or 'denoiser'}",
                f"{PREFIX}…/{self.recipe.denoiser} --phase training" if self.recipe.denoiser else None,
            )
        if options.phase == "training" and self.recipe.denoiser is None:
            raise UsageError(f"{self._who} has no denoiser that is known by its name", "Leave out --phase training.")


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON has it."""
    import json

    plain: dict[str, Any] = json.loads(json.dumps(dict(config), default=dict))
    return plain
