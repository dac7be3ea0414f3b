"""Programs in processes of their own: they end, print and find themselves as without us."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mpsprobe
from mpsprobe.schemas import CoverageReport
from mpsprobe_coverage.programs import parent
from mpsprobe_devkit.testing import run_cli
from mpsprobe_devkit.testing.commands import command_environment, command_path

FACTS = """
import sys, os, json, pickle, warnings, threading
if {torch}:
    import torch
class Thing:
    value = 3
def facts():
    main = sys.modules["__main__"]
    return dict(
        name=__name__, argv=sys.argv, path=sys.path, flags=str(sys.flags), options=sys.warnoptions,
        file=__file__, spec=str(getattr(main.__spec__, "name", None)), cwd=os.getcwd(), stdin=sys.stdin.read(),
        pickled=pickle.loads(pickle.dumps(Thing())).value,
        hooks=[sys.excepthook is sys.__excepthook__, threading.excepthook is threading.__excepthook__],
        filters=[str(one) for one in warnings.filters],
    )
if __name__ == "__main__":
    print(json.dumps(facts()), end="")
    sys.stderr.write("é")
"""
ENDINGS = {
    "text": "import sys; sys.exit('bye')",
    "number": "import sys; sys.exit(7)",
    "exception": "try: 1 / 0\nexcept ZeroDivisionError as error: raise KeyError('yes') from error",
    "syntax": "def f(:",
    "hook": "import sys\nsys.excepthook = lambda *_: print('own')\n1 / 0",
    "own end": "import os; print('x', flush=True); os._exit(3)",
    "signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupt": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(30)",
    "atexit": "import atexit; atexit.register(print, 'late')",
}


def _both(arguments: list[str], folder: Path, stdin: bytes = b"") -> list[subprocess.CompletedProcess[bytes]]:
    """What Python does by itself, and under ``mpsprobe run``."""
    runs = [[sys.executable], [str(command_path()), "run", "--values", "none"]]
    return [
        subprocess.run(
            [*start, *arguments], cwd=folder, input=stdin, capture_output=True, env=command_environment(), check=False
        )
        for start in runs
    ]


@pytest.mark.parametrize(("torch", "as_module"), [(True, False), (False, True)])
def test_a_program_finds_itself_as_without_us(torch: bool, as_module: bool, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "train.py").write_text(FACTS.format(torch=torch), encoding="utf-8")
    program = ["-m", "package.train"] if as_module else ["package/train.py"]
    plain, ours = _both([*program, "--format", "x", "-o", "é", "--", "-m"], tmp_path, "ïn\n".encode())
    assert json.loads(ours.stdout) == json.loads(plain.stdout)
    assert ours.stdout == plain.stdout
    assert ours.stderr.startswith(plain.stderr)
    assert (plain.returncode, ours.returncode) == (0, 0)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_ends_as_without_us(ending: str, tmp_path: Path) -> None:
    (tmp_path / "end.py").write_text(ENDINGS[ending], encoding="utf-8")
    plain, ours = _both(["end.py"], tmp_path)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert ours.stderr.startswith(plain.stderr)
    assert ours.stderr[len(plain.stderr) :].startswith(b"mpsprobe: no report: ")


MODEL = """
import sys, torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    def forward(self, x):
        return self.layers(x)
class Teacher(torch.nn.Linear):
    pass
net = Net().to(sys.argv[1])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    net(torch.ones(4, 2, device=sys.argv[1])).sum().backward()
    optimizer.step()
Teacher(2, 2)(torch.ones(1, 2))
torch.linalg.eigvals(torch.ones(2, 2, device=sys.argv[1]))
if len(sys.argv) > 2:
    net(torch.ones(4, 5, device=sys.argv[1]))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL, encoding="utf-8")
    return path


def _said(stderr: str) -> str:
    """Without the line that the first program on a machine prints, while the native device is built."""
    first, _, rest = stderr.partition("\n")
    return rest if first.startswith("mpsprobe: building") else stderr


