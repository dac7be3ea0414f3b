"""Programs as people write them for CUDA, and some that must stay as they are. Each prints what it worked out."""

from __future__ import annotations

MNIST = """\
import argparse
import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument('--no-cuda', action='store_true', help='the CPU')
args = parser.parse_args([])
use_cuda = not args.no_cuda and torch.cuda.is_available()
torch.manual_seed(1)
device = torch.device("cuda" if use_cuda else "cpu")
kwargs = {'num_workers': 0, 'pin_memory': True} if use_cuda else {}
model = torch.nn.Linear(4, 2).to(device)
loader = torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=4, **kwargs)
for x in loader:
    x = x.to(device)
    print(F.log_softmax(model(x), dim=1).sum().item())
"""
HARD_CODED = """\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 3).cuda()  # the model
x = torch.ones(2, 3, device="cuda:0")
y = torch.zeros(2, 3).to(0, non_blocking=True)
loss = (model(x) - y).square().mean()
loss.backward()
torch.cuda.synchronize()
torch.cuda.empty_cache()
print("loss", loss.item())
"""
MIXED = """\
import torch
from torch.cuda.amp import GradScaler, autocast

torch.manual_seed(0)
model = torch.nn.Linear(3, 3)
if torch.cuda.is_available():
    model = model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = GradScaler(enabled=False)
x = torch.ones(2, 3)
if torch.cuda.is_available():
    x = x.cuda()
with autocast(enabled=False):
    loss = model(x).square().sum()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
print(loss.item())
"""
FLOAT64 = """\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
a = torch.zeros(3, dtype=torch.float64, device=device) + 1
b = torch.ones(3).double().to(device)
c = torch.ones(3).to(device).double()
print((a + b + c).sum().item())
"""
TYPES = """\
import torch

x = torch.cuda.FloatTensor([1.0, 2.0])
y = torch.ones(2).type(torch.cuda.FloatTensor)
print((x + y).sum().item())
"""
CHECKPOINT = """\
import io
import torch

file = io.BytesIO()
torch.save(torch.ones(3), file)
file.seek(0)
x = torch.load(file, map_location="cuda:0")
file.seek(0)
y = torch.load(file, map_location=lambda storage, loc: storage.cuda())
print((x + y).sum().item())
"""
BRANCHES = """\
import torch

if torch.cuda.is_available():
    device = "cuda"
else:
    device = "cpu"
if not torch.cuda.is_available():
    print("on the CPU")
torch.cuda.set_device(0) if torch.cuda.is_available() else None
print(torch.ones(3, device=device).sum().item(), torch.cuda.memory_allocated() >= 0)
"""
LOADER = """\
import torch


def main():
    data = [torch.ones(2), torch.zeros(2)]
    loader = torch.utils.data.DataLoader(data, num_workers=0, collate_fn=lambda batch: batch[0], pin_memory=True)
    for x in loader:
        print(x.cuda().sum().item())


if __name__ == "__main__":
    main()
"""
FLASH = """\
import torch
from flash_attn import flash_attn_func

torch.manual_seed(0)
q, k, v = torch.randn(3, 1, 5, 2, 8).cuda()
print(flash_attn_func(q, k, v, causal=True).sum().item())
"""
APEX = """\
import torch
from apex.normalization import FusedLayerNorm
from apex.optimizers import FusedAdam

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 3), FusedLayerNorm(3)).cuda()
optimizer = FusedAdam(model.parameters(), lr=0.1)
model(torch.ones(2, 3).cuda())[:, 0].sum().backward()
optimizer.step()
print(model[0].weight.sum().item())
"""
PARALLEL = """\
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.DataParallel(nn.Linear(3, 3), device_ids=[0]).cuda()
with torch.cuda.device(0):
    print(net(torch.ones(2, 3).cuda()).sum().item(), torch.cuda.device_count() > 1)
"""
NAMED_TYPES = """\
import torch

cuda = True if torch.cuda.is_available() else False
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
if cuda:
    net.cuda()
valid = Tensor(2, 1).fill_(1.0)
print((net(torch.ones(2, 3).type(Tensor)) - valid).sum().item())
"""
OPTIONS = """\
from typing import Literal

import click
import torch

Where = Literal["cuda", "cpu"]


@click.command()
@click.option("--device", default="cuda", type=click.Choice(["cuda", "cpu"]))
def main(device: Where) -> None:
    print(torch.ones(2, device=device).sum().item())


main([], standalone_mode=False)
"""
HALF_KNOWN = """\
import torch
import xformers.ops as xops
from flash_attn import flash_attn_func, flash_attn_varlen_func
from flash_attn.bert_padding import unpad_input

torch.manual_seed(0)
q = torch.randn(1, 5, 2, 8).cuda()
one = flash_attn_func(q, q, q, causal=True)
other = xops.memory_efficient_attention(q, q, q, attn_bias=xops.LowerTriangularMask())
print((one - other).abs().max().item() < 1e-5)
"""
STREAMS = """\
import torch

start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
stream = torch.cuda.Stream()
start.record()
with torch.cuda.stream(stream):
    x = torch.ones(3).cuda()
torch.cuda.current_stream().wait_stream(stream)
x.record_stream(torch.cuda.current_stream())
end.record()
torch.cuda.synchronize()
print(start.elapsed_time(end) >= 0, x.sum().item())
"""
DEFAULT_TYPE = """\
import torch

torch.set_default_tensor_type(torch.cuda.FloatTensor)
torch.manual_seed(0)
print(torch.ones(3).sum().item())
torch.set_default_device(None)
"""
PACKAGE = {
    "settings.py": 'WHERE = "cuda"\nSIZES = (3, 3)\n',
    "model.py": "import torch\n\n\nclass Net(torch.nn.Linear):\n"
    '    def __init__(self, device="cuda"):\n        super().__init__(3, 3, device=device)\n',
    "config.yaml": "device: cuda:0\nname: test\n",
    "main.py": "from pathlib import Path\n\nimport torch\n\nfrom model import Net\n"
    "from settings import SIZES, WHERE\n\n"
    'config = dict(line.split(": ") for line in Path("config.yaml").read_text().splitlines())\n'
    "torch.manual_seed(0)\nnet = Net()\nx = torch.ones(SIZES).to(WHERE)\n"
    'y = torch.ones(SIZES).to(config["device"])\nprint(net(x + y).shape, config["name"])\n',
}
BY_POSITION = """\
import io
import json

import torch


def get_device(rank=None):
    if rank is not None:
        return f"cuda:{rank}"
    if torch.cuda.is_available():
        return "cuda"
    return "cpu"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.arange(3, dtype=torch.float64))

    def forward(self, x):
        return x * self.steps


timestamps = json.dumps([0.5])
generator = torch.Generator("cuda").manual_seed(0)
file = io.BytesIO()
torch.save(torch.ones(3), file)
file.seek(0)
scope = torch.autocast if len(timestamps) > 90 else torch.enable_grad
if timestamps:
    y = torch.load(file).cuda()
net = Net().to(get_device())
print(net(torch.rand(3, generator=generator, device="cuda")).shape, y.sum().item())
"""
CUDA_PROGRAMS: dict[str, dict[str, str]] = {
    name: {"main.py": code}
    for name, code in {
        "mnist": MNIST, "hard_coded": HARD_CODED, "mixed": MIXED, "float64": FLOAT64, "types": TYPES,
        "checkpoint": CHECKPOINT, "branches": BRANCHES, "loader": LOADER, "flash": FLASH, "apex": APEX,
        "parallel": PARALLEL, "named_types": NAMED_TYPES, "options": OPTIONS, "half_known": HALF_KNOWN,
        "streams": STREAMS, "default_type": DEFAULT_TYPE, "by_position": BY_POSITION,
    }.items()
} | {"package": PACKAGE}  # fmt: skip
STAY = {
    "accelerator": "import torch\n\nfound = torch.accelerator.current_accelerator()\n"
    "device = found or torch.device('cpu')\n"
    "print(torch.ones(3).to(device).sum().item())\n",
    "mac_too": "import torch\n\nif torch.backends.mps.is_available():\n    device = torch.device('mps')\n"
    "elif torch.cuda.is_available():\n    device = torch.device('cuda')\nelse:\n    device = torch.device('cpu')\n",
    "guards": "import torch\n\nx = torch.ones(3)\nif torch.cuda.is_available():\n    torch.cuda.synchronize()\n"
    "if x.device.type == 'cuda':\n    x = x.cuda(1)\n"
    "names = {'cuda': 1, 'cpu': 2}\nprint('cuda', x.double().numpy())\n",
    "returns": "import torch\n\n\ndef pick():\n    if torch.cuda.is_available():\n        return torch.device('cuda')\n"
    "    if torch.backends.mps.is_available():\n        return torch.device('mps')\n    return torch.device('cpu')\n",
    "builds": "import torch\n\nHAS_CUDA = torch.cuda.is_available() and True\n"
    "if HAS_CUDA:\n    print(torch.cuda.get_device_capability())\n",
    "no_torch": "import subprocess\n\nname = 'cuda'\nversion = dict(toolkit='cuda')\nlabel = 'uses cuda:0'\n",
}
"""What runs on a Mac already, or is about CUDA on purpose."""
