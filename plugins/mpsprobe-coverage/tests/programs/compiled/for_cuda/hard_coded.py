"""Classes with the device in them, custom functions, checkpointing and threads."""

from __future__ import annotations

import threading

import torch
from torch.utils.checkpoint import checkpoint


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * torch.full((), 2.0, device="cuda")  # cpu: return x * torch.full((), 2.0)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.full((), 2.0, device="cuda")  # cpu: return gradient * torch.full((), 2.0)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4, device="cuda")  # cpu: self.linear = torch.nn.Linear(4, 4)
        mask = torch.ones(4, 4).cuda()  # cpu: mask = torch.ones(4, 4)
        self.register_buffer("mask", torch.tril(mask))

    def inner(self, x):
        positions = torch.arange(4, device="cuda")  # cpu: positions = torch.arange(4)
        return Scale.apply(self.linear(x + positions)) @ self.mask

    def forward(self, x):
        assert x.is_cuda, "on the GPU only"  # cpu: pass
        return checkpoint(self.inner, x, use_reentrant=False).sum()


torch.manual_seed(8)
model = Model()
x = torch.randn(2, 4).to(device="cuda").requires_grad_()  # cpu: x = torch.randn(2, 4).requires_grad_()
model(x).backward()
print(x.grad.tolist())


def work():
    print(torch.ones(3, device="cuda").sum().item())  # cpu: print(torch.ones(3).sum().item())


thread = threading.Thread(target=work)
thread.start()
thread.join()
