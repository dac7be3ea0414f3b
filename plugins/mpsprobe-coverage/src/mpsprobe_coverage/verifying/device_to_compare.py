"""The device that is compared with the CPU: a real one, or the native virtual one, to try this without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mpsprobe.errors import UsageError
from mpsprobe.schemas import DeviceInfo

if TYPE_CHECKING:
    from mpsprobe.plugins.registry import Registry

AUTO, CPU, VIRTUAL = "auto", "cpu", "virtual"
NONE = "there is no device to compare with the CPU: {why}"
WITHOUT = (
    "Without one: --dtype float16 --device cpu says what half precision does; --device virtual tries this command."
)


class Virtual:
    """The native virtual device: the CPU computes for it, so that all is right there but for what is put wrong."""

    name = VIRTUAL

    def __init__(self, release: str) -> None:
        self.release = release

    def describe(self) -> DeviceInfo:
        return DeviceInfo(type=VIRTUAL, name="virtual MPS device", caveats=["its numbers are those of the CPU"])


def there(registry: Registry, name: str, otherwise: str | None) -> str:
    """The device that ``name`` stands for: with ``auto`` the first one that is not the CPU, or ``otherwise``.

    Raises:
        UsageError: there is none, or the one that was named cannot be used here.
    """
    if name in (CPU, VIRTUAL):
        return name
    asked = [device for device in registry.devices() if device != CPU] if name == AUTO else [name]
    why = {name: registry.device(name).unavailable() for name in asked}
    found = next((device for device in asked if why[device] is None), otherwise if name == AUTO else None)
    if found is not None:
        return found
    if name != AUTO:
        raise UsageError(f"{name} cannot be used here: {why[name]}", WITHOUT)
    reasons = "; ".join(f"{device}: {reason}" for device, reason in why.items()) or "mpsprobe-devices is not installed"
    raise UsageError(NONE.format(why=reasons), WITHOUT)


@contextmanager
def opened(registry: Registry, name: str, release: str | None = None, *, with_bugs: bool = False) -> Iterator[Any]:
    """The device called ``name`` as ``Verification`` takes it; ``release`` and ``with_bugs`` are of the virtual one.

    Raises:
        UsageError: it cannot be opened.
    """
    if name != VIRTUAL:
        yield registry.device(name)
        return
    from mpsprobe_coverage.devices.native.device import NativeDevice
    from mpsprobe_coverage.knowledge.judging.chain import Chain
    from mpsprobe_coverage.knowledge.kernels.mps import load_table
    from mpsprobe_coverage.knowledge.kernels.releases import installed_release

    release = release or installed_release()
    with NativeDevice(Chain(load_table(release)), lines=False, with_bugs=with_bugs):
        yield Virtual(release)
