"""The model types of transformers and their model classes, by name."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from mpsprobe.errors import MissingPackage, UnknownName, WorkloadError
from mpsprobe.suggestions import in_short


def model_types() -> tuple[str, ...]:
    """Every model type that transformers can make a configuration of."""
    from transformers.models.auto import configuration_auto

    return tuple(vars(configuration_auto)["CONFIG_MAPPING_NAMES"])


def base_class_name(model_type: str) -> str:
    """The class that ``AutoModel`` makes of the type, else one with a head, else the first of its module; or empty."""
    from transformers.models.auto import modeling_auto

    orders = ("MODEL_MAPPING_NAMES", "MODEL_FOR_PRETRAINING_MAPPING_NAMES", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")
    for mapping in orders:
        names = getattr(modeling_auto, mapping, {}).get(model_type)
        if names:
            return str(names if isinstance(names, str) else names[0])
    # The parts of composite models (clip_text_model) are in no mapping, but their module has a class for them.
    own = [*declared_classes(model_type), *_of_module(model_type)]
    return next((name for name in own if name.endswith("Model")), own[0] if own else "")


ALIKE: Mapping[str, str] = {"layoutxlm": "layoutlmv2", "nougat": "vision-encoder-decoder"}
"""Model types that have no module for models, and whose checkpoints another type's classes load."""


def holder_of(model_type: str) -> str:
    """The model type whose configuration has one of ``model_type`` inside, or is the same; empty for none."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, model_type_to_module_name

    if model_type in ALIKE:
        return ALIKE[model_type]
    folder = model_type_to_module_name(model_type)
    for other in model_types():
        if other == model_type or model_type_to_module_name(other) != folder:
            continue
        parts = CONFIG_MAPPING[other].sub_configs.values()
        same = CONFIG_MAPPING[other] is CONFIG_MAPPING[model_type]
        if same or any(getattr(part, "model_type", None) == model_type for part in parts):
            return other if base_class_name(other) else holder_of(other)
    return ""


def part_types(model_type: str) -> list[str]:
    """The model types of the parts of ``model_type`` that have models of their own."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config_class = CONFIG_MAPPING[model_type]
    parts = {**config_class.sub_configs, **getattr(config_class, "sub_configs_defaults", {})}.values()
    types = dict.fromkeys(getattr(part, "model_type", "") for part in parts)
    return [part for part in types if part in model_types() and base_class_name(part)[:4] not in ("", "Timm")]


def with_forward(model_class: type[Any], config: Any) -> type[Any]:
    """``model_class``, or that of its first part that has a forward pass, where it has none (``BarkModel``)."""
    from mpsprobe_hf.transformers.configs.repairs import parts

    if _has_forward(model_class):
        return model_class
    module = vars(sys.modules[model_class.__module__])
    for part in parts(config):
        for name in module.get("__all__", ()):
            if getattr(module[name], "config_class", None) is type(part) and _has_forward(module[name]):
                return module[name]  # type: ignore[no-any-return]
    return model_class


def _has_forward(model_class: type[Any]) -> bool:
    return getattr(model_class.forward, "__name__", "") == "forward"


def runs_without_gradients(model_class: type[Any]) -> bool:
    """Whether its ``forward`` is decorated with ``torch.inference_mode`` or ``torch.no_grad``, as of video trackers."""
    import torch

    function = model_class.forward
    while function is not None:
        cells = (cell.cell_contents for cell in getattr(function, "__closure__", None) or ())
        if any(isinstance(getattr(cell, "__self__", None), torch.inference_mode | torch.no_grad) for cell in cells):
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def class_names(model_type: str) -> list[str]:
    """The model classes of the type."""
    return sorted({*declared_classes(model_type), *_of_module(model_type)})


def declared_classes(model_type: str) -> list[str]:
    """The classes that the ``AutoModel…`` mappings have for the type; imports none of them."""
    from transformers.models.auto import modeling_auto

    names: set[str] = set()
    for mapping, classes in vars(modeling_auto).items():
        models = mapping.startswith("MODEL_") and mapping.endswith("_MAPPING_NAMES")
        if models and isinstance(classes, Mapping) and model_type in classes:
            chosen = classes[model_type]
            names |= {chosen} if isinstance(chosen, str) else set(chosen)
    return sorted(names)


def _of_module(model_type: str) -> list[str]:
    """The classes of the type's own module whose configuration is of that type, in the order of the module."""
    module = _module(model_type)
    return [
        name
        for name, value in (vars(module) if module else {}).items()
        if isinstance(value, type)
        and getattr(getattr(value, "config_class", None), "model_type", None) == model_type
        and name in getattr(module, "__all__", ())
        and not name.endswith("PreTrainedModel")
    ]


def _module(model_type: str) -> ModuleType | None:
    """The module with the models of the type."""
    import importlib

    from transformers.models.auto.configuration_auto import model_type_to_module_name

    folder = model_type_to_module_name(model_type)
    try:
        return importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    except (ImportError, RuntimeError):
        return None


def class_for_task(model_type: str, task: str) -> str:
    """The class of the type that transformers' ``pipeline(task)`` makes.

    Raises UnknownName: there is no such task; carries the nearest; WorkloadError: the type has no class for it; the
    hint names tasks that it has one for.
    """
    from transformers import CONFIG_MAPPING
    from transformers.pipelines import SUPPORTED_TASKS, TASK_ALIASES

    aliases = {alias: SUPPORTED_TASKS[name] for alias, name in TASK_ALIASES.items()}
    tasks: dict[str, Any] = {**SUPPORTED_TASKS, **aliases}
    if task not in tasks:
        raise UnknownName("task", task, tasks)
    config_class = CONFIG_MAPPING[model_type]

    def made_by(name: str) -> str:
        found = [auto._model_mapping.get(config_class, None) for auto in tasks[name]["pt"]]
        classes = [class_[0] if isinstance(class_, tuple) else class_ for class_ in found if class_ is not None]
        return classes[0].__name__ if classes else ""

    chosen = made_by(task)
    if not chosen:
        others = sorted(name for name in SUPPORTED_TASKS if made_by(name))
        hint = f"It has classes for {', '.join(others)}." if others else None
        raise WorkloadError(f"the model type '{model_type}' has no class for the task '{task}'", hint)
    return chosen


def model_class_of(model_type: str, class_name: str) -> type[Any]:
    """The class of that name, which must belong to the type.

    Raises UnknownName: it does not; carries the nearest that do; MissingPackage: it needs a package that is not
    installed.
    """
    import transformers
    from transformers import PreTrainedModel

    known = class_names(model_type)
    try:
        class_ = getattr(transformers, class_name, None) or getattr(_module(model_type), class_name, None)
        own = getattr(getattr(class_, "config_class", None), "model_type", None)
        is_model = isinstance(class_, type) and issubclass(class_, PreTrainedModel)
    except (ImportError, RuntimeError) as error:
        raise missing_package(class_name, error) from error
    if class_ is None or not is_model or (class_name not in known and own != model_type):
        raise UnknownName(f"{model_type} class", class_name, known)
    return class_  # type: ignore[no-any-return]


def missing_package(what: str, error: BaseException) -> MissingPackage | WorkloadError:
    """The error for ``error``, which transformers raises with the name of the library that it wants."""
    wanted = re.search(r"requires the ([\w.-]+) library", str(error))
    if wanted:
        return MissingPackage(what, {"PIL": "pillow"}.get(wanted[1], wanted[1]))
    return WorkloadError(f"{what} cannot be imported: {in_short(error)}")
