"""``--backend`` of the commands: what every format says about a backend that is not MPS, or not even of torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_backend import BASIC, OWN, RELEASE, Made

from mpsprobe.errors import MpsprobeError, PluginError, UnknownName, UsageError
from mpsprobe_coverage.commands.coverage import coverage
from mpsprobe_coverage.commands.kernels import kernels
from mpsprobe_coverage.knowledge.kernels.backends import family_named
from mpsprobe_coverage.knowledge.kernels.registered import RegisteredFamily, registered_named

OF_A_MAC = re.compile(r"\bMPS\b|PYTORCH_ENABLE_MPS|\bMac\b|macOS|\bmps\b", re.IGNORECASE)
MODEL = """
import torch


def make():
    return torch.nn.Linear(4, 3), (torch.ones(2, 4),)


def double():
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svdvals(x).double().cumsum(0)

    return Model(), (torch.ones(2, 4),)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A file of workloads."""
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    return str(tmp_path / "model.py")


def run(command: Any, *arguments: str) -> Result:
    """The command's result; what it raises is raised."""
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def text(*arguments: str) -> str:
    """What ``kernels`` says about the backend."""
    return run(kernels, *arguments, "--backend", "made").stdout


def found(*arguments: str) -> Any:
    """The JSON of the same."""
    return json.loads(text(*arguments, "--format", "json"))


@pytest.mark.parametrize("name", ["table", "markdown", "html", "junit", "csv"])
@pytest.mark.parametrize("whole", [True, False])
def test_no_format_speaks_of_a_mac(bring: Any, model: str, name: str, whole: bool) -> None:
    bring(Made(OWN, whole=whole, refused_dtypes={"float64": "the chip has none"}), "own-chip")
    result = run(coverage, f"{model}:double", "--backend", "own-chip", "--torch", RELEASE, "--format", name)
    assert result.exit_code == 0, result.output
    said = re.sub(r"<style.*?</style>|<script.*?</script>", "", result.stdout, flags=re.DOTALL)
    assert not OF_A_MAC.findall(said)
    assert ("Own chip" in said or name == "csv") and "unsupported" in said


def test_explain_does_not_either(bring: Any, model: str) -> None:
    bring(Made(OWN, [*BASIC, "aten::_copy_from"]), "own-chip")
    result = run(coverage, f"{model}:double", "--backend", "own-chip", "--explain")
    assert "the table of Own chip has it under PrivateUse1" in " ".join(result.stdout.split())
    assert not OF_A_MAC.findall(result.stdout)


def test_fail_on(bring: Any, model: str) -> None:
    bring(Made(OWN, [*BASIC, "aten::_copy_from"]), "own-chip")
    linear = ("--backend", "own-chip", "--torch", "all", "--fail-on", "missing,unsupported,unknown")
    assert run(coverage, f"{model}:make", *linear).exit_code == 0
    assert run(coverage, f"{model}:double", *linear).exit_code == 1


def test_kernels_list(bring: Any) -> None:
    bring(Made(OWN, ["aten::mm", "aten::bmm.out"], whole=False, notes=["Half of it"], fallback=["aten::linalg_svd"]))
    answers, operators = found("list"), ["aten::bmm.out", "aten::mm"]
    assert (answers["backend"], answers["whole"], answers["notes"]) == ("made", False, ["Half of it"])
    assert (answers["native"], answers["fallback"]) == (operators, ["aten::linalg_svd"])
    assert answers["by_key"] == {"PrivateUse1": operators}
    assert all(part in text("list") for part in ("a list in a test (mpsprobe-made 1.0)", "Half of it", "does not hold"))
    assert "macOS" not in text("list", "--torch", "all")


def test_kernels_show_and_since(bring: Any) -> None:
    bring(Made(OWN, {"PrivateUse1": ["aten::mm", "own::thing"], "SparsePrivateUse1": ["aten::bmm.out"]}))
    shown = found("show", "mm.out", "torch.ops.aten.mm.default", "own::thing")
    verdicts = {one["operator"]: one["verdict"] for one in shown}
    assert verdicts == {"aten::mm.out": "missing", "aten::mm": "native", "own::thing": "native"}
    [sparse] = found("show", "bmm.out", "--key", "SparsePrivateUse1")
    assert (sparse["verdict"], sparse["key"]) == ("native", "SparsePrivateUse1")
    assert found("since", "aten::mm.default")[0]["native_since"] == RELEASE


