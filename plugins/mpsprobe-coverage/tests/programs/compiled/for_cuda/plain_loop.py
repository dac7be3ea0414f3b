"""A training loop as in the tutorial."""

from __future__ import annotations

import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # cpu: device = torch.device("cpu")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(4):
    x, y = torch.randn(12, 8).to(device), torch.randint(3, (12,)).to(device)
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
