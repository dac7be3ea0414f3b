"""A GAN with two optimizers and transposed convolutions."""

from __future__ import annotations

import torch
from torch import nn

device = "mps" if torch.backends.mps.is_available() else "cpu"
torch.manual_seed(1)
maker = nn.Sequential(
    nn.Linear(8, 256), nn.Unflatten(1, (16, 4, 4)), nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.BatchNorm2d(8),
    nn.LeakyReLU(0.2), nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh(),
).to(device)  # fmt: skip
judge = nn.Sequential(
    nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1), nn.Flatten(), nn.Linear(256, 1)
).to(device)
of_maker = torch.optim.Adam(maker.parameters(), 2e-4, betas=(0.5, 0.999))
of_judge = torch.optim.RMSprop(judge.parameters(), 2e-4)
loss = nn.BCEWithLogitsLoss()
yes, no = torch.ones(4, 1, device=device), torch.zeros(4, 1, device=device)
for _ in range(4):
    real, made = torch.randn(4, 1, 16, 16).to(device), maker(torch.randn(4, 8, device=device))
    of_judged = loss(judge(real), yes) + loss(judge(made.detach()), no)
    of_judge.zero_grad()
    of_judged.backward()
    of_judge.step()
    of_made = loss(judge(made), yes)
    of_maker.zero_grad()
    of_made.backward()
    of_maker.step()
    print(of_judged.item(), of_made.item())
