"""``diffusers:PIPELINE`` and ``diffusers:PIPELINE/PART``, brought to life by ``build``; and a pipeline from its folder.

Of a folder ``model_index.json`` and the configuration of each component are read, and no weights.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import UnknownName, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.suggestions import printable
from mpsprobe_hf.catalog import pipelines
from mpsprobe_hf.catalog.entry import Component
from mpsprobe_hf.checkpoint.reading import read_json
from mpsprobe_hf.diffusers.classes import named_class, pipeline_class
from mpsprobe_hf.diffusers.names import INDEX, PREFIX
from mpsprobe_hf.diffusers.recipe import Recipe, is_processor, processors
from mpsprobe_hf.installed import check_installed
from mpsprobe_hf.sizes import check_made_alike
from mpsprobe_hf.transformers.checkpoint_files import check_sizes

if TYPE_CHECKING:
    from mpsprobe.protocols import Workload
    from mpsprobe_hf.diffusers.recipe import Recipe


CONFIGS = ("config.json", "scheduler_config.json")
LIBRARIES = ("diffusers", "transformers")
NOT_ARGUMENTS = ("architectures", "model_type", "torch_dtype", "dtype", "transformers_version")
"""What a configuration of transformers says, and its class does not take from here."""


def recipe_of(folder: Path, name: str) -> Recipe:
    """Of the pipeline in ``folder``.

    Raises WorkloadError: a file is missing or damaged, or the pipeline brings code of its own.
    """
    index = read_json(folder / INDEX)
    class_name = index.get("_class_name")
    if not isinstance(class_name, str):
        raise _own_code(name, INDEX)
    class_ = pipeline_class(class_name, pipelines())
    alike = next((pipeline for pipeline in pipelines().values() if pipeline.pipeline == class_name), None)
    known = alike.components if alike else {}
    components: dict[str, Component] = {}
    settings: dict[str, Any] = {}
    for key, value in index.items():
        if key.startswith("_") or is_processor(key):
            continue
        if not isinstance(value, list):
            settings[key] = value
        elif len(value) == 2 and all(isinstance(part, str) for part in value):
            made = _component(folder, key, value[0], value[1], name)
            same = key in known and known[key].class_name == made.class_name
            components[key] = replace(made, small=known[key].small) if same else made
    return Recipe(
        class_,
        components,
        processors(class_, components),
        printable(name),
        settings={**(alike.settings if alike else {}), **settings},
        arguments=alike.arguments if alike else {},
        small=alike.small if alike else {},
        notes=(f"sizes of {printable(name)}",),
    )


def _component(folder: Path, key: str, library: str, class_name: str, name: str) -> Component:
    full = class_name
    if library not in LIBRARIES:  # the folder of a pipeline in diffusers, which has models of its own
        if not library.isidentifier():
            raise _own_code(name, f"{key}: {printable(library)}")
        full = f"diffusers.pipelines.{library}:{class_name}"
    config = next((path for config in CONFIGS if (path := folder / key / config).is_file()), None)
    if config is None:
        raise WorkloadError(f"'{printable(name)}' has no {printable(key)}/{CONFIGS[0]}", "Fetch it again.")
    values = {key: value for key, value in read_json(config).items() if key[:1] != "_" and key not in NOT_ARGUMENTS}
    check_sizes(name, values)
    try:
        class_ = named_class(full, f"'{printable(name)}'")
    except ModuleNotFoundError as error:
        raise _own_code(name, f"{key}: {printable(library)}") from error
    taken = inspect.signature(class_.__init__).parameters
    if not hasattr(class_, "config_class"):
        values = {key: value for key, value in values.items() if key in taken}
    return Component(full, values)


def _own_code(name: str, where: str) -> WorkloadError:
    return WorkloadError(
        f"'{printable(name)}' brings its own Python code ({where}), which is not run",
        "Write a function that returns the pipeline, and name it: path/to/file.py:function",
    )


FEW_LAYERS = "but made with few layers of each kind (--size small)"


def load(name: str) -> Workload:
    """The workload called ``name``.

    Raises UnknownName: no such pipeline, or the pipeline has no such part; carries the nearest; MissingPackage: a
    package that it needs is not installed.
    """
    from mpsprobe_hf.catalog import pipelines
    from mpsprobe_hf.diffusers.classes import LIBRARIES, pipeline_names
    from mpsprobe_hf.diffusers.names import HUB_ID, place_of

    check_installed(f"the workload '{name}'", LIBRARIES)
    from mpsprobe_hf.diffusers.models import quiet
    from mpsprobe_hf.diffusers.recipe import recipe
    from mpsprobe_hf.diffusers.workload import recipe_of

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

        Raises UsageError: an option that a pipeline cannot honour; WorkloadError: it cannot be built.
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
                name: {"class": component.class_name.rpartition(":")[2], "config": _plain(component.config)}
                for name, component in recipe.components.items()
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
