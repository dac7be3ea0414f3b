"""``--size small``: few experts in each mixture, enough for every token to be given to as many as before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FEW = 4
EXPERTS = re.compile(r"^(moe_)?(num_|n_)(routed_|local_)?experts$|^zero_expert_num$")
"""Names of numbers of experts."""
OF_A_TOKEN = re.compile(r"experts?_per_tok(en)?$|^(moe_)?top_?k$|^moe_k$")
"""Names of numbers of those that a token is given to."""
GROUPS = ("n_group", "num_expert_group")
"""Names of numbers of groups of experts, of which some are chosen first."""
CHOSEN = "topk_group"
IN_A_GROUP = 2
"""Experts of a group that are compared with other groups'."""


def few_experts(values: Mapping[str, Any]) -> dict[str, int]:
    """The numbers of experts in ``values`` of a configuration that are larger than they need to be, made smaller."""
    mixed = {key: value for key, value in values.items() if EXPERTS.search(key) and type(value) is int}
    of_a_token = [value for key, value in values.items() if OF_A_TOKEN.search(key)]
    if not mixed or not all(type(one) is int for one in of_a_token):
        return {}
    groups = next((values[key] for key in GROUPS if values.get(key)), 1)
    chosen = values.get(CHOSEN) or 1
    in_a_group = max(IN_A_GROUP, max(of_a_token, default=1) // chosen + 1)
    few = max(FEW, groups * in_a_group)
    return {key: few for key, value in mixed.items() if value > few}
