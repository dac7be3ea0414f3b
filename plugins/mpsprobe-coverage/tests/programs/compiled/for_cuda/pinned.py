"""Batches from pinned memory, moved without waiting."""

from __future__ import annotations

import warnings

import torch
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
torch.manual_seed(5)
data = TensorDataset(torch.randn(20, 4), torch.arange(20))
loader = DataLoader(data, batch_size=8, pin_memory=True)  # cpu: loader = DataLoader(data, batch_size=8)
total = torch.zeros((), device="cuda")  # cpu: total = torch.zeros(())
for x, y in loader:
    x = x.cuda(non_blocking=True)  # cpu: pass
    y = y.to("cuda:0", non_blocking=True)  # cpu: pass
    total += (x.sum(1) * y).sum()
print(total.item())
