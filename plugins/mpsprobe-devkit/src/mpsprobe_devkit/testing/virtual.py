"""The virtual MPS device for a test: what the scanner of torch opens, and what to install where there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self, runtime_checkable

from mpsprobe.errors import MissingPackage, UnknownName, UsageError, install_command
from mpsprobe.plugins.registry import Registry, get_registry

FRAMEWORK = "torch"
DISTRIBUTION = "mpsprobe-coverage"


@runtime_checkable
class OpenDevice(Protocol):
    """A virtual device of one torch release: tensors have shapes and dtypes there, and every call is judged.

    To be opened with ``with``; one at a time in a process. Inside, tensors can be made on ``torch.device(name)`` too.

    Attributes:
        name: its type for torch: ``mps``, or another backend's.
        release: whose kernels it has.
    """

    name: str
    release: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: Any) -> None: ...

    def run(self, function: Callable[..., Any], *arguments: Any, phase: str = "forward", **named: Any) -> Any:
        """``function(*arguments, **named)`` on the device, each call of an operator recorded and judged.

        A module, and tensors among the arguments, are moved there first. ``run(loss.backward, phase="backward")`` is
        the backward pass of a loss that ``run`` has returned; ``phase`` is what a report calls that part of a step.
        """

    def move(self, value: Any) -> Any:
        """``value`` on the device: a module, or tensors nested in lists, mappings and dataclasses."""

    def construction(self) -> AbstractContextManager[Any]:
        """In here a model of any size is made without memory for its parameters."""

    def verdicts(self) -> dict[str, str]:
        """The verdict of each operator that was called so far (``aten::linalg_qr.out``); of several the worst."""

    def calls(self) -> dict[str, int]:
        """How often each operator was called so far; what is composite is not in it, what it is made of is."""

    def reasons(self) -> dict[str, str]:
        """Why an operator has its verdict, in a sentence, where there is more to say."""

    def not_judged(self) -> dict[str, str]:
        """Operators that no kernel table covers, and what could not be followed, each with the reason."""


def open_virtual_device(
    torch_release: str = "latest", *, backend: str = "mps", registry: Registry | None = None
) -> OpenDevice:
    """The virtual device of ``torch_release``, from the scanner that the installed plugins bring for torch.

    Args:
        torch_release: ``2.6.0``, ``2.6`` (its newest patch) or ``latest``.
        backend, registry: whose kernels (those of another one than MPS a plugin brings), and whose plugins.

    Raises:
        MissingPackage: no plugin with such a scanner is installed.
        UsageError: there is no such release; or the installed scanner opens no device.
    """
    plugins = registry if registry is not None else get_registry()
    if not any(FRAMEWORK in scanner.frameworks for scanner in plugins.declared("scanner").values()):
        raise MissingPackage("the virtual device", DISTRIBUTION)
    open_device = getattr(plugins.scanner_for(FRAMEWORK), "open_device", None)
    if open_device is None:
        hint = f"Install its like: {install_command(DISTRIBUTION)}"
        raise UsageError("the installed scanner of torch opens no device for tests", hint)
    opened: OpenDevice = open_device(torch_release, backend=backend)
    return opened


def assert_verdicts(device: OpenDevice, expected: Mapping[str, str]) -> None:
    """Assert that the operators in ``expected`` were called on ``device`` and have those verdicts.

    Raises:
        AssertionError: one has another verdict (with the reason), or was not called (with the nearest that was).
    """
    verdicts, reasons = device.verdicts(), device.reasons()
    for operator, verdict in expected.items():
        if operator not in verdicts:
            near = UnknownName("operator", operator, verdicts).nearest
            meant = f": {' and '.join(near)} was" if near else ""
            raise AssertionError(f"{operator} was not called{meant}")
        if verdicts[operator] != verdict:
            because = f": {reasons[operator]}" if operator in reasons else ""
            on = f"on {device.name} with torch {device.release}"
            raise AssertionError(f"{operator} is {verdicts[operator]} {on}, not {verdict}{because}")
