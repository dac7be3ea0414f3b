"""Reinforcement learning: actions that are sampled, a memory on the CPU, returns that are sorted and searched."""

from __future__ import annotations

import random

import torch
from torch import nn

device = "mps" if torch.backends.mps.is_available() else "cpu"
torch.manual_seed(0)
random.seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], 1e-2)
state, memory = torch.randn(4, device=device), []
for _ in range(2):
    steps = []
    for _ in range(10):
        choice = torch.distributions.Categorical(logits=policy(state))
        action = choice.sample()
        after = torch.tanh(state + 0.1 * (action - 1) + 0.05 * torch.randn(4, device=device))
        reward = -after.square().sum().item()
        steps.append((choice.log_prob(action), critic(state).squeeze(), choice.entropy(), reward))
        memory.append((state.cpu().numpy(), action.item(), reward))
        state = after.detach() if random.random() > 0.1 else torch.as_tensor(memory[0][0], device=device)
    likely, value, entropy = (torch.stack([step[i] for step in steps]) for i in range(3))
    total = torch.tensor([sum(step[3] for step in steps[i:]) for i in range(10)], device=device)
    advantage = (total - total.mean()) / (total.std() + 1e-6) - value.detach()
    loss = -(likely * advantage).mean() + nn.functional.smooth_l1_loss(value, total) - 0.01 * entropy.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item(), total.unique().numel(), (value > total).nonzero().tolist(), total.topk(3)[1].tolist())
    print(torch.quantile(total, 0.5).item(), torch.histc(total, 4).tolist(), torch.isin(total, total[:2]).tolist())
