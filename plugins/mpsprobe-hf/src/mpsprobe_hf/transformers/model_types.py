"""``hf:bert``, ``hf:bert/BertForMaskedLM``, ``hf:bert@fill-mask``: a model type with its default configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mpsprobe.environment import check_version
from mpsprobe.errors import MissingPackage, MpsprobeError, UnknownName, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.suggestions import in_short
from mpsprobe_hf.transformers.checkpoints import load as load_checkpoint
from mpsprobe_hf.transformers.classes import (
    base_class_name,
    class_for_task,
    class_names,
    holder_of,
    missing_package,
    model_class_of,
    model_types,
    part_types,
    with_forward,
)
from mpsprobe_hf.transformers.configs.repairs import (
    as_read,
    declared,
    left_out,
    part_for,
    repair,
    with_image_tokens,
    with_one_width,
    without_timm,
)
from mpsprobe_hf.transformers.configs.small import FEW_LAYERS, make_small
from mpsprobe_hf.transformers.generation import generating_class_name
from mpsprobe_hf.transformers.inputs.derive import complete
from mpsprobe_hf.transformers.names import PREFIX
from mpsprobe_hf.transformers.run import make_run

if TYPE_CHECKING:
    from mpsprobe.protocols import Workload


def load(name: str) -> Workload:
    """The workload of ``hf:TYPE``, ``hf:TYPE/CLASS`` or ``hf:TYPE@TASK``, or of a repository of the Hub.

    Raises UnknownName: no such model type; carries the nearest.
    """
    check_version("transformers", "mpsprobe-hf", "a Hugging Face workload")
    asked = name.removeprefix(PREFIX)
    model_type, at, task = asked.partition("@")
    model_type, slash, class_name = model_type.partition("/")
    known = model_types()
    if model_type in known:
        if at and class_name:
            raise UsageError(f"'{name}' names a class and a task", f"Choose one: {PREFIX}{model_type}@{task}")
        return ModelTypeWorkload(name, model_type, class_for_task(model_type, task) if at else class_name)
    if slash and class_name:
        return load_checkpoint(asked)
    raise UnknownName("model type", model_type, known, f"transformers has {len(known)} of them, such as hf:bert.")


def _parts_made(model_type: str, options: RunOptions) -> list[str]:
    """The parts of ``model_type`` that can be made of the packages that are installed; parts of those that cannot."""
    names: list[str] = []
    for part in part_types(model_type):
        try:
            ModelTypeWorkload(PREFIX + part, part)._sized(options)
            names.append(PREFIX + part)
        except MissingPackage:
            names += _parts_made(part, options)
        except MpsprobeError:
            continue
    return list(dict.fromkeys(names))


class ModelTypeWorkload:
    """A model type with its default configuration and random weights."""

    framework = "torch"

    def __init__(self, name: str, model_type: str, class_name: str = "", notes: tuple[str, ...] = ()) -> None:
        self.name = name
        self.model_type = model_type
        self.class_name = class_name
        self.notes = notes

    def build(self, options: RunOptions) -> TorchRun:
        """The model and inputs derived from its configuration, on torch's default device.

        Raises UnknownName: the type has no such class; carries the nearest; WorkloadError: the type has no default
        configuration, or no inputs can be derived.
        """
        if options.weights:
            raise UsageError(
                f"'{self.name}' is a model type: it has no weights", "Give a checkpoint: organisation/repository."
            )
        holder = "" if self.class_name else holder_of(self.model_type)
        try:
            run = self._sized(options)
            return self._or_in(holder, run, options) if holder else run
        except UsageError:
            raise
        except MissingPackage as error:
            parts = [] if self.class_name else _parts_made(self.model_type, replace(options, size="small"))
            if parts:
                error.hint = f"{error.hint}\nParts that can be judged without it: {', '.join(parts)}."
            raise
        except WorkloadError:
            if not holder:
                raise
        return self._in(holder, options)

    def _in(self, holder: str, options: RunOptions) -> TorchRun:
        """The run of ``holder``, for a part that has no model, or none that can be run."""
        part = f"{self.model_type} belongs to {holder} and cannot be judged alone: {holder} was"
        return ModelTypeWorkload(self.name, holder, notes=(part,)).build(options)

    def _or_in(self, holder: str, run: TorchRun, options: RunOptions) -> TorchRun:
        """``run``, and that of ``holder`` when no correction is left."""
        first = run.correct
        if first is None:
            return run

        def correct(error: Exception) -> TorchRun | None:
            better = first(error)
            if better is not None:
                return self._or_in(holder, better, options)
            with suppress(MpsprobeError):
                return self._in(holder, options)
            return None

        return replace(run, correct=correct)

    def _sized(self, options: RunOptions) -> TorchRun:
        if options.size == "small":
            try:
                return self._run(options, FEW_LAYERS)
            except (UsageError, MissingPackage):
                raise
            except WorkloadError as error:
                options = replace(options, size="real")
                return self._run(options, f"at its real size, since few layers do not work: {error.message}")
        return self._run(options)

    def _run(self, options: RunOptions, *notes: str) -> TorchRun:
        from mpsprobe_hf.transformers.construct import construct, quiet

        def make() -> Any:
            made = partial(construct, model_class, dtype=options.dtype, training=options.phase == "training")
            try:
                return made(config)
            except (MpsprobeError, ImportError):
                raise
            except Exception:
                with suppress(Exception):
                    return made(as_read(config))
                raise

        with quiet():
            config, said = self._config(options)
            model_class = self._class(config, options.phase)
            if options.phase != "generate":
                model_class = with_forward(model_class, config)
            try:
                config = part_for(model_class, config)
            except Exception as error:
                raise WorkloadError(f"{model_class.__name__} takes no part of {self.model_type}") from error
            complete(config, model_class.__name__)
            return make_run(
                self.name,
                model_class,
                config,
                options,
                make,
                (*self.notes, *notes, *said, *self._unpublished()),
                self._named(),
            )

    def describe(self) -> Mapping[str, Any]:
        """The type and its classes, as transformers names them."""
        return {
            "model_type": self.model_type,
            "architecture": self.class_name or base_class_name(self.model_type),
            "classes": class_names(self.model_type),
            "config": "defaults of the model type",
        }

    def _published(self) -> list[str]:
        """The workloads of the catalog that are of this type."""
        from mpsprobe_hf.catalog import models

        model_type = self.model_type.replace("-", "_")
        return [name for name, facts in models().items() if facts["model_type"] == model_type]

    def _named(self) -> str | None:
        """What to do where no inputs can be derived: the catalog may have a workload of this type."""
        names = " or ".join(map(repr, self._published()))
        return f"The workload {names} is of this type and brings inputs." if names else None

    def _unpublished(self) -> list[str]:
        """That the sizes are nobody's, with the names of those that somebody published, where the catalog has any."""
        names = ", ".join(self._published())
        default = f"the default configuration of the model type {self.model_type}, which nobody may have published"
        return [f"{default}; published: {names}"] if names else []

    def _config(self, options: RunOptions) -> tuple[Any, list[str]]:
        """The configuration, and what was filled in."""
        from transformers import AutoConfig
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        try:
            values = declared(CONFIG_MAPPING[self.model_type])
            config = AutoConfig.for_model(self.model_type, **values)
            parts = left_out(config)
            if parts:
                config = AutoConfig.for_model(self.model_type, **{**parts, **values})
            with_one_width(config)
            said = [*repair(config), *without_timm(config)]
            if options.size == "small":
                config = make_small(config)
        except ImportError as error:
            raise missing_package(f"'{self.name}'", error) from error
        except Exception as error:
            raise WorkloadError(
                f"the model type '{self.model_type}' has no default configuration: {in_short(error)}",
                "Give a checkpoint (a folder or organisation/repository), or path/to/file.py:function.",
            ) from error
        if getattr(config, "is_encoder_decoder", False):
            # Every checkpoint says them, some defaults (T5's) do not, and labels cannot be shifted without them.
            for token in ("pad_token_id", "decoder_start_token_id"):
                if getattr(config, token, None) is None:
                    setattr(config, token, getattr(config, "pad_token_id", None) or 0)
        with_image_tokens(config)
        decodes = options.phase == "generate" or re.search("CausalLM$|LMHead", self.class_name)
        if decodes and hasattr(config, "is_decoder") and not config.is_encoder_decoder:
            config.is_decoder = True  # without it BERT and its like attend to what comes after
        return config, said

    def _class(self, config: Any, phase: str) -> type[Any]:
        generating = generating_class_name(self.model_type) if phase == "generate" else ""
        wanted = self.class_name or generating or base_class_name(self.model_type)
        if not wanted:
            known = class_names(self.model_type)
            raise WorkloadError(
                f"the model type '{self.model_type}' has no model that transformers would choose by itself",
                f"Name a class: {PREFIX}{self.model_type}/{known[0]}" if known else None,
            )
        return model_class_of(self.model_type, wanted)
