"""The names of workloads. Imports nothing heavy."""

from __future__ import annotations

from mpsprobe.declarations import WorkloadDeclaration

TARGETS = {
    "timm": "mpsprobe_hf.vision.timm_models:TimmWorkload",
    "torchvision": "mpsprobe_hf.vision.torchvision_models:TorchvisionWorkload",
}
"""What stands before the colon, which is the distribution that is needed too, and what such a name resolves to."""

NAMED = {"vgg16": "VGG-16, torchvision's definition: convolutions and large linear layers"}
"""Models of torchvision that have a name without prefix, and what they are."""

FEATURES, EMBEDDING = "features", "embedding"
"""After ``timm:NAME/``: the feature maps that a detector takes, or the features without the classifier."""


def named() -> list[WorkloadDeclaration]:
    """Names that need no prefix."""
    return [
        WorkloadDeclaration(name, TARGETS["torchvision"], summary, "vision", requires=("torchvision",))
        for name, summary in NAMED.items()
    ]


def declare(name: str) -> WorkloadDeclaration | None:
    """``timm:NAME`` and ``torchvision:NAME``, whether there is such a model or not: only its library knows."""
    library, colon, _ = name.partition(":")
    return _model(library, name) if colon and library in TARGETS and name.isprintable() else None


def space(library: str) -> list[WorkloadDeclaration]:
    """Every model that the installed library has, by name."""
    from mpsprobe_hf.vision.libraries import import_library

    module = "timm" if library == "timm" else "torchvision.models"
    return [_model(library, f"{library}:{name}") for name in import_library(module, f"{library}:*").list_models()]


def _model(library: str, name: str) -> WorkloadDeclaration:
    return WorkloadDeclaration(name, TARGETS[library], f"a model of {library}", "vision", requires=(library,))
