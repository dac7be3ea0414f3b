"""A checkpoint folder and a repository of the Hub: the configuration is real, the weights if asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mpsprobe.environment import check_version
from mpsprobe.errors import MpsprobeError, UsageError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.suggestions import in_short, nearest, printable
from mpsprobe_hf.checkpoint.quantization import quantization_of
from mpsprobe_hf.transformers.checkpoint_files import (
    CONFIG,
    SAFE_INDEX,
    check_index,
    check_sizes,
    check_weights,
    needs_own_code,
    own_code,
    read_config,
)
from mpsprobe_hf.transformers.classes import base_class_name, model_class_of, model_types
from mpsprobe_hf.transformers.configs.small import FEW_LAYERS, make_small
from mpsprobe_hf.transformers.generation import generating_class_name
from mpsprobe_hf.transformers.names import as_folder
from mpsprobe_hf.transformers.run import check_config, make_run

UNQUANTIZED = "the checkpoint is quantized ({}): judged as if it were not; mpsprobe checkpoint says what runs it on MPS"
TRUST = "If you have read that code and trust it, add --trust-remote-code."


def load(name: str) -> CheckpointWorkload:
    """The workload of a folder, or of a repository if there is no such folder."""
    return CheckpointWorkload(name, as_folder(name))


def _not_run(shown: str, config: Mapping[str, Any]) -> WorkloadError:
    return WorkloadError(f"'{shown}' brings its own Python code ({own_code(config)}), which is not run", TRUST)


class CheckpointWorkload:
    """A published or saved model.

    Args:
        name: what the user typed: a path, or ``organisation/repository``.
        folder: the folder that it is; ``None`` for a repository.
    """

    framework = "torch"

    def __init__(self, name: str, folder: Path | None) -> None:
        self.name = name
        self.folder = folder
        self.source = str(folder) if folder else name

    def build(self, options: RunOptions) -> TorchRun:
        """The model that the checkpoint's configuration describes, on torch's default device.

        Raises WorkloadError: configuration or weights are missing, broken or need code that was not allowed.
        """
        check_version("transformers", "mpsprobe-hf", "a Hugging Face workload")
        if self.folder is not None:
            self._check_folder(self.folder, options)
        config = self._config(options)
        check_config(self.name, config)
        if options.size == "small":
            config = self._small(config, options)
        model_class = self._class(config, options)
        notes: tuple[str, ...]
        if options.weights:
            make, notes = self._loaded, (f"weights of {printable(self.name)}",)
        else:
            make, notes = self._made, (FEW_LAYERS,) * (options.size == "small")
            if quantized := quantization_of(config.to_dict()):
                notes += (UNQUANTIZED.format(quantized.method),)
        return make_run(self.name, model_class, config, options, partial(make, model_class, config, options), notes)

    def describe(self) -> Mapping[str, Any]:
        """What ``config.json`` says; nothing is fetched for a repository."""
        if self.folder is None:
            return {"source": f"the repository {self.name} of the Hub", "config": None}
        config = read_config(self.folder)
        architectures = config.get("architectures")
        return {
            "source": str(self.folder),
            "model_type": config.get("model_type"),
            "architecture": architectures[0] if isinstance(architectures, list) and architectures else None,
            "weights": sorted(file.name for file in self.folder.glob("*.safetensors")),
            "config": dict(config),
        }

    def _check_folder(self, folder: Path, options: RunOptions) -> None:
        raw, known = read_config(folder), model_types()
        model_type = raw.get("model_type")
        shown = printable(str(folder))
        if needs_own_code(raw, known):
            if not options.trust_remote_code:
                raise _not_run(shown, raw)
        elif not isinstance(model_type, str) or not model_type:
            raise WorkloadError(f"{CONFIG} in '{shown}' does not say its model_type", 'Add it, for example: "bert".')
        elif model_type not in known:
            near = nearest(model_type, known)
            raise WorkloadError(
                f"{CONFIG} in '{shown}' has the model_type '{printable(model_type)}', "
                "which the installed transformers does not know",
                f"Did you mean {' or '.join(near)}?" if near else "Install a newer one: pip install -U transformers",
            )
        if options.weights:
            check_weights(folder)

    def _config(self, options: RunOptions) -> Any:
        from transformers import AutoConfig, PreTrainedConfig

        from mpsprobe_hf.transformers.construct import quiet

        try:
            with quiet():
                raw, _ = PreTrainedConfig.get_config_dict(self.source, **self._origin(options))
                check_sizes(self.name, raw)  # the configuration makes a dictionary of its labels
                if needs_own_code(raw, model_types()) and not options.trust_remote_code:
                    raise _not_run(printable(self.name), raw)
                return AutoConfig.from_pretrained(self.source, **self._origin(options))
        except MpsprobeError:
            raise
        except Exception as error:
            raise self._failure("its configuration", error) from error

    def _small(self, config: Any, options: RunOptions) -> Any:
        if options.weights:
            raise UsageError(
                f"the weights of '{printable(self.name)}' are those of all its layers", "Leave --size out."
            )
        try:
            return make_small(config)
        except Exception as error:
            shown = printable(self.name)
            raise WorkloadError(
                f"'{shown}' cannot be made with few layers: {in_short(error)}", "Leave --size out."
            ) from error

    def _class(self, config: Any, options: RunOptions) -> type[Any]:
        """The class that the checkpoint was saved from, else the one that ``AutoModel`` chooses."""
        named = getattr(config, "architectures", None)
        wanted = (
            next((reference for reference in named if isinstance(reference, str)), "")
            if isinstance(named, list)
            else ""
        )
        if options.phase == "generate":  # a base model was saved without the head that its users generate with
            wanted = wanted if wanted and not wanted.endswith("Model") else generating_class_name(config.model_type)
        auto_map = getattr(config, "auto_map", None)
        if options.trust_remote_code and config.model_type not in model_types():
            return self._own_class(auto_map if isinstance(auto_map, dict) else {})
        try:
            return model_class_of(config.model_type, wanted or base_class_name(config.model_type))
        except MpsprobeError as error:
            base = base_class_name(config.model_type)
            if wanted and base:
                return model_class_of(config.model_type, base)
            raise WorkloadError(
                f"'{printable(self.name)}' names the architecture '{printable(wanted)}', "
                f"which transformers has no class for: {error}"
            ) from error

    def _own_class(self, auto_map: Mapping[str, Any]) -> type[Any]:
        """The class of the checkpoint's own code, which the user has allowed."""
        from transformers.dynamic_module_utils import get_class_from_dynamic_module

        chosen = next((reference for key, reference in auto_map.items() if key.startswith("AutoModel")), None)
        if not isinstance(chosen, str):
            raise WorkloadError(f"'{printable(self.name)}' names no model class in its auto_map")
        try:
            class_: type[Any] = get_class_from_dynamic_module(chosen, self.source)
        except Exception as error:
            raise self._failure(f"its class {printable(chosen)}", error) from error
        return class_

    def _made(self, model_class: type[Any], config: Any, options: RunOptions) -> Any:
        """The model with random weights, and with the checkpoint's own settings of ``generate()`` if that is called."""
        from transformers import GenerationConfig

        from mpsprobe_hf.transformers.construct import construct, quiet

        model = construct(model_class, config, options.dtype, training=options.phase == "training")
        if options.phase == "generate":
            with quiet(), contextlib.suppress(OSError):  # it has none
                model.generation_config = GenerationConfig.from_pretrained(
                    self.source, local_files_only=self.folder is not None
                )
        return model

    def _loaded(self, model_class: type[Any], config: Any, options: RunOptions) -> Any:
        """The model with real weights, by the library's own code; safetensors only."""
        import torch
        from transformers.utils.hub import cached_file

        from mpsprobe_hf.transformers.construct import progress_on_terminals_only

        try:
            if self.folder is None:
                index = cached_file(
                    self.name,
                    f"model{SAFE_INDEX}",
                    _raise_exceptions_for_missing_entries=False,
                    _raise_exceptions_for_connection_errors=False,
                )
                if index is not None:
                    check_index(Path(index).parent, f"model{SAFE_INDEX}")
            with progress_on_terminals_only():
                return model_class.from_pretrained(
                    self.source,
                    config=config,
                    dtype=getattr(torch, options.dtype),
                    use_safetensors=True,
                    **self._origin(options),
                )
        except MpsprobeError:
            raise
        except Exception as error:
            raise self._failure("its weights (model.safetensors)", error) from error

    def _origin(self, options: RunOptions) -> dict[str, Any]:
        """Never asks on the terminal whether code may run, never goes online for a folder."""
        return {"trust_remote_code": options.trust_remote_code, "local_files_only": self.folder is not None}

    def _failure(self, what: str, error: Exception) -> WorkloadError:
        shown = printable(self.name)
        said = in_short(error)
        if "trust_remote_code" in str(error) and not isinstance(error, TypeError):
            return WorkloadError(f"'{shown}' brings its own Python code, which is not run", TRUST)
        if self.folder is not None:
            return WorkloadError(f"{what} in '{shown}' cannot be used: {said}")
        return WorkloadError(
            f"there is no folder '{shown}', and {what} could not be had from the Hub: {said}",
            f"Needed: {CONFIG} of {shown}, from the network or the cache (HF_HOME); HF_HUB_OFFLINE=1 forbids the "
            "network, HF_TOKEN opens gated ones. Without a network give a folder that was saved before.",
        )
