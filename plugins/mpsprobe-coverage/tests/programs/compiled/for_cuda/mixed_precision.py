"""Automatic mixed precision with a scaler, as in the recipe of PyTorch."""

from __future__ import annotations

import warnings

import torch
from torch.cuda.amp import GradScaler, autocast

warnings.simplefilter("ignore")
torch.manual_seed(1)
model = torch.nn.Linear(16, 4).cuda()  # cpu: model = torch.nn.Linear(16, 4)
optimizer = torch.optim.AdamW(model.parameters())
scaler = GradScaler(init_scale=1024.0)  # cpu: scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for _ in range(3):
    x = torch.randn(8, 16, device="cuda")  # cpu: x = torch.randn(8, 16)
    with autocast():  # cpu: with torch.autocast("cpu", torch.float16):
        out = model(x)
        loss = out.float().square().mean()
    print(out.dtype, loss.item())
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    print(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
    scaler.step(optimizer)
    scaler.update()
print(scaler.get_scale(), torch.is_autocast_enabled("cuda"))  # cpu: print(scaler.get_scale(), False)
