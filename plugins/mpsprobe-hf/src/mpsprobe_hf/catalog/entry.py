"""What a named workload is made of, as data: sizes of its models, shapes of its inputs, what it is trained with.

Nothing here imports torch or transformers: listing and describing workloads has to be instant.
``mpsprobe_hf.tensors`` turns fields into tensors, ``mpsprobe_hf.transformers.construct`` makes the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

Dimension = int | str
"""Elements along one axis; ``"batch"``, ``"seq"`` or a multiple (``"4*batch"``) where the user may choose."""

Kind = Literal[
    "integers",
    "tokens",
    "padding_mask",
    "leading",
    "token_labels",
    "floats",
    "ones",
    "observed",
    "flags",
    "every_other",
    "spans",
    "zeros",
    "constant",
    "rows",
    "places",
    "columns",
    "series",
    "boxes",
    "class_lists",
    "mask_lists",
]
"""What an input can hold: each is a function in ``mpsprobe_hf.tensors``."""

BATCH_SIZE = {"inference": 1, "training": 8}
"""Samples of one step where nothing else is said, by phase."""


@dataclass(frozen=True, slots=True)
class Field:
    """One input of a model.

    Attributes:
        name: the keyword argument of ``forward``.
        kind: what is in it; a function of that name in ``mpsprobe_hf.tensors``.
        shape: its dimensions.
        high: for whole numbers, one more than the largest (a vocabulary size, a number of classes).
        settings: what else the kind takes.
    """

    name: str
    kind: str
    shape: tuple[Dimension, ...]
    high: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model class and what it is called with.

    Attributes:
        model_class: its name in ``transformers.models.<model_type>``.
        inputs: the keyword arguments of ``forward``, labels included where it is trained with them.
        parameters: how many a model of the published size has, each shared one counted once.
        loss: ``output`` for ``output.loss``; else a function of that name in ``mpsprobe_hf.losses``.
        call: empty for ``model(**inputs)``; else a function of that name in ``mpsprobe_hf.calls``.
        requires: distributions that this architecture needs besides transformers.
        notes: what a reader of a report should know about this architecture or its inputs.
    """

    model_class: str
    inputs: tuple[Field, ...]
    parameters: int
    loss: str = "output"
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
        batch_size: of one step, by phase.
        seq_len: default sequence length, ``None`` for a workload without sequences.
        shortest, longest: limits of ``seq_len``; ``longest`` 0 for none.
        seq_unit: what sequences are made of.
        prompt: what ``generate()`` is given, where that is not what the forward pass of inference takes.
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
    batch_size: Mapping[str, int] = field(default_factory=lambda: dict(BATCH_SIZE))
    seq_len: int | None = None
    shortest: int = 1
    longest: int = 0
    seq_unit: str = "tokens"
    prompt: tuple[Field, ...] = ()
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
