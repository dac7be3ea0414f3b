"""From a model class and its configuration to a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import MpsprobeError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.suggestions import in_short, printable
from mpsprobe_hf.forms import NOTHING, Family
from mpsprobe_hf.transformers.checkpoint_files import check_sizes

if TYPE_CHECKING:
    from mpsprobe_hf.sizes import Field
    from mpsprobe_hf.transformers.inputs.derive import Derived
    from mpsprobe_hf.transformers.inputs.guess import Guess

NOTHING_SAID: Mapping[str, Any] = {}
LIMITS = ("seq_len", "longest", "shortest", "seq_unit", "batch_size")
"""What can be known better than it is derived, of ``Derived``."""
OF_A_DEVICE = re.compile(r"(?<!device=')\b(mps|cuda)\b|on the same device", re.IGNORECASE)
"""In messages of what one device refuses and another takes; with ``device=`` a tensor is shown."""


def check_config(name: str, config: Any) -> None:
    """Refuse numbers that no model has and that would take all memory. Raises as ``check_sizes``."""
    for sub in (config, *(getattr(config, key, None) for key in getattr(config, "sub_configs", ()))):
        if hasattr(sub, "__dict__"):
            check_sizes(name, vars(sub))


def _of_images(model_type: str) -> str:
    """The model of single images that one of videos is made of, which can be trained, as the end of a hint."""
    from mpsprobe_hf.transformers.classes import model_types

    images = model_type.removesuffix("_video")
    return f", or train hf:{images}" if images != model_type and images in model_types() else ""


def make_run(
    name: str,
    model_class: type[Any],
    config: Any,
    options: RunOptions,
    make_model: Callable[[], Any],
    notes: tuple[str, ...] = (),
    hint: str | None = None,
    own: Family = NOTHING,
    said: Mapping[str, Any] = NOTHING_SAID,
) -> TorchRun:
    """Derive inputs, make the model, and put both together; ``own`` and ``said`` are known better than the rules.

    Raises WorkloadError: inputs cannot be derived, or the model cannot be made; UsageError: a size that the model
    cannot take.
    """
    from mpsprobe_hf.transformers.classes import runs_without_gradients
    from mpsprobe_hf.transformers.construct import with_adapters
    from mpsprobe_hf.transformers.generation import check_generates
    from mpsprobe_hf.transformers.inputs.derive import OWN_FUNCTION, head_of
    from mpsprobe_hf.transformers.inputs.guess import Guess
    from mpsprobe_hf.transformers.inputs.measures import Measures
    from mpsprobe_hf.transformers.inputs.rules import FAMILIES
    from mpsprobe_hf.transformers.inputs.signature import Signature

    check_config(name, config)
    if options.phase == "generate":
        check_generates(name, model_class, config.model_type)
    if options.phase == "training" and runs_without_gradients(model_class):
        raise WorkloadError(
            f"'{printable(name)}' cannot be trained: the forward of {model_class.__name__} computes no gradients",
            f"Leave out --phase training{_of_images(config.model_type)}.",
        )
    family = own.over(FAMILIES.get(config.model_type, NOTHING))
    head = head_of(model_class.__name__)
    guess = Guess(
        Signature.of(model_class, config),
        Measures(config, family.measures),
        {**(head.inputs if head else {}), **family.arguments},
        family.more,
        frozenset(family.without),
    )
    derivation = Derivation(name, options, hint or OWN_FUNCTION, notes, said)
    derivation.sizes(guess)  # what cannot be derived is said before a large model is made
    try:
        model = make_model()
    except MpsprobeError:
        raise
    except ImportError as error:
        from mpsprobe_hf.transformers.classes import missing_package

        raise missing_package(f"'{printable(name)}' ({model_class.__name__})", error) from error
    except Exception as error:
        raise WorkloadError(
            f"'{printable(name)}' cannot be built as {model_class.__name__}: {in_short(error)}",
            "Its configuration may not fit the installed transformers, or it may need a package that is not installed.",
        ) from error
    return derivation.run(with_adapters(name, model.train(options.phase == "training"), options), guess)


def _call(model: Any, options: RunOptions, fields: Iterable[Field]) -> Any:
    """How the model is called, where that is not plainly."""
    from mpsprobe_hf.calls import SESSION, in_session
    from mpsprobe_hf.transformers.generation import generating

    if options.phase == "generate":
        return generating(model, options)
    return in_session if any(field.name == SESSION for field in fields) else None


@dataclass(frozen=True, slots=True)
class Derivation:
    """Makes a run of a guess, and of the guesses that follow from what the model raises."""

    name: str
    options: RunOptions
    hint: str  # what to do where there are no inputs
    notes: tuple[str, ...]  # of the run; those on its inputs come before them
    # What is known better than derived: of ``LIMITS``, and ``loss`` and ``call``, functions of these names in
    # ``mpsprobe_hf.losses`` and ``mpsprobe_hf.calls``.
    said: Mapping[str, Any]

    def sizes(self, guess: Guess) -> tuple[Derived, dict[str, int]]:
        """The inputs of ``guess``, and the batch size and sequence length that they get."""
        from mpsprobe_hf.transformers.inputs.derive import choose_sizes, derive

        derived = derive(self.name, guess, self.options.phase, self.hint)
        better = {key: self.said[key] for key in self.said if key in LIMITS and (key != "seq_len" or derived.seq_len)}
        if guess.samples == 1:  # the model has refused more
            better.pop("batch_size", None)
        derived = replace(derived, **better)
        alone = self.options.phase == "generate" and not guess.signature.writes
        return derived, choose_sizes(derived, self.options, self.options.new_tokens if alone else 0)

    def run(self, model: Any, guess: Guess) -> TorchRun:
        """``model`` with the inputs of ``guess``."""
        import torch

        from mpsprobe_hf.calls import CALLS
        from mpsprobe_hf.losses import LOSSES
        from mpsprobe_hf.tensors import make
        from mpsprobe_hf.transformers.construct import quietly
        from mpsprobe_hf.transformers.generation import note, prompt

        options, generates = self.options, self.options.phase == "generate"
        derived, sizes = self.sizes(guess)
        dtype: torch.dtype = getattr(torch, options.dtype)
        fields = prompt(derived.fields, timed=options.word_timestamps) if generates else derived.fields
        training = options.phase == "training"
        notes = [derived.note, *((note(options),) if generates else ()), *self.notes]
        loss = self.said.get("loss", "own" if derived.own_loss else "mean")
        if training and loss == "mean":
            made_up = f"{guess.signature.name} has no loss that could be derived: trained with the mean of its outputs"
            notes.append(made_up)
        return TorchRun(
            model=model,
            kwargs={field.name: make(field, sizes, dtype) for field in fields},
            architecture=guess.signature.name,
            call=quietly(_call(model, options, fields) or CALLS.get(self.said.get("call", ""))),
            loss=LOSSES[loss] if training else None,
            batch_size=sizes["batch"],
            seq_len=sizes.get("seq"),
            notes=notes,
            correct=partial(self.corrected, model, guess, sizes, notes),
        )

    def corrected(
        self, model: Any, guess: Guess, sizes: Mapping[str, int], notes: list[str], error: Exception
    ) -> TorchRun | None:
        """The run with what ``error`` says about its inputs, of ``guess``; nothing where a device refused.

        Where nothing is left to try, ``notes`` of the run say by which rules its inputs were derived.
        """
        if OF_A_DEVICE.search(str(error)):
            return None
        from mpsprobe_hf.transformers.correcting.corrections import (
            corrected,
            one_sample,
            without_images,
            without_labels,
        )
        from mpsprobe_hf.transformers.inputs.derive import label_forms

        derived = self.sizes(guess)[0]
        labels = [field.name for field in derived.labels]
        for better in (
            corrected(guess, error, sizes),
            without_labels(guess, labels, error),
            one_sample(guess, error, sizes) if self.options.batch_size is None else None,
            without_images(guess, error),
        ):
            if better is not None:
                with suppress(MpsprobeError):  # another input that cannot be derived
                    return self.run(model, better)
        notes.append(guess.rules([field.name for field in derived.fields], label_forms(guess)))
        return None
