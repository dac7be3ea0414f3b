"""Heat, power source and clocks before and after the steps, where the system or the device tells.

docs/explanation/measuring.md says which value is from where, and why.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psutil

from mpsprobe.protocols import Device, Steps
from mpsprobe.schemas import ProbeReading
from mpsprobe.suggestions import first_line
from mpsprobe_devices.machine import ask

Values = Mapping[str, float | str]
# NSProcessInfoThermalState, in its order, and NSProcessInfo.isLowPowerModeEnabled (macOS 12).
THERMAL_STATES = ("nominal", "fair", "serious", "critical")
SCRIPT = (
    'ObjC.import("Foundation"); var info = $.NSProcessInfo.processInfo; '
    "JSON.stringify([info.thermalState, info.lowPowerModeEnabled])"
)
DOUBTFUL = (
    (
        "thermal_state",
        THERMAL_STATES[1:],
        "the thermal state was {}, not nominal: macOS slows the machine down to cool it",
    ),
    ("low_power_mode", ("on",), "low-power mode was on: it keeps clocks down"),
    ("power_source", ("battery",), "it ran on battery: many machines keep clocks down then"),
)
THROTTLED = "_throttled_ns"  # what ends so is a counter: what it grew by is shown
NOTHING = "neither the system nor the device shows temperature, power source or clocks here"


def macos(device: Device) -> Values:
    """``thermal_state`` and ``low_power_mode``, as macOS judges them itself."""
    if platform.system() != "Darwin":
        return {}
    try:  # what SCRIPT prints: a list of a number from 0 to 3 and a truth value
        state, low = json.loads(ask(["osascript", "-l", "JavaScript", "-e", SCRIPT]) or "")
    except (TypeError, ValueError, RecursionError):
        return {}
    values: dict[str, float | str] = {}
    if type(state) is int and 0 <= state < len(THERMAL_STATES):
        values["thermal_state"] = THERMAL_STATES[state]
    if low in (0, 1):  # False and True as well
        values["low_power_mode"] = "on" if low else "off"
    return values


def battery(device: Device) -> Values:
    """``power_source`` and ``battery_percent``; nothing where there is no battery."""
    state = _psutil("sensors_battery")
    if state is None:
        return {}
    plugged = state.power_plugged
    source = {} if plugged is None else {"power_source": "mains" if plugged else "battery"}
    return {"battery_percent": float(state.percent), **source}


def temperatures(device: Device) -> Values:
    """``hottest_celsius`` of all sensors, which one it is, and what that one calls too hot."""
    sensors = [
        (sensor, chip) for chip, several in (_psutil("sensors_temperatures") or {}).items() for sensor in several
    ]
    sensors = [(sensor, chip) for sensor, chip in sensors if _is_number(sensor.current)]
    if not sensors:
        return {}
    hottest, chip = max(sensors, key=lambda pair: float(pair[0].current))
    limit = hottest.high
    return {
        "hottest_celsius": float(hottest.current),
        "hottest_sensor": f"{chip} {hottest.label}".strip(),
        **({"hottest_limit_celsius": float(limit)} if _is_number(limit) and limit > 0 else {}),
    }


def processor_clock(device: Device) -> Values:
    """``cpu_mhz``: the mean over the cores now."""
    clock = _psutil("cpu_freq") if platform.system() != "Darwin" else None
    return {"cpu_mhz": float(clock.current)} if clock is not None and clock.current else {}


def _psutil(name: str) -> Any:
    """What psutil's function says; ``None`` on systems where there is no such function."""
    return getattr(psutil, name, lambda: None)()


def of_the_device(device: Device) -> Values:
    """What the device tells of itself."""
    values: Values = getattr(device, "state", dict)()
    return values


SOURCES: tuple[Callable[[Device], Values], ...] = (macos, battery, temperatures, processor_clock, of_the_device)


class ThermalProbe:
    """Satisfies ``mpsprobe.protocols.Probe``. ``sources``: each tells values by name.

    The state before is that at the beginning of the session, before the first call: asking takes long enough for an
    idle GPU to lower its clocks, so it is not done between warm-up and steps.
    """

    name = "thermal"
    disturbs = False

    def __init__(self, sources: Sequence[Callable[[Device], Values]] = SOURCES) -> None:
        self._sources = sources

    def unavailable(self, device: Device) -> str | None:
        self._before, self._caveats = self._read(device)
        return None if self._before else "; ".join([NOTHING, *self._caveats])

    def start(self, device: Device, steps: Steps) -> None:
        self._device = device

    def sample(self) -> None:
        """Nothing: a reading takes longer than many a step."""

    def stop(self) -> Mapping[str, Any]:
        """Each value before and after; what a counter grew by; and what of it means that times are too long."""
        after, caveats = self._read(self._device)
        values: dict[str, float | str] = {}
        for name in dict.fromkeys([*self._before, *after]):
            before, now = self._before.get(name), after.get(name)
            if name.endswith(THROTTLED):
                if isinstance(before, float) and isinstance(now, float) and now >= before:
                    values[name] = now - before
                continue
            values |= {f"{name}_before": before} if before is not None else {}
            values |= {f"{name}_after": now} if now is not None else {}
        gone = sorted(set(self._before) - set(after))
        if gone:
            caveats.append(f"not available after the steps: {', '.join(gone)}")
        caveats = [*_doubts(values), *dict.fromkeys([*self._caveats, *caveats])]
        return {"readings": [ProbeReading(probe=self.name, values=values, caveats=caveats)]}

    def _read(self, device: Device) -> tuple[dict[str, float | str], list[str]]:
        facts: dict[str, float | str] = {}
        caveats = []
        for source in self._sources:
            try:
                values = source(device)
            except Exception as error:  # noqa: BLE001 - drivers and system files fail in many ways
                caveats.append(f"{source.__name__.replace('_', ' ')}: {first_line(error)}")
                continue
            facts |= {name: value for name, value in values.items() if isinstance(value, str) or _is_number(value)}
        return facts, caveats


def _doubts(values: Values) -> list[str]:
    """What in a reading means that the machine may have been slower than it can be."""
    doubts = []
    for name, doubtful, says in DOUBTFUL:
        states = [values.get(f"{name}_{moment}") for moment in ("before", "after")]
        doubts += [says.format(state) for state in states if state in doubtful][-1:]
    for name, value in values.items():
        if name.endswith(THROTTLED) and isinstance(value, float) and value > 0:
            cause = name.removesuffix(THROTTLED).replace("_", " ")
            doubts.append(f"clocks were lowered ({cause}) for {value / 1e6:.0f} ms")
    hottest, limit = values.get("hottest_celsius_after"), values.get("hottest_limit_celsius_after")
    if isinstance(hottest, float) and isinstance(limit, float) and hottest >= limit:
        doubts.append(f"{values.get('hottest_sensor_after')} was at {hottest:g} °C, its limit is {limit:g} °C")
    return doubts


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
