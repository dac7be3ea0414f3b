"""The marker and the fixture for pytest, in a project of a stranger: with its own settings, with and without xdist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mpsprobe_devkit.testing.commands import command_environment

PROJECT = """
[tool.pytest.ini_options]
addopts = "--strict-markers -p no:cacheprovider -p no:randomly"
filterwarnings = ["error"]
[tool.mpsprobe.check]
torch = "2.13.0"
allow = ["_linalg_eigvals"]
"""
TESTS = """
import pytest
import torch
from torch import nn

mps = pytest.mark.mps


@pytest.fixture
def net():
    return nn.Linear(4, 2)


@mps
def test_training_step():
    net = nn.Linear(4, 2, device="mps")
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    before = net.weight.detach().cpu().clone()
    loss = net(torch.ones(3, 4, device="mps")).pow(2).mean()
    loss.backward()
    optimizer.step()
    assert loss.item() > 0 and not torch.equal(before, net.weight.detach().cpu())
    assert torch.backends.mps.is_available()

@mps
def test_values_are_those_of_the_cpu(net):
    x = torch.rand(3, 4)
    wanted = net(x)
    torch.testing.assert_close(net.to("mps")(x.to("mps")).cpu(), wanted)

@mps
def test_allowed_by_the_project():
    torch.linalg.eigvals(torch.eye(3, device="mps"))

@mps(allow=["linalg_eig"])
def test_allowed_by_the_marker():
    torch.linalg.eigvals(torch.eye(3, device="mps"))
    torch.linalg.eig(torch.eye(3, device="mps"))

@mps
def test_missing():
    torch.linalg.eig(torch.eye(3, device="mps"))

@mps
def test_falls_back():
    torch.linalg.svd(torch.eye(3, device="mps"))

@mps(torch="2.11.0", fail_on="fallback")
def test_only_fallbacks():
    torch.linalg.eig(torch.eye(3, device="mps"))

@mps(torch=["2.6", "2.13"])
@pytest.mark.parametrize("n", [2, 3])
def test_of_releases(n):
    torch.linalg.qr(torch.eye(n, device="mps"))

@mps
def test_nothing_on_mps():
    torch.ones(3).sum()

@mps
def test_own_failure():
    assert torch.ones(3, device="mps").sum() == 4

@mps(torch="2.99")
def test_no_such_release():
    pass

@mps(trch="2.13")
def test_no_such_setting():
    pass

@mps("2.13")
def test_positional():
    pass

@mps(torch="2.13.0", macos="11")
def test_old_macos():
    pass

def test_fixture(mps_coverage, net):
    assert mps_coverage(net, torch.ones(1, 4)).target.torch == "2.13.0"
    assert mps_coverage(net, torch.ones(1, 4), torch="2.6.0", phase="training").target.torch == "2.6.0"
    mps_coverage(lambda x: torch.linalg.eig(x), torch.eye(2), allow="linalg_*")

def test_fixture_missing(mps_coverage):
    mps_coverage(lambda x: torch.linalg.eig(x), torch.eye(2))

@mps(torch="2.6,2.13", allow="linalg_eig")
def test_fixture_with_marker(mps_coverage):
    assert len(mps_coverage(torch.linalg.eig, (torch.eye(2),)).releases) == 2

class TestMethods:
    pytestmark = mps

    def test_method(self):
        torch.ones(2, device="mps")

def test_unmarked():
    assert not torch.backends.mps.is_available()
"""
FAILING = {
    "test_missing": "aten::linalg_eig is missing on torch 2.13.0 (test_mine.py:",
    "test_falls_back": "aten::linalg_svd is fallback on torch 2.13.0 (test_mine.py:",
    "test_of_releases[2.6-2]": "aten::linalg_qr.out is missing on torch 2.6.0",
    "test_of_releases[2.6-3]": "aten::linalg_qr.out is missing on torch 2.6.0",
    "test_nothing_on_mps": 'nothing in it ran on "mps"',
    "test_own_failure": "assert tensor(3., device='mps:0') == 4",
    "test_no_such_release": "unknown torch release '2.99'",
    "test_no_such_setting": "unknown setting 'trch'; did you mean 'torch'?",
    "test_positional": "the marker mps takes keywords only",
    "test_old_macos": "torch 2.13.0 needs macOS 14.0 or newer for MPS, not 11",
    "test_fixture_missing": ">       mps_coverage(lambda x: torch.linalg.eig(x), torch.eye(2))",
}
PASSING = 11


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "test_mine.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def _run(project: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-rfEp", *arguments]
    environment = {**command_environment(), "COLUMNS": "300"}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [(), pytest.param(("-n", "2"), marks=pytest.mark.thorough)], ids=["one process", "xdist"]
)
def test_a_project_of_a_stranger(project: Path, arguments: tuple[str, ...]) -> None:
    said = _run(project, *arguments)
    failed = {line.split(" ")[1].partition("::")[2] for line in said.splitlines() if line.startswith("FAILED ")}
    assert failed == set(FAILING), said
    assert all(text in said for text in FAILING.values()), said
    assert f"{len(FAILING)} failed, {PASSING} passed" in said, said
    assert "During handling of the above exception" not in said and "mpsprobe_coverage/" not in said


MARKED = "import pytest\n\n@pytest.mark.mps\ndef test_marked():\n    pass\n\n"
UNMARKED = """\
def test_unmarked():
    import sys
    print(*[one for one in sys.modules if one.startswith('mpsprobe')])
    assert 'torch' not in sys.modules
"""
OWN_MARKER = '[tool.pytest.ini_options]\nmarkers = ["mps: needs a Mac"]\naddopts = "--strict-markers"\n'


ALOW = "[tool.mpsprobe.check]\nalow = ['linalg_eig']\n"
LOADED = "mpsprobe_coverage mpsprobe_coverage.pytest_plugin\n"


@pytest.mark.parametrize(
    ("settings", "tests", "said"),
    [
        (PROJECT, UNMARKED, ["1 passed", LOADED]),
        (OWN_MARKER, MARKED + UNMARKED, ["2 passed", LOADED]),
        (ALOW, MARKED + UNMARKED, ["1 failed, 1 passed", "unknown setting 'alow'; did you mean 'allow'?"]),
    ],
    ids=["does not ask", "has a marker of that name", "settings that are none"],
)
def test_it_loads_nothing_for_tests_that_do_not_ask(project: Path, settings: str, tests: str, said: list[str]) -> None:
    (project / "pyproject.toml").write_text(settings, encoding="utf-8")
    (project / "test_mine.py").write_text(tests, encoding="utf-8")
    found = _run(project, "-s", "-p", "no:randomly")
    assert all(text in found for text in said), found
