"""What a configuration class leaves open and every checkpoint says, and inputs that no rule finds, by model type.

Data, one entry for each type; whatever holds for more than one type belongs into a rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from mpsprobe_hf.transformers.inputs.families_images import PICTURES
from mpsprobe_hf.transformers.inputs.families_sequences import SEQUENCES
from mpsprobe_hf.transformers.inputs.family import Family

HEADS: Mapping[str, Family] = {
    "beit": Family(config={"out_indices": [3, 5, 7, 11]}),  # microsoft/beit-base-finetuned-ade-640-640
    "pp_doclayout_v2": Family(
        config={"class_thresholds": [0.5] * 25, "class_order": [*range(25)]}
    ),  # as many classes as PaddlePaddle/PP-DocLayoutV2 has
    "pp_ocrv5_mobile_rec": Family(measures={"height": 96, "width": 320}),  # a line of text, halved by each stage
    "pp_ocrv6_tiny_rec": Family(measures={"height": 48, "width": 320}),
    "vitmatte": Family(
        config={"backbone_config": {"model_type": "vitdet", "hidden_size": 384, "num_channels": 4}},
        measures={"channels": 4},
    ),  # hustvl/vitmatte-small-composition-1k: three colours and the trimap
}
"""What only a head needs."""

FAMILIES: Mapping[str, Family] = {
    **SEQUENCES,
    **PICTURES,
    **HEADS,
}

NOTHING = Family()