def test_the_report_of_a_program(script: Path) -> None:
    ran = run_cli("run", "--fail-on", "missing", "-o", "report.json", script.name, "mps", cwd=script.parent)
    assert (ran.code, ran.stdout) == (1, "")
    headline, wrote, reason = _said(ran.stderr).splitlines()
    assert headline.endswith("no MPS kernel on torch 2.13.0; no release is known to change that")
    assert wrote == "wrote report.json"
    assert reason.startswith("--fail-on: aten::_linalg_eigvals is missing on torch 2.13.0 (model.py:17)")
    report: dict[str, Any] = json.loads((script.parent / "report.json").read_bytes())
    assert report["method"] == "predicted" and report["failure"] is None
    workload = report["workload"]
    assert (workload["name"], workload["phase"], workload["architecture"]) == ("model.py", "program", "Net, Teacher")
    program = report["program"]
    assert (program["arguments"], program["exit_code"], program["values"]) == (["mps"], 0, "real")
    in_python = program["device"] == "virtual, in Python"  # it does not count threads
    assert program["device"].startswith("virtual") and program["threads"] == (0 if in_python else 1)
    assert [(one["module"], one["call_site"]) for one in program["stayed_on_cpu"]] == [("Teacher", "model.py:16")]
    operators = {one["operator"]: one for one in report["operators"]}
    assert operators["aten::linear"]["modules"] == ["Net.layers.0", "Net.layers.1"]
    assert operators["aten::linear"]["phases"] == {"forward": 4}
    assert operators["aten::linear_backward"]["phases"] == {"backward": 4}
    assert any("optimizer" in one["phases"] for one in report["operators"])
    missing = operators["aten::_linalg_eigvals"]
    assert (missing["verdict"], missing["call_sites"]) == ("missing", ["model.py:17"])


@pytest.mark.thorough
def test_an_exception_of_the_device_looks_as_on_the_cpu(script: Path) -> None:
    plain = subprocess.run(
        [sys.executable, script.name, "cpu", "wrong"], cwd=script.parent, capture_output=True, text=True, check=False
    )
    ran = run_cli("run", script.name, "mps", "wrong", cwd=script.parent)
    assert (ran.code, plain.returncode) == (1, 1)
    frames, said = plain.stderr.rstrip().rsplit("\n", 1)
    assert _said(ran.stderr).startswith(frames)
    report = _said(ran.stderr)[len(frames) :]
    assert said.partition(":")[0] in report
    assert "On the CPU all along, while MPS was there: Teacher (1 call, at model.py:16" in report
    assert "The run stopped in forward at Net.layers.0" in report
    assert "\nThe run stopped; up to there, 1 of " in report


WORKERS = """
import multiprocessing, torch
from torch.utils.data import DataLoader
def work(queue):
    queue.put((torch.ones(2, device="mps") * 2).shape[0])
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get(timeout=100))
    process.join()
    for batch in DataLoader(range(4), num_workers=1, batch_size=4):
        print(batch.to("mps").shape[0])
"""


def test_what_processes_do_that_a_program_starts_is_in_its_report(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORKERS, encoding="utf-8")
    forked = 1 if sys.platform == "linux" else 0
    gate = ("--fail-on", "unknown")
    ran = run_cli("run", "--values", "none", *gate, "-o", "report.json", "work.py", cwd=tmp_path)
    assert (ran.code, ran.stdout) == (forked, "2\n4\n"), ran.stderr
    assert ran.stderr.count("that the program started was not watched") == forked, ran.stderr
    assert ran.stderr.count("--fail-on: processes that the program started") == forked
    report = CoverageReport.model_validate_json((tmp_path / "report.json").read_bytes())
    by_name = {one.operator: one for one in report.operators}
    assert by_name["aten::mul.Tensor"].call_sites == ["work.py:5"]
    assert by_name["aten::copy_"].call_sites == ["work.py:14"]
    assert report.summary.calls == sum(one.calls for one in report.operators)
    assert report.program is not None
    assert (report.program.processes, report.program.processes_unreported) == (1 + forked, forked)


def test_a_program_that_fails_says_so_next_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("import sys, torch\ntorch.ones(2, device='mps').sum()\nsys.exit(3)")
    ran = run_cli("run", "--values", "none", "-o", "report.json", "fails.py", cwd=tmp_path)
    assert ran.code == 3 and len(ran.stderr.splitlines()) == 3, ran.stderr
    assert ran.stderr.endswith("wrote report.json\nthe exit code 3 is the program's own\n")


BRANCHES = """\
import sys, torch
x = torch.rand(2048, 2048, device="mps")
print("asks", flush=True)
if x.max() > 2:
    x = torch.linalg.eigvals(x).abs()
    sys.exit(3)
x.sin()
"""


