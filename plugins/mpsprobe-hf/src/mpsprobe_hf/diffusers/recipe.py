"""What a pipeline is made of: an entry of the catalog, or what is found out about a class of diffusers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mpsprobe.errors import MissingPackage
from mpsprobe_hf.catalog import pipelines
from mpsprobe_hf.catalog.entry import Component, Pipeline
from mpsprobe_hf.diffusers.classes import component_types, named_class, pipeline_class, required
from mpsprobe_hf.installed import check_installed

PROCESSORS = ("tokenizer", "processor", "feature_extractor")
"""Words in the names of components that are made without a configuration of their own."""

DENOISERS = ("transformer", "unet", "prior", "decoder")
"""What pipelines call the model that takes the noise away; the first that is there."""

AUTOENCODERS = ("vae", "movq", "audio_vae")
"""What pipelines call the model that turns latents into pixels or sound."""
BASES = ("PreTrainedModel", "SchedulerMixin")
"""How classes end that stand for all that are made of them."""
STEP = "step"
"""The part that is no component: a denoising step with its scheduler."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that it takes to build a pipeline."""

    pipeline: type[Any]  # its class
    components: Mapping[str, Component]  # by name, without tokenizers and processors
    processors: Mapping[str, tuple[type[Any], ...]]  # the names of those, and the classes that they may have
    checkpoint: str = ""  # where the sizes are from; empty for defaults of the classes
    # settings, arguments, small: as a ``Pipeline`` has them
    settings: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what a reader of the report should know

    @property
    def denoiser(self) -> str | None:
        """The component that takes the noise away, if it is known by its name."""
        return next((name for name in DENOISERS if name in self.components), None)

    def parts(self) -> tuple[str, ...]:
        """What may stand behind ``/``: the models, and the other half of an autoencoder."""
        models = [name for name in self.components if "scheduler" not in name]
        encoders = [f"{name}-encoder" for name in models if name in AUTOENCODERS]
        return (*models, *encoders, *((STEP,) if self.denoiser else ()))


def recipe(name: str) -> Recipe:
    """Of the pipeline that ``name`` stands for: an entry, or a class of diffusers.

    Raises UnknownName: neither; carries the nearest; MissingPackage: a package that the class needs is not installed.
    """
    known = pipelines()
    if name in known:
        return published(known[name])
    class_ = pipeline_class(name, known)
    first = next((pipeline for pipeline in known.values() if pipeline.pipeline == name), None)
    return published(first) if first else _derived(class_)


def published(entry: Pipeline) -> Recipe:
    """Of a pipeline whose sizes are known."""
    check_installed(f"the workload '{entry.name}'", entry.requires)
    class_ = named_class(entry.pipeline, f"'diffusers:{entry.name}'")
    return Recipe(
        class_, entry.components, processors(class_, entry.components), entry.checkpoint,
        entry.settings, entry.arguments, entry.small, (f"sizes of {entry.checkpoint}",),
    )  # fmt: skip


def _derived(class_: type[Any]) -> Recipe:
    """Sizes are those of the published pipeline that shares most components with it."""
    types = component_types(class_)
    models = {name: kinds for name, kinds in types.items() if not is_processor(name)}

    def shared(entry: Pipeline) -> dict[str, Component]:
        return {
            name: component for name, component in entry.components.items() if _fits(component, models.get(name, ()))
        }

    nearest = max(pipelines().values(), key=lambda pipeline: len(shared(pipeline)))
    components = shared(nearest)
    left = {name: kinds for name, kinds in models.items() if name not in components and required(class_, name)}
    while left:  # those that belong together are taken from one checkpoint
        more = max((_of(entry, left) for entry in pipelines().values()), key=len)
        if not more:
            break
        components |= more
        left = {name: kinds for name, kinds in left.items() if name not in more}
    by_default = []
    for name, kinds in left.items():
        everywhere = (component for entry in pipelines().values() for component in entry.components.values())
        elsewhere = next((pipeline for pipeline in everywhere if _fits(pipeline, kinds)), None)
        components[name] = elsewhere or Component(f"{kinds[0].__module__}:{kinds[0].__name__}")
        if elsewhere is None:
            by_default.append(name)
    notes = [f"sizes of {nearest.checkpoint}, where the components are the same"]
    if by_default:
        notes.append(f"{', '.join(by_default)} with the defaults of the class")
    made = processors(class_, components)
    return Recipe(class_, components, made, nearest.checkpoint, small=nearest.small, notes=tuple(notes))


def _of(entry: Pipeline, wanted: Mapping[str, tuple[type[Any], ...]]) -> dict[str, Component]:
    """The components of ``entry`` that fit those called so, or so with something before it (``prior_text_encoder``)."""
    return {
        name: component
        for name, kinds in wanted.items()
        for key, component in entry.components.items()
        if f"_{name}".endswith(f"_{key}") and _fits(component, kinds)
    }


def _fits(component: Component, kinds: tuple[type[Any], ...]) -> bool:
    name = component.class_name.rpartition(":")[2]
    if any(kind.__name__.endswith(BASES) for kind in kinds):  # any model of transformers, or of a family
        try:
            return issubclass(named_class(component.class_name, name), kinds)
        except MissingPackage:
            return False
    # The schedulers of Stable Diffusion are listed in an enumeration.
    return any(name in (kind.__name__, *getattr(kind, "__members__", ())) for kind in kinds)


def is_processor(name: str) -> bool:
    """Whether the component is made without a configuration of its own."""
    return any(word in name for word in PROCESSORS)


def processors(class_: type[Any], components: Mapping[str, Component]) -> dict[str, tuple[type[Any], ...]]:
    """The processors that ``found`` needs with these components, and the classes that they may have."""
    return {
        name: kinds
        for name, kinds in component_types(class_).items()
        if is_processor(name) and (required(class_, name) or _wanted(name, components))
    }


def _wanted(name: str, components: Mapping[str, Component]) -> bool:
    """An optional processor goes with its model."""
    pairs = {"image_processor": "image_encoder", "feature_extractor": "safety_checker"}
    return pairs.get(name, name.replace("tokenizer", "text_encoder")) in components
