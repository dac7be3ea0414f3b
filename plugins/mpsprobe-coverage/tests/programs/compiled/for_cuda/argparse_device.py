"""A command line with the device as an argument."""

from __future__ import annotations

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")  # cpu: parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 6, 3)
        self.norm = torch.nn.BatchNorm2d(6)

    def forward(self, x):
        return self.norm(self.conv(x)).relu().mean((2, 3))


torch.manual_seed(2)
net = Net().to(arguments.device)
x = torch.ones(2, 3, 8, 8, device=arguments.device).cumsum(3)
print(net(x).sum().item(), {name: tuple(value.shape) for name, value in net.state_dict().items()})
