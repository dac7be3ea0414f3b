"""``import mpsprobe``: what it offers, what it costs, and what a type checker knows of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mpsprobe
from mpsprobe.errors import MissingPackage

OFFERED = [
    "LightningCallback", "TransformersCallback", "__version__", "check", "compare", "coverage", "hookimpl",
    "load_report", "observe", "profile", "run_script",
]  # fmt: skip

STRANGER = """
import torch
import transformers

import mpsprobe
from mpsprobe.errors import CheckFailed, MpsprobeError
from mpsprobe.schemas import ComparisonReport, CoverageReport, MatrixReport, OperatorFinding, ProfileReport

model = torch.nn.Linear(4, 2)
report: CoverageReport = mpsprobe.coverage(model, torch.rand(3, 4), torch="2.13.0", phase="training", grad_accum=2)
matrix: MatrixReport = mpsprobe.coverage(model, torch.rand(3, 4), torch="all")
findings: list[OperatorFinding] = report.findings
for one in report:
    print(one.operator, one.verdict.upper())
text: str | bytes = report.to("html")
where: str = report.save("report.json")
try:
    mpsprobe.check(lambda x: x @ x, (torch.rand(3, 3),), torch=["2.12", "2.13"], allow=["linalg_*"])
except CheckFailed as error:
    print(error.report)
except MpsprobeError as error:
    print(error.message, error.hint)
compared: ComparisonReport = mpsprobe.compare(report, "report.json", threshold=0.05)
with mpsprobe.observe("cpu", lines=False) as run:
    model(torch.rand(3, 4))
seen: CoverageReport = run.report("a step")
timed: ProfileReport = mpsprobe.profile(model, torch.rand(3, 4), steps=5, batch_size=[1, 2])
whole: CoverageReport = mpsprobe.run_script("train.py", ["--epochs", "1"], torch="2.13.0")
loaded = mpsprobe.load_report("report.json")
if isinstance(loaded, ProfileReport):
    print(loaded.cells)
release: str = "2.13"
one_release: CoverageReport = mpsprobe.coverage(model, torch.rand(3, 4), torch=release)
several: CoverageReport | MatrixReport = mpsprobe.coverage(model, torch.rand(3, 4), torch=["2.12", release])
with mpsprobe.observe("mps", torch=release) as watched:
    print([call.kind.operator for call in watched.calls()])
mpsprobe.coverage(model, torch.rand(3, 4), torch=2.13)  # wrong: call-overload
callback = mpsprobe.TransformersCallback(2, fail_on=["missing"], path="mps.html", then="stop")
callbacks: list[transformers.TrainerCallback] = [callback]
found: CoverageReport | None = callback.report or mpsprobe.LightningCallback().report
mpsprobe.TransformersCallback(then="warn")  # wrong: arg-type
mpsprobe.coverage(model, phaes="training")  # wrong: call-overload
mpsprobe.observe(lines="no")  # wrong: arg-type
report.operatorz  # wrong: attr-defined
"""


def test_it_offers_this_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # which Lightning sets when it is imported
    assert mpsprobe.__all__ == OFFERED
    assert set(OFFERED) <= set(dir(mpsprobe))
    assert all(callable(getattr(mpsprobe, name)) for name in OFFERED if name not in ("__version__", "hookimpl"))
    with pytest.raises(AttributeError, match="has no attribute 'coverag'"):
        mpsprobe.coverag  # noqa: B018


def test_importing_it_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import mpsprobe; print(*set(sys.modules) - before)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["mpsprobe"]


def test_a_function_whose_plugin_is_not_there_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mpsprobe._HOMES, "watch", "mpsprobe_not_there.functions")
    with pytest.raises(MissingPackage, match=r"mpsprobe\.watch needs the package mpsprobe-not-there"):
        mpsprobe.watch  # type: ignore[attr-defined]  # noqa: B018


def test_a_function_that_needs_torch_says_so() -> None:
    code = "import sys; sys.modules['torch'] = None; import mpsprobe; mpsprobe.observe"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingPackage: mpsprobe.observe needs the package torch, which is not installed" in ended.stderr


@pytest.mark.thorough
def test_the_file_of_a_stranger_is_typed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STRANGER, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "mine.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    marked = [(number, line.partition("# wrong: ")[2]) for number, line in enumerate(STRANGER.splitlines(), 1)]
    wrong = {number: code for number, code in marked if code}
    said = [line.split(":", 3) for line in ended.stdout.splitlines() if ": error: " in line]
    assert {int(number): text.rpartition("[")[2].rstrip("]") for _, number, _, text in said} == wrong, ended.stdout
