"""From a model class and its configuration to a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mpsprobe.errors import MpsprobeError, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.suggestions import in_short, printable
from mpsprobe_hf.auto_models.checkpoint_files import check_sizes


def check_config(name: str, config: Any) -> None:
    """Refuse numbers that no model has and that would take all memory. Raises as ``check_sizes``."""
    for sub in (config, *(getattr(config, key, None) for key in getattr(config, "sub_configs", ()))):
        if hasattr(sub, "__dict__"):
            check_sizes(name, vars(sub))


def make_run(
    name: str,
    model_class: type[Any],
    config: Any,
    options: RunOptions,
    make_model: Callable[[], Any],
    notes: tuple[str, ...] = (),
    hint: str | None = None,
) -> TorchRun:
    """Derive inputs, make the model, and put both together.

    Raises:
        WorkloadError: inputs cannot be derived, or the model cannot be made.
        UsageError: a size that the model cannot take.
    """
    import torch

    from mpsprobe_hf.auto_models.derive import OWN_FUNCTION, Derived, derive
    from mpsprobe_hf.auto_models.images import INPUTS, features_of_images
    from mpsprobe_hf.auto_models.signature import Signature
    from mpsprobe_hf.generation import check_generates, generating, note, prompt
    from mpsprobe_hf.losses import LOSSES
    from mpsprobe_hf.sizes import choose_sizes
    from mpsprobe_hf.tensors import make

    check_config(name, config)
    generates = options.phase == "generate"
    if generates:
        check_generates(name, model_class, config.model_type)
    signature = Signature.of(model_class, config)
    dtype: torch.dtype = getattr(torch, options.dtype)
    room = options.new_tokens if generates and not getattr(config, "is_encoder_decoder", False) else 0

    def inputs_for(signature: Signature) -> tuple[Derived, dict[str, int]]:
        derived = derive(name, signature, options.phase, hint or OWN_FUNCTION)
        return derived, choose_sizes(derived, options, room)

    derived, sizes = inputs_for(signature)
    try:
        model = make_model()
    except MpsprobeError:
        raise
    except ImportError as error:
        from mpsprobe_hf.auto_models.classes import missing_package

        raise missing_package(f"'{printable(name)}' ({model_class.__name__})", error) from error
    except Exception as error:
        raise WorkloadError(
            f"'{printable(name)}' cannot be built as {model_class.__name__}: {in_short(error)}",
            "Its configuration may not fit the installed transformers, or it may need a package that is not installed.",
        ) from error
    from mpsprobe_hf.construct import quietly

    if generates and "pixel_values" in signature.parameters:
        try:
            count = features_of_images(model, {field.name: make(field, sizes, dtype) for field in derived.fields})
            if count is not None:
                derived, sizes = inputs_for(replace(signature, image_features=count // sizes["batch"]))
        except Exception as error:  # noqa: BLE001 - images that do not fit the model: it generates from text as well
            derived, sizes = inputs_for(replace(signature, parameters=signature.parameters.difference(INPUTS)))
            notes += (f"the prompt has no image: none that fits could be derived ({in_short(error)})",)
    fields = prompt(derived.fields, timed=options.word_timestamps) if generates else derived.fields
    training = options.phase == "training"
    if training and not derived.has_labels:
        notes += (f"{model_class.__name__} has no loss that could be derived: trained with the mean of its outputs",)
    return TorchRun(
        model=model.train(training),
        kwargs={field.name: make(field, sizes, dtype) for field in fields},
        architecture=model_class.__name__,
        call=quietly(generating(model, options) if generates else None),
        loss=LOSSES["output" if derived.has_labels else "mean"] if training else None,
        batch_size=sizes["batch"],
        seq_len=sizes.get("seq"),
        notes=(derived.note, *((note(options),) if generates else ()), *notes),
    )
