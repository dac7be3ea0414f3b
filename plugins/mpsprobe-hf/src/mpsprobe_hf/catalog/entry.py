"""What a named workload is made of, as data: sizes of its models, and what is known of its inputs beyond the rules.

Nothing here imports torch or transformers: listing and describing workloads has to be instant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mpsprobe_hf.forms import Family

BATCH_SIZE = {"inference": 1, "training": 8}
"""Samples of one step where nothing else is said, by phase."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model class and what is known of its step beyond what is derived from the configuration."""

    model_class: str  # its name in ``transformers.models.<model_type>``
    parameters: int  # how many a model of the published size has, each shared one counted once
    own: Family = field(default_factory=Family)  # of its inputs, what the rules do not know
    loss: str = ""  # a function in ``mpsprobe_hf.losses``; empty for the model's own, or the mean of its outputs
    call: str = ""  # empty for ``model(**inputs)``; else a function of that name in ``mpsprobe_hf.calls``
    requires: tuple[str, ...] = ()  # distributions that this architecture needs besides transformers
    notes: tuple[str, ...] = ()  # what a reader of a report should know about this architecture or its inputs


@dataclass(frozen=True, slots=True)
class Entry:
    """A named workload."""

    name: str  # what the user types
    family: str  # ``text``, ``vision``, ``audio``, ``multimodal``, ``series`` or ``table``
    summary: str  # one line
    checkpoint: str  # the published model that has these sizes
    model_type: str  # the folder of ``transformers.models`` it lives in
    # The values of the checkpoint's configuration that shape the model, in full where they differ from the class's
    # defaults.
    config: Mapping[str, Any]
    # inference, training: the architecture for each phase; ``None`` where it cannot be trained
    inference: Architecture
    training: Architecture | None
    generate: Family = field(default_factory=Family)  # of the inputs of ``generate()``, what the rules do not know
    batch_size: Mapping[str, int] = field(default_factory=lambda: dict(BATCH_SIZE))  # of one step, by phase
    # seq_len, shortest, longest: the default length of a sequence and its limits, ``longest`` 0 for none; ``None``
    # where they are derived
    seq_len: int | None = None
    shortest: int | None = None
    longest: int | None = None
    seq_unit: str = "tokens"  # what sequences are made of
    untied: tuple[str, ...] = ()  # modules whose ``weight`` is their own although the model class ties it to another
    configuration: str = ""  # the configuration class, where it is not called as the model is

    @property
    def config_class(self) -> str:
        """The configuration class, called as the model is: ``BertConfig`` of ``BertModel``."""
        ending = r"(LMHeadModel|Model|(Model)?For[A-Z].*)$"
        return self.configuration or re.sub(ending, "Config", self.inference.model_class)

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that this workload has an architecture for."""
        return ("inference",) if self.training is None else ("inference", "training")

    @property
    def requires(self) -> tuple[str, ...]:
        """Distributions that inference needs besides transformers."""
        return self.inference.requires

    def architecture(self, phase: str) -> Architecture:
        """The architecture of ``phase``, which must be one of ``phases``; generation has that of inference."""
        chosen = self.training if phase == "training" else self.inference
        if chosen is None:
            raise KeyError(phase)
        return chosen


@dataclass(frozen=True, slots=True)
class Component:
    """A model, a scheduler or a processor of a pipeline."""

    class_name: str  # in diffusers or transformers; ``package.module:Class`` for one that neither has at its top
    # What the checkpoint's ``config.json`` says other than the defaults of the class.
    config: Mapping[str, Any] = field(default_factory=dict)
    # What replaces that for ``--size small`` where fewer layers are not all that it takes.
    small: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A named pipeline of diffusers."""

    name: str  # what stands behind ``diffusers:``
    family: str  # ``image``, ``video`` or ``audio``
    summary: str  # one line for the lists
    checkpoint: str  # the repository on the Hub that the configurations are from
    pipeline: str  # the class in diffusers
    # By the name that the pipeline has for them. Tokenizers are made from the text encoders' configurations, processors
    # from the defaults of their class; neither stands here.
    components: Mapping[str, Component]
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the pipeline itself, in addition to its components
    # What its ``__call__`` gets other than what is found out from its signature.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)  # the same for ``--size small``
    requires: tuple[str, ...] = ()  # packages that the pipeline's own code needs, and that do not come with diffusers
    phases: ClassVar[tuple[str, ...]] = ("inference", "training")
    model_type: ClassVar[str] = ""
