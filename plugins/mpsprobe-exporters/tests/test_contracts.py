"""Each exporter of this plugin keeps the contract that strangers' exporters are held to."""

from __future__ import annotations

from mpsprobe_devkit.testing import exporter_contract
from mpsprobe_exporters.plugin import mpsprobe_exporters

DECLARED = {one.name: one for one in mpsprobe_exporters()}

TestTable = exporter_contract(DECLARED["table"])
TestJson = exporter_contract(DECLARED["json"])
TestMarkdown = exporter_contract(DECLARED["markdown"])
TestCsv = exporter_contract(DECLARED["csv"])
TestHtml = exporter_contract(DECLARED["html"])
TestChrome = exporter_contract(DECLARED["chrome"])
TestTensorboard = exporter_contract(DECLARED["tensorboard"])
TestJunit = exporter_contract(DECLARED["junit"])
TestSarif = exporter_contract(DECLARED["sarif"])
TestAnnotations = exporter_contract(DECLARED["annotations"])
TestPrometheus = exporter_contract(DECLARED["prometheus"])
TestMemoryViz = exporter_contract(DECLARED["memory-viz"])
TestParquet = exporter_contract(DECLARED["parquet"])


def test_each_exporter_is_under_contract() -> None:
    names = {name.removeprefix("Test").lower() for name in globals() if name.startswith("Test")}
    assert names == {name.replace("-", "") for name in DECLARED}
