"""A transformers model from its class and configuration, as ``from_pretrained`` would leave it but for the numbers.

The model is made on torch's default device. Where that turns parameters into meta tensors there is
nothing to initialise, and initialising is most of the time that a large model takes to make. For training by LoRA the
model's own parameters are frozen, and small matrices next to its linear layers are trained.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn.modules.module import register_module_module_registration_hook

from mpsprobe.errors import MissingPackage, WorkloadError
from mpsprobe.protocols import RunOptions
from mpsprobe.suggestions import in_short, printable

MOST_MODULES = 300_000
"""Of one model, at some 4 kB of Python objects each. deepseek-v3 has 1,215; one with modules for 2,048 experts in each
of 15 layers about 100,000."""
Call = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]


def construct(model_class: type[Any], config: Any, dtype: str, *, training: bool, untied: Iterable[str] = ()) -> Any:
    """A model with random weights, in ``train`` or ``eval`` mode.

    Raises WorkloadError: it has more than ``MOST_MODULES``.

    Args:
        model_class: a subclass of ``transformers.PreTrainedModel``.
        config: its configuration; its ``dtype`` is set.
        dtype: of the parameters; those that the model class keeps in float32 stay so.
        training: which mode.
        untied: modules that get a ``weight`` of their own where the class ties it to another's.
    """
    torch_dtype: torch.dtype = getattr(torch, dtype)
    config.dtype = torch_dtype
    with default_dtype(torch_dtype), quiet(), modules_are_counted():
        if parameters_are_meta():
            from transformers.initialization import no_init_weights

            with no_init_weights():
                model = model_class(config)
            model.tie_weights()
        else:
            model = model_class(config)
    for name in untied:
        module = model.get_submodule(name)
        module.weight = torch.nn.Parameter(module.weight.detach().clone())
    if getattr(model, "loss_type", "") is None:
        # The loss that the library falls back to; said here, it does not warn about it.
        model.loss_type = "ForCausalLM"
    keep_in_float32(model, torch_dtype)
    return model.train(training)


@contextlib.contextmanager
def modules_are_counted() -> Iterator[None]:
    """Inside, a model of more than ``MOST_MODULES`` is not made to its end: numbers multiply in a configuration."""
    made = 0

    def count(*_: Any) -> None:
        nonlocal made
        made += 1
        if made > MOST_MODULES:
            raise WorkloadError(
                f"the model has more than {MOST_MODULES:,} modules", "Look at its configuration for numbers too large."
            )

    handle = register_module_module_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def quiet(muted: Sequence[Mute] | None = None) -> Iterator[None]:
    """No warnings from transformers and the Hub: about published configurations, optional kernels, retries.

    Nobody can act on them here; the error that ends the attempt says what cannot be had. No level is changed: that
    makes logging forget what it knows of every logger, which costs 0.2 to 0.5 ms, and more afterwards.
    """
    muted = mutes() if muted is None else muted
    for mute in muted:
        mute.depth += 1
    try:
        yield
    finally:
        for mute in muted:
            mute.depth -= 1


class Mute(logging.Filter):
    """Holds back records below ``floor`` while ``depth`` is not 0."""

    def __init__(self, floor: int) -> None:
        super().__init__()
        self.floor = floor
        self.depth = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record goes out."""
        return not (self.depth and record.levelno < self.floor)


def mutes() -> list[Mute]:
    """A ``Mute`` on each handler of both libraries, for what ``quiet`` silences; put there once."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging as library

    library.get_verbosity(), hub.get_verbosity()  # whoever asks first makes the handlers

    kept = []
    for name, floor in (("transformers", logging.ERROR), ("huggingface_hub", logging.CRITICAL)):
        for handler in logging.getLogger(name).handlers:
            mute = next((present for present in handler.filters if isinstance(present, Mute)), None)
            if mute is None:
                mute = Mute(floor)
                handler.addFilter(mute)
            kept.append(mute)
    return kept


def quietly(call: Call | None = None) -> Call:
    """``call``, or the plain call of a model, without the warnings that ``quiet`` silences."""
    muted = mutes()  # looking for them takes longer than muting, and steps are timed

    def run(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        with quiet(muted):
            return model(*args, **kwargs) if call is None else call(model, args, kwargs)

    return run


@contextlib.contextmanager
def progress_on_terminals_only() -> Iterator[None]:
    """Progress bars of transformers and of the Hub, which otherwise also fill logs and pipes, off unless seen."""
    from transformers.utils import logging as untyped

    library: Any = untyped
    if sys.stderr.isatty() or not library.is_progress_bar_enabled():
        yield
        return
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.enable_progress_bar()


def parameters_are_meta() -> bool:
    """Whether a parameter made now has no data."""
    return torch.nn.Linear(1, 1, bias=False).weight.is_meta


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Floating-point tensors that do not say their dtype get ``dtype``, as in ``from_pretrained``."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def keep_in_float32(model: Any, dtype: torch.dtype) -> None:
    """Return to float32 the parameters that ``from_pretrained`` keeps there (T5's ``wo`` in float16).

    A model class lists them in ``_keep_in_fp32_modules`` for float16 (for diffusers each narrower dtype) and in
    ``_keep_in_fp32_modules_strict`` for bfloat16 too.
    """
    kept = set(getattr(model, "_keep_in_fp32_modules_strict", None) or ())
    if dtype == torch.float16 or not hasattr(model, "config_class"):
        kept |= set(getattr(model, "_keep_in_fp32_modules", None) or ())
    if not kept or dtype == torch.float32:
        return
    pattern = re.compile("|".join(rf"(?:^|\.){re.escape(name)}(?:\.|$)" for name in sorted(kept)))
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point() and pattern.search(name):
            tensor.data = tensor.data.to(torch.float32)


def with_adapters(name: str, model: Any, options: RunOptions) -> Any:
    """``model``, or what peft makes of it if ``options`` ask for LoRA.

    Every linear layer but a language model's head gets an adapter, as peft has it for ``target_modules="all-linear"``.
    Next to weights in float16 or bfloat16 adapters are in float32 (its ``autocast_adapter_dtype``). Raises
    MissingPackage: peft is not installed; WorkloadError: the model has no linear layer, or peft cannot adapt it.
    """
    if not options.lora:
        return model
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingPackage("--lora", "peft") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the libraries' own deprecations and initial values
        try:
            adapted = get_peft_model(model, LoraConfig(r=options.lora_rank, target_modules="all-linear"))
        except Exception as error:  # whatever peft finds that it cannot adapt
            linear = any(type(module).__name__ in ("Linear", "Conv1D") for module in model.modules())
            why = in_short(error) if linear else "it has no linear layers"
            raise WorkloadError(
                f"'{printable(name)}' ({type(model).__name__}) cannot be trained by LoRA: {why}", "Leave out --lora."
            ) from error
    return adapted.train(model.training)
