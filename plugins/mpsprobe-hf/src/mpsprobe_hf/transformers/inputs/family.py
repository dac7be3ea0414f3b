"""What one model type needs in addition to the rules: corrections as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mpsprobe_hf.transformers.inputs.forms import Argument


@dataclass(frozen=True, slots=True)
class Family:
    """Corrections for one model type.

    Attributes:
        config: values of its configuration; those of a part are a mapping.
        measures: sizes of its inputs.
        arguments: forms of its arguments.
        more: arguments that are given although nothing in its ``forward`` asks for them.
        without: arguments that are left out.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    measures: Mapping[str, int] = field(default_factory=dict)
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
