"""The model types of transformers and their model classes, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe.errors import UnknownName, WorkloadError
from mpsprobe_hf.opennames.run import essence


def model_types() -> tuple[str, ...]:
    """Every model type that transformers can make a configuration of."""
    from transformers.models.auto import configuration_auto

    return tuple(vars(configuration_auto)["CONFIG_MAPPING_NAMES"])


def base_class_name(model_type: str) -> str:
    """The class that ``AutoModel`` makes of the type; the first with a head if there is no bare one; else empty."""
    from transformers.models.auto import modeling_auto

    orders = ("MODEL_MAPPING_NAMES", "MODEL_FOR_PRETRAINING_MAPPING_NAMES", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES")
    for mapping in orders:
        found = getattr(modeling_auto, mapping, {}).get(model_type)
        if found:
            return str(found if isinstance(found, str) else found[0])
    return ""


def class_names(model_type: str) -> list[str]:
    """The model classes of the type, found without importing them."""
    from transformers.models.auto import modeling_auto

    found: set[str] = set()
    for mapping, classes in vars(modeling_auto).items():
        if mapping.endswith("_MAPPING_NAMES") and isinstance(classes, Mapping) and model_type in classes:
            chosen = classes[model_type]
            found |= {chosen} if isinstance(chosen, str) else set(chosen)
    return sorted(found)


def model_class_of(model_type: str, class_name: str) -> type[Any]:
    """The class of that name, which must belong to the type.

    Raises:
        UnknownName: it does not; carries the nearest that do.
        WorkloadError: it needs a package that is not installed.
    """
    import transformers
    from transformers import PreTrainedModel

    known = class_names(model_type)
    try:
        found = getattr(transformers, class_name)
    except AttributeError as error:
        raise UnknownName(f"class of the model type '{model_type}'", class_name, known) from error
    except (ImportError, RuntimeError) as error:
        raise WorkloadError(f"{class_name} cannot be imported: {essence(error)}") from error
    own = getattr(getattr(found, "config_class", None), "model_type", None)
    if not (isinstance(found, type) and issubclass(found, PreTrainedModel)) or (
        class_name not in known and own != model_type
    ):
        raise UnknownName(f"class of the model type '{model_type}'", class_name, known)
    return found