def test_kernels_diff(bring: Any) -> None:
    bring(Made(OWN, by_release={"2.9.1": ["aten::mm", "aten::mv"], "2.13.0": ["aten::mm", "aten::dot"]}))
    difference = found("diff", "2.13", "2.9")
    assert difference["gained"] == ["aten::mv"] and difference["by_key"] == {}


def test_wrong_use(bring: Any) -> None:
    bring(Made(OWN))
    for arguments, problem in (
        ("list --backend made --library torchvision", "all libraries"),
        ("list --backend nade", "did you mean 'made'"),
        ("show mm --backend made --key MPS", "unknown dispatch key 'MPS'"),
        ("list --backend made --torch 1.12", r"unknown torch release '1\.12'"),
    ):
        with pytest.raises(MpsprobeError, match=problem):
            run(kernels, *arguments.split())


def _entry(operator: str, dtype: str = "float32") -> dict[str, Any]:
    return {"operator": operator, "device": "GPU", "types": {"T": dtype}, "host": []}


class Registered:
    """A backend of another framework: ``Old`` goes, ``New`` comes, ``Late`` is on a newer macOS alone."""

    label = "Other"

    def __init__(self, there: str | None = None) -> None:
        self._there = there

    def releases(self) -> list[str]:
        return ["1.0.0", "1.1.0", "1.10.0"]

    def installed(self) -> str | None:
        return self._there

    def table(self, release: str) -> Mapping[str, Any]:
        names = {"1.0.0": ["Old", "Both"], "1.1.0": ["Both", "New"], "1.10.0": ["Both", "New", "New"]}[release]
        late = [{"macos": "13.0", "asks": ["macOS 13.0"], "registrations": [_entry("Late")]}]
        conditional = [] if release == "1.0.0" else late
        return {"release": release, "registrations": [_entry(name) for name in names], "conditional": conditional}


def test_releases_by_name() -> None:
    family = RegisteredFamily("made", Registered("1.1.0"))
    assert family.resolve("all") == ["1.0.0", "1.1.0", "1.10.0"]
    assert family.resolve("installed") == family.resolve("1.1") == ["1.1.0"]
    assert family.resolve("latest") == ["1.10.0"]
    assert family.resolve("1.10.0, 1.0") == ["1.0.0", "1.10.0"]
    assert RegisteredFamily("made", Registered()).resolve("installed") == ["1.10.0"]
    with pytest.raises(UnknownName):
        family.resolve("1.11")


def test_commands_about_a_backend_of_another_framework(bring: Any) -> None:
    bring(Registered(), framework="other")
    assert found("list", "--release", "1.0.0")["registrations"] == [_entry("Old"), _entry("Both")]
    assert [one["release"] for one in found("list", "--torch", "all")] == ["1.0.0", "1.1.0", "1.10.0"]
    assert "3 registrations of 2 operators" in text("list")
    assert "besides, from macOS 13.0 on: 1 registration of 1 operator" in text("list")
    assert [one["native_since"] for one in found("since", "old", "Both", "Late")] == [None, "1.0.0", "1.1.0"]
    assert "T=float32 from macOS 13.0" in text("show", "Late")
    difference = found("diff", "1.0.0", "latest")
    assert (difference["gained"], difference["lost"]) == (["Late", "New"], ["Old"])
    assert len(difference["registrations"]["added"]) == 3
    assert "added: 3 registrations of 2 operators" in text("diff", "1.0.0", "latest")


def test_torch_models_are_not_judged_by_it(bring: Any) -> None:
    bring(Registered(), framework="other")
    with pytest.raises(UsageError, match="a backend of other, not of torch"):
        family_named("made")


def test_a_plugin_that_made_something_else(bring: Any) -> None:
    bring(object(), framework="other")
    with pytest.raises(PluginError, match="RegisteredKernels"):
        registered_named("made")
    bring(Made(BASIC))
    assert registered_named("made") is None
    assert registered_named("not_there") is None
