"""What threads report of tensorflow-metal: wrong results, slow spots, and what cannot be measured.

Those of torch are about calls with their arguments (``mpsprobe_coverage.knowledge.advisories``); these are about
releases of the plugin and of TensorFlow, as far as the threads say.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from mpsprobe_tensorflow.tables import table
from mpsprobe_tensorflow.tables.fits import minor


@dataclass(frozen=True, slots=True)
class Advisory:
    """One of them.

    Attributes:
        kind: ``wrong result``, ``slow`` or ``measuring``.
        releases: of the plugin that it was reported for; empty where the threads do not say, or it is all of them.
        tensorflow: minor releases of TensorFlow that it was reported for; empty likewise.
        operators: that it is about; empty where that is not known.
        phases: of a workload that it is about; empty for all.
        optimizers: that it was seen with, by class; empty likewise.
        channels_over: it is about convolutions with more output channels; 0 for all calls.
        basis: how it is known.
        sources: threads.
    """

    id: str
    title: str
    kind: str
    condition: str
    symptom: str
    workaround: str
    basis: str
    sources: tuple[str, ...]
    releases: tuple[str, ...] = ()
    tensorflow: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ()
    channels_over: int = 0

    def as_dict(self) -> dict[str, Any]:
        """As ``mpsprobe advisories list --format json`` has it."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def concerns(self, release: str, tensorflow: str | None, operators: Collection[str] | None = None) -> bool:
        """Whether it was reported for a release of the plugin with a version of TensorFlow, and these operators.

        ``None`` is any.
        """
        if self.releases and release not in self.releases:
            return False
        if self.tensorflow and tensorflow is not None and minor(tensorflow) not in self.tensorflow:
            return False
        return not self.operators or operators is None or bool(set(self.operators) & set(operators))


@functools.cache
def all_advisories() -> tuple[Advisory, ...]:
    """Every one, in the order of the data file."""
    text = (table.data_folder() / "advisories.toml").read_text(encoding="utf-8")
    return tuple(Advisory(**_fields(entry)) for entry in tomllib.loads(text)["advisory"])


def _fields(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
