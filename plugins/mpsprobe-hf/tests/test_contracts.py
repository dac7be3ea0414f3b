"""Workloads and runners of this plugin keep the contracts that strangers' are held to."""

from __future__ import annotations

import pytest

from mpsprobe_devkit.testing import runner_contract, workload_contract
from mpsprobe_hf.plugin import mpsprobe_runners, mpsprobe_workloads

WORKLOADS = {one.name: one for one in mpsprobe_workloads()}
RUNNERS = {one.name: one for one in mpsprobe_runners()}

TestDistilbert = workload_contract(WORKLOADS["distilbert"])
TestResnet = workload_contract(WORKLOADS["resnet50"])
TestBark = pytest.mark.thorough(workload_contract(WORKLOADS["bark"]))  # has no training phase

TestTrainer = runner_contract(RUNNERS["trainer"])
TestAccelerate = pytest.mark.thorough(runner_contract(RUNNERS["accelerate"]))
