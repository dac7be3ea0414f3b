"""Which pipelines the installed diffusers has, and what each one is made of."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any

from mpsprobe.environment import check_version
from mpsprobe.errors import MissingPackage, UnknownName, WorkloadError

LIBRARIES = ("diffusers", "transformers")
"""What every pipeline needs."""
DISTRIBUTIONS = {"opencv": "opencv-python", "k_diffusion": "k-diffusion", "note_seq": "note-seq"}
"""Of packages that diffusers calls by another name than ``pip install`` does."""


@cache
def pipeline_names() -> tuple[str, ...]:
    """The classes of pipelines that the installed diffusers has, without those of other frameworks."""
    import diffusers

    apart = ("Modular", "Onnx", "Flax", "Auto")
    names = (name for name in dir(diffusers) if name.endswith("Pipeline") and not name.startswith(apart))
    return tuple(sorted({*names} - {"DiffusionPipeline"} - {name for name in dir(diffusers) if "ModularPip" in name}))


def named_class(name: str, who: str) -> type[Any]:
    """A class of diffusers or transformers, or ``package.module:Class``.

    Raises MissingPackage: the class is there, and a package that it needs is not; WorkloadError: the installed
    libraries have no such class.
    """
    import importlib

    import diffusers
    import transformers

    module, colon, attribute = name.rpartition(":")
    places = [importlib.import_module(module)] if colon else [diffusers, transformers]
    for place in places:
        try:
            loaded = getattr(place, attribute, None)
        except ImportError as error:  # lazy modules import what the class is in
            raise WorkloadError(
                f"{who} needs {attribute}, which cannot be imported: {error}", "Reinstall the package that it names."
            ) from error
        if isinstance(loaded, type):
            check_backends(loaded, who)
            return loaded
    check_version("diffusers", "mpsprobe-hf", who)
    check_version("transformers", "mpsprobe-hf", who)
    raise WorkloadError(
        f"{who} needs {attribute}, which the installed diffusers and transformers do not have",
        "Install newer ones: pip install --upgrade diffusers transformers",
    )


def check_backends(class_: type[Any], who: str) -> None:
    """Raise ``MissingPackage`` where ``found`` stands in for a class whose packages are not all installed."""
    from diffusers.utils.import_utils import BACKENDS_MAPPING

    if type(class_).__name__ != "DummyObject":
        return
    backends: list[str] = vars(class_).get("_backends", [])
    for backend in backends:
        available, _ = BACKENDS_MAPPING[backend]
        if not available():
            raise MissingPackage(f"{who} ({class_.__name__})", DISTRIBUTIONS.get(backend, backend))


def pipeline_class(name: str, known: Mapping[str, Any]) -> type[Any]:
    """The class of diffusers called ``name``. Raises UnknownName: there is none; carries the nearest."""
    names = pipeline_names()
    if name not in names:
        hint = f"There are {len(known)} with a checkpoint's sizes, and {len(names)} classes of diffusers."
        raise UnknownName("pipeline", name, [*known, *names], hint)
    return named_class(name, f"'diffusers:{name}'")


def component_types(pipeline: type[Any]) -> dict[str, tuple[type[Any], ...]]:
    """The arguments of ``pipeline.__init__`` that are components, and which classes each one may have."""
    try:
        hints = typing.get_type_hints(pipeline.__init__)
    except NameError:  # an annotation that only type checkers can resolve
        hints = {}
    classes = {}
    for name, parameter in list(inspect.signature(pipeline.__init__).parameters.items())[1:]:
        kinds = _classes(hints.get(name, parameter.annotation))
        if any(not issubclass(kind, (bool, int, float, str, list, tuple, dict)) for kind in kinds):
            classes[name] = kinds
    return classes


def _classes(annotation: Any) -> tuple[type[Any], ...]:
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return () if annotation in (NoneType, inspect.Parameter.empty) else (annotation,)
    return tuple(class_ for part in typing.get_args(annotation) for class_ in _classes(part))


def required(pipeline: type[Any], name: str) -> bool:
    """Whether ``pipeline`` cannot be made, or not be used, without its component ``name``."""
    parameter = inspect.signature(pipeline.__init__).parameters[name]
    return parameter.default is inspect.Parameter.empty and name not in pipeline._optional_components
