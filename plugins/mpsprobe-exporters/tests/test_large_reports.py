"""What a format costs grows with the number of findings, not with its square."""

from __future__ import annotations

from time import thread_time

import pytest
from example_reports import coverage, finding

from mpsprobe.declarations import ExporterDeclaration, resolve
from mpsprobe_exporters.plugin import mpsprobe_exporters

FEW, MANY = 500, 8000


@pytest.mark.parametrize(
    "declaration",
    [one for one in mpsprobe_exporters() if "coverage" in one.kinds and not one.binary],
    ids=lambda one: one.name,
)
def test_sixteen_times_the_findings_take_about_sixteen_times_as_long(declaration: ExporterDeclaration) -> None:
    exporter, spent = resolve(declaration.target)(), []
    for count in (FEW, FEW, MANY):  # the first one imports
        report = coverage("2.6.0", [finding(f"aten::op{n}", "missing", modules=[f"a.{n}.b"]) for n in range(count)])
        begun = thread_time()
        exporter.render(report)
        spent.append(thread_time() - begun)
    assert spent[2] < 4 * (MANY / FEW) * spent[1] + 0.5
