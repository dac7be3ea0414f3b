"""The kinds of plugin that ``mpsprobe plugins new`` knows: what each one declares and needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind, called as the registry calls it; so are its module, its test and its folder in ``templates/``.

    Attributes:
        summary: what a plugin of this kind does in general, for whoever has to choose.
        writes: what the plugin that is written does, for its description.
        declarations: what its hooks return, from ``mpsprobe.declarations``.
        dependencies: what its module imports besides mpsprobe.
        use: a command line that uses it, where ``{short}`` stands for its name.
    """

    name: str
    summary: str
    writes: str
    declarations: tuple[str, ...]
    use: str
    dependencies: tuple[str, ...] = ()


TORCH = "torch>=2.6"

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Kind(
                name="workload",
                summary="a model to predict and measure, by a name of its own",
                writes="a network of dilated convolutions to predict and measure",
                declarations=("WorkloadDeclaration",),
                use="mpsprobe workloads show {short}",
                dependencies=(TORCH,),
            ),
            Kind(
                name="device",
                summary="something that runs the steps of a workload",
                writes="steps on one thread of the processor",
                declarations=("DeviceDeclaration",),
                use="mpsprobe profile WORKLOAD --device {short}",
                dependencies=(TORCH,),
            ),
            Kind(
                name="probe",
                summary="something that measures while steps run",
                writes="pauses of Python's garbage collector while steps run",
                declarations=("ProbeDeclaration",),
                use="mpsprobe profile WORKLOAD --probe {short}",
            ),
            Kind(
                name="scanner",
                summary="makes coverage reports of something that is not a torch model",
                writes="coverage reports from the log of a run on a Mac",
                declarations=("ScannerDeclaration", "WorkloadDeclaration"),
                use="mpsprobe coverage {short}:FILE --torch VERSION",
            ),
            Kind(
                name="exporter",
                summary="a format in which reports are written",
                writes="a Markdown checklist of what does not run natively on MPS",
                declarations=("ExporterDeclaration",),
                use="mpsprobe export REPORT --to {short}",
            ),
            Kind(
                name="command",
                summary="a command of mpsprobe",
                writes="a command that lists the modules of a model that leave MPS",
                declarations=("CommandDeclaration",),
                use="mpsprobe {short} REPORT",
                dependencies=("click>=8.1",),
            ),
        )
    }
)
