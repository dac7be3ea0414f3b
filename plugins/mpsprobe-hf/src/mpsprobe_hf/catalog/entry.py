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
    """A model class and what is known of its step beyond what is derived from the configuration.

    Attributes:
        model_class: its name in ``transformers.models.<model_type>``.
        parameters: how many a model of the published size has, each shared one counted once.
        own: of its inputs, what the rules do not know.
        loss: a function in ``mpsprobe_hf.losses``; empty for the model's own, or the mean of its outputs.
        call: empty for ``model(**inputs)``; else a function of that name in ``mpsprobe_hf.calls``.
        requires: distributions that this architecture needs besides transformers.
        notes: what a reader of a report should know about this architecture or its inputs.
    """

    model_class: str
    parameters: int
    own: Family = field(default_factory=Family)
    loss: str = ""
    call: str = ""
    requires: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A named workload.

    Attributes:
        name: what the user types.
        family: ``text``, ``vision``, ``audio``, ``multimodal``, ``series`` or ``table``.
        summary: one line.
        checkpoint: the published model that has these sizes.
        model_type: the folder of ``transformers.models`` it lives in.
        config: the values of the checkpoint's configuration that shape the model, in full where
            they differ from the class's defaults.
        inference, training: the architecture for each phase; ``None`` where it cannot be trained.
        generate: of the inputs of ``generate()``, what the rules do not know.
        batch_size: of one step, by phase.
        seq_len, shortest, longest: the default length of a sequence and its limits, ``longest`` 0 for none; ``None``
            where they are derived.
        seq_unit: what sequences are made of.
        untied: modules whose ``weight`` is their own although the model class ties it to another.
        configuration: the configuration class, where it is not called as the model is.
    """

    name: str
    family: str
    summary: str
    checkpoint: str
    model_type: str
    config: Mapping[str, Any]
    inference: Architecture
    training: Architecture | None
    generate: Family = field(default_factory=Family)
    batch_size: Mapping[str, int] = field(default_factory=lambda: dict(BATCH_SIZE))
    seq_len: int | None = None
    shortest: int | None = None
    longest: int | None = None
    seq_unit: str = "tokens"
    untied: tuple[str, ...] = ()
    configuration: str = ""

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
class Pipeline:
    """A named pipeline of diffusers.

    Attributes:
        name: what stands behind ``diffusers:``.
        family: ``image``, ``video`` or ``audio``.
        summary: one line for the lists.
        checkpoint: the repository on the Hub that the configurations are from.
        pipeline: the class in diffusers.
        components: by the name that the pipeline has for them. Tokenizers are made from the text encoders'
            configurations, processors from the defaults of their class; neither stands here.
        settings: of the pipeline itself, in addition to its components.
        arguments: what its ``__call__`` gets other than what is found out from its signature.
        small: the same for ``--size small``.
        requires: packages that the pipeline's own code needs, and that do not come with diffusers.
    """

    name: str
    family: str
    summary: str
    checkpoint: str
    pipeline: str
    components: Mapping[str, Component]
    settings: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    phases: ClassVar[tuple[str, ...]] = ("inference", "training")
    model_type: ClassVar[str] = ""
