"""What only the device in C++ knows of a program: work of the CPU, the chip; and a torch that is built for CUDA."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from mpsprobe_coverage.knowledge.chips.limits import limits_of
from mpsprobe_devkit.testing import run_cli

PROGRAM = """
import torch
torch.manual_seed(0)
data, bank = torch.randn(256, 64), torch.randn(600, 64)
data = (data - data.mean(0)) / data.std(0)
labels = data[:, :10].argmax(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to("mps")
optimizer = torch.optim.Adam(net.parameters())
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, labels), batch_size=32, shuffle=True)
for x, y in loader:
    loss = torch.nn.functional.cross_entropy(net((x * 2).to("mps")), y.to("mps"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    correct = (net(x.to("mps")).detach().cpu().argmax(1) == y).float().mean()
"""
COMPUTED = """
loss = torch.nn.functional.cross_entropy(net(data.to("mps")).cpu(), labels)
loss.backward()
nearest = torch.cdist(bank, bank).argmin(1)
tower = torch.nn.Parameter(torch.randn(64, 64))
for _ in range(9):
    net(torch.tanh(data @ tower).to("mps")).sum().backward()
"""


def test_what_the_cpu_computed_is_found_and_what_it_prepared_is_not(tmp_path: Path) -> None:
    found = {}
    for name, more in {"prepared": "", "computed": COMPUTED}.items():
        (tmp_path / f"{name}.py").write_text(PROGRAM + more, encoding="utf-8")
        ran = run_cli("run", "-o", "report.json", f"{name}.py", cwd=tmp_path)
        assert ran.code == 0, ran.stderr
        lines = json.loads((tmp_path / "report.json").read_bytes())["program"]["computed_on_cpu"]
        found[name] = {one["call_site"]: (one["operators"][0], one["calls"]) for one in lines}
    last = PROGRAM.count("\n")
    assert found["prepared"] == {}
    loss, search, tower = (f"computed.py:{last + line}" for line in (2, 4, 7))
    assert found["computed"].keys() == {loss, search, tower}
    assert found["computed"][loss] == ("aten::_log_softmax_backward_data", 3)
    assert found["computed"][search] == ("aten::cdist", 2)


DEEP = """
import sys, torch
x = torch.ones(2, device="mps")
def descend(depth):
    x.sin()
    if depth > sys.getrecursionlimit() - 9:
        x.cos()
    descend(depth + 1)
try:
    descend(0)
except RecursionError:
    print("deep")
print(sys.getrecursionlimit())
"""


def test_calls_of_a_program_that_recurses_until_python_ends_it_are_judged(tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text(DEEP, encoding="utf-8")
    ran = run_cli("run", "-o", "report.json", "deep.py", cwd=tmp_path)
    assert ran.code == 0 and ran.stdout == "deep\n1000\n", ran.stderr
    operators = json.loads((tmp_path / "report.json").read_bytes())["operators"]
    calls = {one["operator"]: one["calls"] for one in operators}
    assert calls["aten::sin"] > 950 and calls["aten::cos"] > 0, "the last ones too"


TIMES_OUT = """
import signal, torch
class Late(Exception):
    pass
def late(number, frame):
    global handled
    handled += 1
    raise Late(handled)
handled, caught = 0, []
signal.signal(signal.SIGALRM, late)
x = torch.ones(4, device="mps")
for number in range(200):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002 + number * 0.00001)
        for size in range(100_000):
            (x[: size % 4] * 2).sin()
    except Late as error:
        caught += error.args
print(handled, caught == [*range(1, 201)])
"""


def test_what_a_handler_of_a_signal_raises_reaches_the_program(tmp_path: Path) -> None:
    if not hasattr(signal, "setitimer"):
        return  # Windows has no alarms
    (tmp_path / "late.py").write_text(TIMES_OUT, encoding="utf-8")
    ran = run_cli("run", "-o", "report.json", "late.py", cwd=tmp_path)
    assert (ran.code, ran.stdout) == (0, "200 True\n"), ran.stderr
    assert "Exception ignored" not in ran.stderr and "wrote report.json" in ran.stderr


def test_the_chip_that_the_program_runs_on(tmp_path: Path) -> None:
    script = tmp_path / "asks.py"
    script.write_text(
        "import torch\n"
        "print(torch.backends.mps.get_name(), torch.mps.recommended_max_memory())\n"
        "print(torch.accelerator.get_memory_info()[1])\n",
        encoding="utf-8",
    )
    result = run_cli("run", "--chip", "m3-max-64gb", str(script))
    limit = limits_of("m3-max-64gb").recommended.low
    assert result.stdout.splitlines() == [f"Apple M3 Max {limit}", str(limit)], result.stderr


ON_CUDA = """
import sys
import torch
from torch.utils.cpp_extension import load
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.devices.native.device import NativeDevice

load("built_for_cuda", [sys.argv[1]], build_directory=sys.argv[2], is_python_module=False)
with NativeDevice(Chain(load_table("2.13.0")), lines=False):
    x = torch.ones(2, device="mps", requires_grad=True)
    (x * 2 + x * 3).sum().backward()  # autograd asks the accelerator for streams where two gradients meet
    print(x.grad.tolist(), torch.accelerator.current_accelerator())
"""


def test_a_torch_that_is_built_for_cuda(tmp_path: Path) -> None:
    source = Path(__file__).with_name("built_for_cuda.cpp")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # ninja is there
    done = subprocess.run(
        [sys.executable, "-c", ON_CUDA, source, tmp_path],
        capture_output=True, text=True, check=False, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[5.0, 5.0] mps\n"), done.stderr
