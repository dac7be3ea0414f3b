"""A named workload: the catalog's entry, brought to life by ``build``."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

from mpsprobe.environment import check_version
from mpsprobe.errors import UnknownName, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe_hf.catalog import entry_of, models, published_as
from mpsprobe_hf.catalog.entry import Architecture, Entry
from mpsprobe_hf.installed import check_installed
from mpsprobe_hf.transformers.configs.small import FEW_LAYERS, make_small


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
        check_installed(f"the workload '{entry.name}' ({architecture.model_class})", architecture.requires)
        check_version("transformers", "mpsprobe-hf", "a Hugging Face workload")
        config_class, model_class = load_classes(entry, architecture)
        from mpsprobe_hf.transformers.construct import construct, quiet
        from mpsprobe_hf.transformers.inputs.derive import complete
        from mpsprobe_hf.transformers.run import LIMITS, make_run

        own_inputs = entry.generate if generates else architecture.own
        said = {key: value for key in LIMITS if (value := getattr(entry, key)) is not None}
        said |= {key: value for key in ("loss", "call") if (value := getattr(architecture, key))}
        few, training = (FEW_LAYERS,) if options.size == "small" else (), options.phase == "training"
        with quiet():
            config = config_class(**copy.deepcopy(dict(entry.config)))
            config = make_small(config) if options.size == "small" else config
            complete(config, architecture.model_class)
            make = partial(construct, model_class, config, options.dtype, training=training, untied=entry.untied)
            notes = (*few, *(() if generates else architecture.notes))
            return make_run(self.name, model_class, config, options, make, notes, own=own_inputs, said=said)

    def describe(self) -> Mapping[str, Any]:
        """Sizes of the published model; ``training`` where that differs."""
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
    own = architecture.own
    facts: dict[str, Any] = {
        "architecture": architecture.model_class,
        "parameters": architecture.parameters,
        "batch_size": entry.batch_size[phase],
        "inputs": {
            "derived": "from the configuration",
            **own.measures,
            **{name: list(form.shape) for name, form in own.arguments.items()},
        },
        "notes": list(architecture.notes),
    }
    if phase == "training":
        facts["loss"] = architecture.loss or "derived"
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
