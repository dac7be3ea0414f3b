"""The names of workloads. Imports nothing heavy."""

from __future__ import annotations

TARGETS = {
    "timm": "mpsprobe_vision.timm_models:TimmWorkload",
    "torchvision": "mpsprobe_vision.torchvision_models:TorchvisionWorkload",
}
"""What stands before the colon, which is the distribution that is needed too, and what such a name resolves to."""

NAMED = {"vgg16": "VGG-16, torchvision's definition: convolutions and large linear layers"}
"""Models of torchvision that have a name without prefix, and what they are."""

FEATURES, EMBEDDING = "features", "embedding"
"""After ``timm:NAME/``: the feature maps that a detector takes, or the features without the classifier."""
