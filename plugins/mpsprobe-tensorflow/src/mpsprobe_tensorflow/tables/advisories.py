"""What threads report of tensorflow-metal: wrong results, slow spots, and what cannot be measured.

Those of torch are about calls with their arguments (``mpsprobe_coverage.advisories``); these are about releases of the
plugin and of TensorFlow, as far as the threads say.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, field

from mpsprobe_tensorflow.tables import table
from mpsprobe_tensorflow.tables.fits import minor


@dataclass(frozen=True, slots=True)
class Advisory:
    """One of them, as ``mpsprobe advisories list --format json`` has it; what is empty is any."""

    id: str
    title: str
    kind: str  # wrong result, slow or measuring
    condition: str
    symptom: str
    workaround: str
    basis: str  # how it is known
    sources: list[str]  # threads
    releases: list[str] = field(default_factory=list)  # of the plugin that it was reported for
    tensorflow: list[str] = field(default_factory=list)  # minor releases that it was reported for
    operators: list[str] = field(default_factory=list)  # that it is about
    phases: list[str] = field(default_factory=list)  # of a workload that it is about
    optimizers: list[str] = field(default_factory=list)  # that it was seen with, by class
    channels_over: int = 0  # it is about convolutions with more output channels; 0 for all calls

    def concerns(self, release: str, tensorflow: str) -> bool:
        """Whether it was reported for a release of the plugin with a version of TensorFlow."""
        fits = not self.tensorflow or minor(tensorflow) in self.tensorflow
        return fits and (not self.releases or release in self.releases)


@functools.cache
def all_advisories() -> tuple[Advisory, ...]:
    """Every one, in the order of the data file."""
    text = (table.data_folder() / "advisories.toml").read_text(encoding="utf-8")
    return tuple(Advisory(**entry) for entry in tomllib.loads(text)["advisory"])
