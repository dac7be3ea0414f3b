"""A pipeline from its folder: ``model_index.json``, and the configuration of each component. Weights are not read."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

from mpsprobe.errors import WorkloadError
from mpsprobe.suggestions import printable
from mpsprobe_hf.catalog import pipelines
from mpsprobe_hf.catalog.entry import Component
from mpsprobe_hf.checkpoint.reading import read_json
from mpsprobe_hf.diffusers.classes import named_class, pipeline_class
from mpsprobe_hf.diffusers.names import INDEX
from mpsprobe_hf.diffusers.recipe import Recipe, is_processor, processors
from mpsprobe_hf.transformers.checkpoint_files import check_sizes

CONFIGS = ("config.json", "scheduler_config.json")
LIBRARIES = ("diffusers", "transformers")
NOT_ARGUMENTS = ("architectures", "model_type", "torch_dtype", "dtype", "transformers_version")
"""What a configuration of transformers says, and its class does not take from here."""


def recipe_of(folder: Path, name: str) -> Recipe:
    """Of the pipeline in ``folder``.

    Raises:
        WorkloadError: a file is missing or damaged, or the pipeline brings code of its own.
    """
    index = read_json(folder / INDEX)
    class_name = index.get("_class_name")
    if not isinstance(class_name, str):
        raise _own_code(name, INDEX)
    found = pipeline_class(class_name, pipelines())
    alike = next((one for one in pipelines().values() if one.pipeline == class_name), None)
    known = alike.components if alike else {}
    components: dict[str, Component] = {}
    settings: dict[str, Any] = {}
    for key, value in index.items():
        if key.startswith("_") or is_processor(key):
            continue
        if not isinstance(value, list):
            settings[key] = value
        elif len(value) == 2 and all(isinstance(one, str) for one in value):
            made = _component(folder, key, value[0], value[1], name)
            same = key in known and known[key].class_name == made.class_name
            components[key] = replace(made, small=known[key].small) if same else made
    return Recipe(
        found,
        components,
        processors(found, components),
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
    config = next((path for one in CONFIGS if (path := folder / key / one).is_file()), None)
    if config is None:
        raise WorkloadError(f"'{printable(name)}' has no {printable(key)}/{CONFIGS[0]}", "Fetch it again.")
    values = {one: value for one, value in read_json(config).items() if one[:1] != "_" and one not in NOT_ARGUMENTS}
    check_sizes(name, values)
    try:
        found = named_class(full, f"'{printable(name)}'")
    except ModuleNotFoundError as error:
        raise _own_code(name, f"{key}: {printable(library)}") from error
    taken = inspect.signature(found.__init__).parameters
    if not hasattr(found, "config_class"):
        values = {one: value for one, value in values.items() if one in taken}
    return Component(full, values)


def _own_code(name: str, where: str) -> WorkloadError:
    return WorkloadError(
        f"'{printable(name)}' brings its own Python code ({where}), which is not run",
        "Write a function that returns the pipeline, and name it: path/to/file.py:function",
    )
