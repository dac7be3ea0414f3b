"""What torch-tb-profiler 0.4.3 shows of a file, by its own parser. TensorBoard itself is not started."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple


class Views(NamedTuple):
    """The content of the views of one worker.

    Attributes:
        names: of the views that are offered.
        steps: name and duration of each step in µs.
        costs: share of kernels, copies and launches in the steps, in µs.
        operators: rows of the operator view by name.
        kernels: rows of the kernel view.
        modules: of the module view, those without a module around them.
        memory: by device, bytes allocated by operator.
        peaks: by device, bytes.
        curves: by device, how many points the memory view draws.
        gpu: what the overview tells of the GPU.
    """

    names: list[str]
    steps: list[tuple[str, float]]
    costs: dict[str, float]
    operators: dict[str, dict[str, Any]]
    kernels: list[list[Any]]
    modules: list[Any]
    memory: dict[str, dict[str, float]]
    peaks: dict[str, float]
    curves: dict[str, int]
    gpu: dict[str, str]


def views(path: Path, scratch: Path) -> Views:
    """Parse ``path`` as the plugin does when TensorBoard finds it.

    Raises:
        Exception: whatever loses the run in TensorBoard too.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the plugin is older than its pandas
        from torch_tb_profiler.profiler.data import RunProfileData
        from torch_tb_profiler.profiler.event_parser import ProfileRole
        from torch_tb_profiler.profiler.run_generator import RunGenerator

        data = RunProfileData.parse("worker", "", str(path), str(scratch))
        run = RunGenerator("worker", "", data).generate_run_profile()
        snapshot = run.memory_snapshot
        kernels = run.kernel_table["data"]["rows"] if data.has_kernel else []
        return Views(
            [view.display_name for view in run.views],
            list(zip(data.steps_names, (one.costs[ProfileRole.Total] for one in data.steps_costs), strict=True)),
            {role.name: sum(cost.costs[role] for cost in data.steps_costs) for role in ProfileRole},
            {row["name"]: row for row in run.operation_table_by_name["data"]},
            kernels,
            run.module_stats or [],
            {device: dict(found) for device, found in snapshot.get_memory_statistics(run.tid2tree).items()}
            if snapshot
            else {},
            {f"{kind.name}{number}": peak for (kind, number), peak in snapshot.get_peak_memory().items()}
            if snapshot
            else {},
            {device: len(rows) for device, rows in run.get_memory_curve()["rows"].items()} if snapshot else {},
            {row["title"]: row["value"] for row in run.gpu_summary or []},
        )
