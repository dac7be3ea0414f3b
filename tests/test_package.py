"""``import mpsprobe``: what it offers, costs, and tells a type checker; where a report was made."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import mpsprobe
from mpsprobe.environment import check_version, collect_environment, platform_name
from mpsprobe.errors import MissingPackage, MpsprobeError
from mpsprobe_devkit.testing import install_plugin

OFFERED = [
    "LightningCallback", "TransformersCallback", "__version__", "check", "compare", "coverage", "hookimpl",
    "load_report", "observe", "profile", "run_script", "verify",
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


def test_versions_of_what_is_installed(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for installed, version, build in (("2.13.0+cpu", "2.13.0", "cpu"), ("2.12.0", "2.12.0", None)):
        (folder := plugin_folder / installed).mkdir()
        install_plugin(folder, "torch", "", version=installed, entry_points="")
        monkeypatch.syspath_prepend(str(folder))
        found = collect_environment()
        assert (found.torch, found.torch_build) == (version, build)
        assert (found.mpsprobe, found.python) == (mpsprobe.__version__, platform.python_version())
    monkeypatch.setattr(sys, "path", [])
    found = collect_environment()
    assert (found.torch, found.torch_build, found.transformers, found.torchvision) == (None, None, None, None)


def test_torch_is_not_imported_for_it() -> None:
    code = (
        "import sys; from mpsprobe.environment import collect_environment as c; c(); assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names and versions of all that is installed; each of them needs the engine."""
    versions: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["engine>=2.6", "engine>=9; extra == 'x'", "oil"])
    return versions


def test_what_is_too_old_is_told_with_what_is_needed(installed: dict[str, str]) -> None:
    with pytest.raises(MissingPackage, match=r"driving needs the package engine>=2\.6"):
        check_version("engine", "car", "driving")
    installed["engine"] = "2.5.1+cpu"
    with pytest.raises(MpsprobeError) as caught:
        check_version("engine", "car", "driving")
    assert caught.value.message == "engine 2.5.1+cpu is too old: car needs engine>=2.6"
    assert caught.value.hint == 'Install it: pip install "engine>=2.6"'


def test_what_is_new_enough(installed: dict[str, str]) -> None:
    for installed["engine"] in ("2.6.0", "2.6.0a0+git1234", "2.7.0.dev20250101", "3", "of-mine"):
        check_version("engine", "car", "driving")


def test_platform_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for system, machine, release, expected in (
        ("Linux", "x86_64", "", "linux-x86_64"),
        ("Darwin", "arm64", "14.5", "macos-14.5-arm64"),
        ("Windows", "AMD64", "", "windows-amd64"),
        ("", "", "", "unknown-unknown"),
    ):
        monkeypatch.setattr(platform, "system", lambda answer=system: answer)
        monkeypatch.setattr(platform, "machine", lambda answer=machine: answer)
        monkeypatch.setattr(platform, "mac_ver", lambda answer=release: (answer, ("", "", ""), ""))
        assert platform_name() == expected
