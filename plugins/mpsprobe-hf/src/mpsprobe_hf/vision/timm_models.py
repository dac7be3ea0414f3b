"""``timm:NAME``: every model that timm makes, by its own configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe.errors import UnknownName, WorkloadError
from mpsprobe.protocols import RunOptions, TorchRun
from mpsprobe.suggestions import in_short
from mpsprobe_hf.vision.libraries import chosen_batch, import_library
from mpsprobe_hf.vision.names import EMBEDDING, FEATURES

BATCH = 8
"""Pictures in a step of training."""
FORMS: dict[str, dict[str, Any]] = {"": {}, FEATURES: {"features_only": True}, EMBEDDING: {"num_classes": 0}}
"""What stands after the name and a slash, and what it means for ``timm.create_model``."""


class TimmWorkload:
    """A model of timm with random weights. Satisfies ``mpsprobe.protocols.Workload``.

    Args:
        name: ``timm:NAME``, with or without the tag of a checkpoint (``timm:resnet50.a1_in1k``), whose input size
            counts then; ``timm:NAME/features`` and ``timm:NAME/embedding`` are the model without its classifier.

    Raises:
        MissingPackage: timm, or something that it needs, is not installed.
        UnknownName: timm has no such model, or a model has no such form.
        WorkloadError: timm cannot be imported.
    """

    framework = "torch"

    def __init__(self, name: str) -> None:
        self.name = name
        self._entry, _, self.form = name.partition(":")[2].partition("/")
        self._timm = import_library("timm", name)
        if self.form not in FORMS:
            there = f"There are {FEATURES} (feature maps) and {EMBEDDING} (no classifier)."
            raise UnknownName("form of a timm model", self.form, (FEATURES, EMBEDDING), there)
        base, dot, _ = self._entry.partition(".")
        if not self._timm.is_model(base) or (dot and self._entry not in self._timm.list_pretrained()):
            known = (dot and self._timm.list_pretrained(f"{base}.*")) or self._timm.list_models()
            raise UnknownName("model of timm", self._entry, known, "timm.list_models() lists them.")

    def describe(self) -> Mapping[str, Any]:
        """What timm's configuration says: input size ``(channels, height, width)``, classes, the checkpoint."""
        published = self._timm.get_pretrained_cfg(self._entry)
        config = {} if published is None else published.to_dict()
        size = config.get("input_size")
        return {
            "architecture": self._entry,
            "checkpoint": config.get("hf_hub_id"),
            "input_size": None if size is None else list(size),
            "classes": None if self.form else config.get("num_classes"),
        }

    def build(self, options: RunOptions) -> TorchRun:
        """The model and a batch of pictures of the size that it was made for.

        Raises UsageError: an option that it cannot honour; WorkloadError: timm cannot make it, for example because it
        returns no feature maps.
        """
        batch = chosen_batch(self.name, options, BATCH)

        import torch

        from mpsprobe_hf import losses
        from mpsprobe_hf.tensors import noise

        try:
            model = self._timm.create_model(self._entry, pretrained=False, **FORMS[self.form])
        except Exception as error:  # a library may raise anything
            raise WorkloadError(f"timm cannot make '{self.name}': {in_short(error)}", "Try the name alone.") from error
        dtype: torch.dtype = getattr(torch, options.dtype)
        size = import_library("timm.data", self.name).resolve_model_data_config(model)["input_size"]
        training = options.phase == "training"
        classifies = not self.form and model.num_classes > 0
        notes = [] if classifies or not training else ["it has no classifier: trained with the mean of its features"]
        return TorchRun(
            model=model.to(dtype).train(training),
            args=(noise((batch, *size), dtype),),
            architecture=type(model).__name__,
            loss=(losses.of_scores if classifies else losses.mean) if training else None,
            batch_size=batch,
            notes=notes,
        )
