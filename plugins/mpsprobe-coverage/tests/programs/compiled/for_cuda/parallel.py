"""DataParallel on however many GPUs there are."""

from __future__ import annotations

import torch

torch.manual_seed(4)
model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh())
print("GPUs:", torch.cuda.device_count())  # cpu: print("GPUs:", 1)
model = torch.nn.DataParallel(model, device_ids=[0]).cuda()  # cpu: model = torch.nn.DataParallel(model)
x = torch.randn(10, 6).cuda()  # cpu: x = torch.randn(10, 6)
model(x).sum().backward()
print(sorted(model.state_dict()), [p.grad.norm().item() for p in model.parameters()])
