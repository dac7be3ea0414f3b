"""What a program computed with tensors of the CPU, apart from what it prepared there for the device."""

from __future__ import annotations

import json
from pathlib import Path

from mpsprobe_coverage.device.attribution import Origin
from mpsprobe_devkit.testing import run_cli
from mpsprobe_programs.native.on_cpu import OnCpu, Site
from mpsprobe_programs.running.cpu_work import computed

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
LOSS = """
loss = torch.nn.functional.cross_entropy(net(data.to("mps")).cpu(), labels)
loss.backward()
"""
SEARCH = """
nearest = torch.cdist(bank, bank).argmin(1)
"""
TOWER = """
tower = torch.nn.Parameter(torch.randn(64, 64))
for _ in range(9):
    net(torch.tanh(data @ tower).to("mps")).sum().backward()
"""


def test_what_the_cpu_computed_is_found_and_what_it_prepared_is_not(tmp_path: Path) -> None:
    found = {}
    for name, more in {"prepared": "", "loss": LOSS, "search": SEARCH, "tower": TOWER}.items():
        (tmp_path / f"{name}.py").write_text(PROGRAM + more, encoding="utf-8")
        ran = run_cli("run", "-o", "report.json", f"{name}.py", cwd=tmp_path)
        assert ran.code == 0, ran.stderr
        lines = json.loads((tmp_path / "report.json").read_bytes())["program"]["computed_on_cpu"]
        found[name] = [(one["call_site"], one["operators"][0], one["calls"]) for one in lines]
    last = PROGRAM.count("\n")
    assert found["prepared"] == []
    assert found["loss"] == [(f"loss.py:{last + 2}", "aten::_log_softmax_backward_data", 3)]
    assert found["search"] == [(f"search.py:{last + 2}", "aten::cdist", 2)]
    assert [one[0] for one in found["tower"]] == [f"tower.py:{last + 4}"]


def _site(line: int, size: int, phase: str = "forward", **more: bool) -> Site:
    return Site("aten::mul", phase, Origin(None, f"{line}.py", line), 1, size, **more)


def _lines(sites: list[Site], flows: list[tuple[int, int]], device: int = 1000, *stayed: str) -> list[str | None]:
    return [one.call_site for one in computed(OnCpu(sites, flows, device), stayed)]


def test_work_is_weighed_and_followed() -> None:
    large, moved = _site(1, 500), _site(2, 10, moved=True)
    assert _lines([large, moved], []) == ["1.py:1"]
    assert _lines([large, moved], [(0, 1)]) == [], "it prepares what came to the device"
    assert _lines([large, moved], [], device=9000) == [], "little, compared with what ran there"
    assert _lines([_site(1, 500, weights=True), moved], [(0, 1)]) == ["1.py:1"], "a part of a model"
    stepped = _site(3, 9, "optimizer")
    assert _lines([large, stepped, moved], [(0, 1), (1, 2)]) == ["1.py:1"], "weights are not what is prepared"


def test_a_model_that_stayed_is_said_once() -> None:
    inside = Site("aten::linear", "forward", Origin("Teacher.head", "m.py", 3), 1, 500)
    assert _lines([inside, _site(4, 500)], [(0, 1)]) == ["m.py:3", "4.py:4"]
    assert _lines([inside, _site(4, 500)], [(0, 1)], 1000, "Teacher") == []
