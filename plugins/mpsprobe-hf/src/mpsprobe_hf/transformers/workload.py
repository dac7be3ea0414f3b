"""A named workload: the catalog's entry, brought to life by ``build``."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from mpsprobe.environment import check_version
from mpsprobe.errors import MissingPackage, UnknownName, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_hf.catalog import entry_of, models, published_as
from mpsprobe_hf.catalog.entry import Architecture, Entry
from mpsprobe_hf.sizes import choose_sizes, shape_of
from mpsprobe_hf.transformers.configs.small import FEW_LAYERS, make_small
from mpsprobe_hf.transformers.generation import check_generates, generating, note, prompt
from mpsprobe_hf.transformers.lora import with_adapters


class NamedWorkload:
    """A workload of the catalog. Satisfies ``mpsprobe.protocols.Workload``."""

    framework = "torch"

    def __init__(self, entry: Entry, name: str = "") -> None:
        self.entry = entry
        self.name = name or entry.name

    def build(self, options: RunOptions) -> TorchRun:
        """The model in its published size with random weights, and one batch, on torch's default device."""
        entry = self.entry
        if options.weights:
            own = f"For real weights give the checkpoint instead: mpsprobe coverage {entry.checkpoint} --weights"
            raise UsageError(f"the workload '{entry.name}' is made with random weights", own)
        generates = options.phase == "generate"
        if not generates and options.phase not in entry.phases:
            raise UsageError(
                f"the workload '{entry.name}' has no {options.phase} phase", "Leave out --phase, or choose inference."
            )
        architecture = entry.architecture(options.phase)
        grows = generates and not any(field.name.startswith("decoder_") for field in architecture.inputs)
        sizes = choose_sizes(entry, options, room=options.new_tokens if grows else 0)
        check_installed(entry, architecture)
        model = with_adapters(self.name, make_model(entry, architecture, options), options)
        inputs = architecture.inputs
        if generates:
            inputs = prompt(entry.prompt or inputs, timed=options.word_timestamps)

        import torch

        from mpsprobe_hf.calls import CALLS
        from mpsprobe_hf.losses import LOSSES
        from mpsprobe_hf.tensors import make
        from mpsprobe_hf.transformers.construct import quietly

        dtype: torch.dtype = getattr(torch, options.dtype)
        return TorchRun(
            model=model,
            kwargs={field.name: make(field, sizes, dtype) for field in inputs},
            architecture=architecture.model_class,
            call=quietly(generating(model, options) if generates else CALLS.get(architecture.call)),
            loss=LOSSES[architecture.loss] if options.phase == "training" else None,
            batch_size=sizes["batch"],
            seq_len=sizes.get("seq") if any("seq" in field.shape for field in inputs) else None,
            notes=(
                *((FEW_LAYERS,) if options.size == "small" else ()),
                *((note(options),) if generates else architecture.notes),
            ),
        )

    def describe(self) -> Mapping[str, Any]:
        """Sizes of the published model and the inputs of one step; ``training`` where that differs."""
        entry = self.entry
        facts = {
            "checkpoint": entry.checkpoint,
            **_describe(entry, "inference"),
            "seq_len": entry.seq_len,
            "seq_len_longest": entry.longest or None,
            "seq_unit": entry.seq_unit if entry.seq_len else None,
            "model_type": entry.model_type,
            "config_class": entry.config_class,
            "config": copy.deepcopy(dict(entry.config)),
        }
        if entry.training is not None:
            facts["training"] = _describe(entry, "training")
        return facts


def _describe(entry: Entry, phase: str) -> dict[str, Any]:
    architecture = entry.architecture(phase)
    sizes = choose_sizes(entry, RunOptions(phase=phase))
    facts: dict[str, Any] = {
        "architecture": architecture.model_class,
        "parameters": architecture.parameters,
        "batch_size": sizes["batch"],
        "inputs": {field.name: list(shape_of(field, sizes)) for field in architecture.inputs},
        "notes": list(architecture.notes),
    }
    if phase == "training":
        facts["loss"] = architecture.loss
        facts["requires"] = list(architecture.requires)
    return facts


class PublishedWorkload(NamedWorkload):
    """A repository of the Hub whose sizes the catalog has: real where the cache has it or weights are asked for."""

    def build(self, options: RunOptions) -> TorchRun:
        """As the repository's own configuration has it, or as the catalog where nothing was fetched yet."""
        from huggingface_hub import try_to_load_from_cache

        from mpsprobe_hf.transformers.checkpoints import load

        checkpoint = self.entry.checkpoint
        if options.weights or isinstance(try_to_load_from_cache(checkpoint, "config.json"), str):
            return load(checkpoint).build(options)
        run = super().build(options)
        run.notes = (f"sizes as the workload '{self.entry.name}' has them: nothing was fetched", *run.notes)
        return run


def published(name: str) -> PublishedWorkload:
    """The workload of a repository that the catalog has an entry of; ``name`` is what the user typed."""
    entry = published_as(name.removeprefix("hf:"))
    if entry is None:
        raise UnknownName("workload", name, models())
    return PublishedWorkload(entry, name)


def named(name: str) -> NamedWorkload:
    """The workload that the catalog has under ``name``."""
    if name not in models():
        raise UnknownName("workload", name, models())
    return NamedWorkload(entry_of(name))


IMPORT_NAMES = {"pillow": "PIL"}
"""Of distributions that are imported under another name."""


def check_installed(entry: Entry, architecture: Architecture) -> None:
    """Raise ``MissingPackage`` for the first distribution that is needed and not there."""
    import importlib.util

    for distribution in architecture.requires:
        if importlib.util.find_spec(IMPORT_NAMES.get(distribution, distribution)) is None:
            raise MissingPackage(f"the workload '{entry.name}' ({architecture.model_class})", distribution)


def make_model(entry: Entry, architecture: Architecture, options: RunOptions) -> Any:
    """The model of ``architecture`` with random weights, in the mode and dtype of ``options``."""
    training = options.phase == "training"
    check_version("transformers", "mpsprobe-hf", "a Hugging Face workload")
    config_class, model_class = load_classes(entry, architecture)
    if options.phase == "generate":
        check_generates(entry.name, model_class, entry.model_type)
    from mpsprobe_hf.transformers.construct import construct, quiet

    with quiet():
        config = config_class(**copy.deepcopy(dict(entry.config)))
        if options.size == "small":
            config = make_small(config)
        return construct(model_class, config, options.dtype, training=training, untied=entry.untied)


def load_classes(entry: Entry, architecture: Architecture) -> tuple[type[Any], type[Any]]:
    """The configuration class and the model class; only the modules that hold them are imported."""
    import importlib

    where = f"transformers.models.{entry.model_type}"
    try:
        configuration = importlib.import_module(f"{where}.configuration_{entry.model_type}")
        modeling = importlib.import_module(f"{where}.modeling_{entry.model_type}")
        return getattr(configuration, entry.config_class), getattr(modeling, architecture.model_class)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(where):
            raise _not_there(entry, architecture, error) from error
        raise WorkloadError(
            f"the installed transformers cannot be imported: {error}",
            "Something that it needs is missing: pip install --force-reinstall transformers",
        ) from error
    except (ImportError, AttributeError) as error:
        raise _not_there(entry, architecture, error) from error


def _not_there(entry: Entry, architecture: Architecture, error: Exception) -> WorkloadError:
    return WorkloadError(
        f"the workload '{entry.name}' needs {architecture.model_class}, "
        f"which the installed transformers does not have: {error}",
        "Install a newer one: pip install --upgrade transformers",
    )
