"""``--runner trainer``: transformers' own ``Trainer``; what it needs is imported when a workload is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpsprobe.protocols import Device, RunOptions, Workload
from mpsprobe_hf.transformers.runners.batches import built, reason_against

if TYPE_CHECKING:
    from mpsprobe_hf.transformers.runners.trainer_steps import TrainerSteps


class TrainerRunner:
    """Satisfies ``mpsprobe.protocols.Runner``."""

    name = "trainer"

    def unavailable(self, device: Device) -> str | None:
        """Why not."""
        return reason_against(device, "accelerate", "greenlet")

    def open(self, workload: Workload, options: RunOptions, device: Device, *, compiled: bool = False) -> TrainerSteps:
        """Build ``workload`` and give it to a Trainer. Raises as ``Runner.open``."""
        from mpsprobe_hf.transformers.runners.trainer_steps import TrainerSteps

        return TrainerSteps(workload.name, built(workload, options), options, device, compiled=compiled)
