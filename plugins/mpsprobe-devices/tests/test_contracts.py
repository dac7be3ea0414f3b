"""Devices and probes of this plugin keep the contracts that strangers' are held to."""

from __future__ import annotations

from mpsprobe_devices.cpu import CpuDevice
from mpsprobe_devices.plugin import mpsprobe_devices, mpsprobe_probes
from mpsprobe_devkit.testing import TinyWorkload, device_contract, probe_contract

DEVICES = {one.name: one for one in mpsprobe_devices()}
PROBES = {one.name: one for one in mpsprobe_probes()}

TestCpu = device_contract(DEVICES["cpu"])
TestCuda = device_contract(DEVICES["cuda"])  # where there is none: that it says so
TestMps = device_contract(DEVICES["mps"])

TestMemory = probe_contract(PROBES["memory"], device=CpuDevice, workload=TinyWorkload())
TestMemoryElsewhere = probe_contract(PROBES["memory"])
TestHost = probe_contract(PROBES["host"])
TestThermal = probe_contract(PROBES["thermal"])
TestEnergy = probe_contract(PROBES["energy"])
TestOperators = probe_contract(PROBES["operators"], device=CpuDevice, workload=TinyWorkload())
TestOperatorsElsewhere = probe_contract(PROBES["operators"])


def test_what_disturbs_the_steps_does_not_run_unasked() -> None:
    assert [name for name, one in PROBES.items() if one.default] == ["memory", "host", "thermal"]
