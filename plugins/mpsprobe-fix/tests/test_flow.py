"""What is put on the device in one file has its modules in another: which of them ``fix`` finds without a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpsprobe_fix.files import gather
from mpsprobe_fix.fixing import fixed
from mpsprobe_fix.rules import RULES

NET = """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, inner=None):
        super().__init__()
        self.inner = inner
        self.pool = nn.AdaptiveAvgPool2d(5)

    def forward(self, x):
        return self.pool(x)


class Calls(nn.Module):
    def forward(self, x):
        return F.adaptive_avg_pool2d(x, (5, None))


class Deep(Net):
    pass


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Calls()


def build(name="net"):
    made = Net()
    return made


BODIES = {"net": Net}
ready = Net()
"""
POOL, CALL = "self.pool = AdaptiveAvgPool2dOnMPS(5)", "return adaptive_avg_pool2d(x, (5, None))"
# Another file that puts something on the device, and what becomes of a line of the first one.
FOUND = [
    ("from net import Net\n\nNet().to('mps')", POOL),
    ("from net import Net\n\nNet().cuda()", POOL),
    ("from .net import Net as N\n\nmodel = N()\nmodel.to(device)", POOL),
    ("import net as n\n\nmodel = n.Net().eval()\nmodel = model.to(torch.device('mps'), torch.float16)", POOL),
    ("from net import Deep\n\nDeep().to('mps:0')", POOL),
    ("from net import Net\n\nclass Mine(Net): pass\n\nMine().to(device=device)", POOL),
    ("from net import Whole\n\nWhole().to('mps')", CALL),
    ("from net import build\n\nmodel = build('net').to('mps')", POOL),
    ("from net import BODIES\n\nmodel = BODIES['net']()\nmodel.to('mps')", POOL),
    ("from net import ready as model\n\nmodel.to('mps')", POOL),
    ("from net import Net\n\nclass Moves(Net):\n    def go(self): self.to(device)", POOL),
    ("from net import Net, Whole\n\nNet(Whole()).to('mps')", CALL),
    ("from net import Calls\n\nmodel = torch.nn.Sequential()\nmodel.append(Calls())\nmodel.to('mps')", CALL),
    ("from net import Calls\n\nmodel = torch.nn.Module()\nmodel.head = Calls()\nmodel.to('mps')", CALL),
    ("from net import Net\n\ndef train(model, steps): model.to('mps')\n\ntrain(Net(), 3)", POOL),
    ("from net import Net\n\nclass A:\n    def __init__(self, net): self.net = net\n    def go(self): self.net.to(dev)"
     "\n\nA(net=Net()).go()", POOL),
    ("from net import Net\n\nfor model in [Net()]: model.to('mps')", POOL),
    ("from net import Net\n\nmodel, step = accelerator.prepare(Net(), step)", POOL),
]  # fmt: skip
# Nothing of the other file is put there.
STAYS = [
    "from net import Net, Calls\n\nmodel = torch.nn.Linear(3, 3).to('mps')\nprint(Net()(x).sum())",
    "from net import Net\n\nmodel = Net().to('cpu').to(dtype)\nx = torch.ones(3).to('mps')",
    "from net import Net\n\nmodel = Net().to(torch.float16)\nx = x.to(device)",
]


def code_after(folder: Path, code: str, net: str = NET, release: str = "2.15.0") -> str:
    """What becomes of the file ``net.py`` of a package, on a release that lacks nothing but sizes."""
    (folder / "net.py").write_text(net, encoding="utf-8")
    (folder / "go.py").write_text(f"import torch\n{code}\n", encoding="utf-8")
    found = gather([str(folder)])
    texts = fixed(found, list(RULES.values()), release=release).texts
    return next((text for name, text in texts.items() if name.endswith("net.py")), net)


@pytest.mark.parametrize(("code", "line"), FOUND)
def test_an_instance_that_is_put_on_the_device_has_its_modules_there(code: str, line: str, tmp_path: Path) -> None:
    made = code_after(tmp_path, code)
    assert line in made
    assert (POOL in made) == (line == POOL or " Net" in code)


@pytest.mark.parametrize("code", STAYS)
def test_what_is_not_put_there_stays(code: str, tmp_path: Path) -> None:
    assert code_after(tmp_path, code) == NET


def test_sizes_that_are_never_refused_stay(tmp_path: Path) -> None:
    for size in ("1", "(1, 1)", "output_size=1", "(None, 1)"):
        net = NET.replace("Pool2d(5)", f"Pool2d({size})")
        assert code_after(tmp_path, "from net import Net\n\nNet().to('mps')", net) == net


def test_a_rewrite_of_an_earlier_patch_is_not_rewritten(tmp_path: Path) -> None:
    """It calls the original on other devices: with itself in that place it would not end."""
    code, net = "from net import Net, Whole\n\nNet(Whole()).to('mps')", f"{NET}lost = nn.CTCLoss()\n"
    made = code_after(tmp_path, code, net, "2.6.0")
    assert POOL in made and CALL in made and "lost = CTCLossOnMPS()" in made
    assert code_after(tmp_path, code, made, "2.6.0") == made