@pytest.mark.parametrize("again", [True, False])
def test_without_values_a_program_is_run_again_for_the_other_side_of_a_branch(
    again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asks.py").write_text(BRANCHES, encoding="utf-8")
    monkeypatch.setattr(parent, "MOST_SECONDS", math.inf if again else -1)
    report = mpsprobe.run_script(tmp_path / "asks.py", values="none", torch="2.13.0")
    assert capfd.readouterr().out == "asks\n"  # of the first run alone
    assert report.program is not None and report.program.exit_code == 0 and report.failure is None
    conditions = {one.operator: one.only_if for one in report.operators if one.only_if}
    (read,) = report.data_dependence
    notes = " ".join(report.workload.notes)
    if again:
        assert conditions["aten::_linalg_eigvals"] == "asks.py:4 is true"
        assert read.assumed.startswith("tried as False and as True: `if x.max() > 2:")
        assert "was run 2 times" in notes and "if asks.py:4 is true, it ends with exit code 3" in notes
        assert report.summary.operators_by_verdict["missing"] == 1
    else:
        assert not conditions and read.assumed.startswith("taken as False: `")
        assert "booleans that only values decide: 1, tried in 1 run (the limit); with one answer only: 1" in notes


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ([], "what should be run?"),
        (["nothing.py"], "there is no script 'nothing.py'"),
        (["json.tool"], "mpsprobe run -m json.tool"),
        (["."], "without a __main__.py"),
        (["a.py:make"], "mpsprobe coverage a.py:make"),
        (["--torch", "2.6.0,2.7.0", "a.py"], "one torch release"),
        (["--torch", "2.6.0,2.7.0", "a.py", "--chip=m2"], "--chip goes to the program"),
        (["--torch", "2.6.0", "--values", "some", "a.py"], "some"),
        *[(["--device", "mps", "a.py"], "--device virtual")] * (sys.platform != "darwin"),  # there is none here
    ],
)
def test_what_cannot_be_run(program: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch")
    ran = run_cli("run", *program, cwd=tmp_path, process=False)
    assert ran.code == 2 and said in ran.stderr, ran.stderr


TRAINING = """
import resource, sys
import torch

UNIT = 1 if sys.platform == "darwin" else 1024
def most():  # bytes of memory
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT

torch.empty(2**21).normal_()  # what this imports is not the model's
torch.ones(2, device="mps").sum().item()
before = most()
model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(24)))
optimizer = torch.optim.AdamW(model.parameters())
model.to("mps")
loss = model(torch.randn(512, 4096).to("mps")).sum()
loss.backward()
optimizer.step()
print(loss.item(), (most() - before) / sum(p.nbytes for p in model.parameters()))
"""

if sys.platform != "win32":

    @pytest.mark.parametrize(("name", "group"), [("SIGINT", True), ("SIGTERM", False)])
    def test_signals_reach_the_program(name: str, group: bool, tmp_path: Path) -> None:
        (tmp_path / "wait.py").write_text(
            "import signal, time\n"
            "def handle(number, _): print('got', signal.Signals(number).name, flush=True); raise SystemExit(5)\n"
            "for name in ('SIGINT', 'SIGTERM'): signal.signal(getattr(signal, name), handle)\n"
            "print('ready', flush=True)\n"
            "time.sleep(60)\n"
        )
        with subprocess.Popen(
            [command_path(), "run", "wait.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=command_environment(), text=True, start_new_session=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            number = getattr(signal, name)
            (os.killpg if group else os.kill)(process.pid, number)
            assert process.stdout.read() == f"got {name}\n"
            assert process.wait(60) == 5

    @pytest.mark.thorough
    def test_without_values_a_model_takes_a_fraction_of_its_memory(tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
        ran = run_cli("run", "--values", "none", "-o", "report.json", "train.py", cwd=tmp_path)
        assert ran.code == 0, ran.stderr
        loss, ratio = map(float, ran.stdout.split())
        assert loss == 1.0
        assert ratio < 0.05, "weights, gradients and two moments are four times the weights"
        report = json.loads((tmp_path / "report.json").read_bytes())
        assert report["workload"]["parameters"] == 24 * (4096 + 1) * 4096
        assert "aten::_local_scalar_dense" in {one["operator"] for one in report["data_dependence"]}
