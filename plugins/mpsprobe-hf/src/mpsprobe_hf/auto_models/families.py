"""What a configuration class leaves open and every checkpoint says, and inputs that no rule finds, by model type.

Data, one entry for each type; whatever holds for more than one type belongs into a rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from mpsprobe_hf.auto_models.families_images import PICTURES
from mpsprobe_hf.auto_models.families_sequences import SEQUENCES
from mpsprobe_hf.auto_models.family import Family

FAMILIES: Mapping[str, Family] = {
    **SEQUENCES,
    **PICTURES,
}

NOTHING = Family()
