"""What a transformers model class says about its inputs: its ``forward``, its main input, its configuration."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mpsprobe_hf.transformers.inputs.measures import Measures, first


@dataclass(frozen=True, slots=True)
class Signature:
    """A model class with its configuration, as far as inputs depend on them."""

    model_class: type[Any]  # the class
    config: Any  # its configuration
    parameters: tuple[str, ...]  # the arguments of ``forward`` that can be given by name, in its order
    required: frozenset[str]  # those of them without a default

    @classmethod
    def of(cls, model_class: type[Any], config: Any) -> Signature:
        """Read ``model_class.forward``."""
        arguments = _arguments(model_class.forward)
        required = frozenset(argument.name for argument in arguments if argument.default is argument.empty)
        names = [argument.name for argument in arguments]
        for shared in _heads_shared(model_class):
            names += [argument.name for argument in _arguments(shared) if argument.name not in names]
        return cls(model_class, config, tuple(names), required)

    @property
    def main(self) -> tuple[str, ...]:
        """The arguments that the class itself calls its main input."""
        named = getattr(self.model_class, "main_input_name", "input_ids")
        return tuple(named) if isinstance(named, (list, tuple)) else (str(named),)

    @property
    def name(self) -> str:
        """Of the class."""
        return self.model_class.__name__

    @property
    def writes(self) -> bool:
        """Whether a decoder of its own is given ids."""
        config = self.config
        return bool(getattr(config, "is_encoder_decoder", False)) or "decoder_input_ids" in self.required

    @property
    def longest(self) -> int:
        """Tokens that positions are stored for; 0 for no limit."""
        names = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "context_length")
        parts = Measures(self.config).parts("text")
        values = [value for value in (first([config], *names) for config in parts) if isinstance(value, int)]
        return max(values[0], 0) if values else 0


def _arguments(function: Any) -> list[inspect.Parameter]:
    """The arguments of a method that can be given by name."""
    parameters = inspect.signature(function).parameters.values()
    return [
        parameter
        for parameter in parameters
        if parameter.name != "self" and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]


def _heads_shared(model_class: type[Any]) -> Iterator[Any]:
    """The ``forward`` that all heads of a kind share, where the class has one that passes on what it does not name."""
    own, *shared = [vars(class_)["forward"] for class_ in model_class.__mro__ if "forward" in vars(class_)]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in inspect.signature(own).parameters.values()):
        yield from (class_ for class_ in shared if class_.__module__ == "transformers.modeling_layers")
