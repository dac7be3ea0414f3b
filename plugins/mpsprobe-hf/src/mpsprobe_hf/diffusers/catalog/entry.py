"""The shape of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Component:
    """A model, a scheduler or a processor of a pipeline.

    Attributes:
        class_name: in diffusers or transformers; ``package.module:Class`` for one that neither has at its top.
        config: what the checkpoint's ``config.json`` says other than the defaults of the class.
        small: what replaces that for ``--size small`` where fewer layers are not all that it takes.
    """

    class_name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """A published pipeline.

    Attributes:
        name: what stands behind ``diffusers:``.
        pipeline: the class in diffusers.
        checkpoint: the repository on the Hub that the configurations are from.
        summary: one line for the lists.
        components: by the name that the pipeline has for them. Tokenizers are made from the text encoders'
            configurations, processors from the defaults of their class; neither stands here.
        family: ``image``, ``video`` or ``audio``.
        settings: of the pipeline itself, in addition to its components.
        inputs: what its ``__call__`` gets other than what is found out from its signature.
        small: the same for ``--size small``.
        requires: packages that the pipeline's own code needs, and that do not come with diffusers.
    """

    name: str
    pipeline: str
    checkpoint: str
    summary: str
    components: Mapping[str, Component]
    family: str = "image"
    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
