"""Trainings written by hand: images, a GAN, a variational autoencoder, reinforcement learning."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import torch
from torch import distributions, nn

device = "mps" if torch.backends.mps.is_available() else "cpu"
# Image classification by hand: convolutions, batches that are shuffled, a schedule, a checkpoint.
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(8, 8, 3, stride=2, groups=2, bias=False), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    nn.Dropout(0.1), nn.Linear(8, 5),
).to(device)  # fmt: skip
data = torch.utils.data.TensorDataset(torch.randn(32, 3, 16, 16), torch.randint(0, 5, (32,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
for _ in range(2):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print(loss.item(), norm.item())
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "checkpoint.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}, path)
    known = torch.load(path, map_location=device, weights_only=True)
    print({key: (value.device.type == device, value.cpu().sum().item()) for key, value in known["model"].items()})
    print({value.device.type for value in torch.load(path, map_location="cpu", weights_only=True)["model"].values()})

# A GAN with two optimizers and transposed convolutions.
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

# A variational autoencoder with torch.distributions, and samples of other distributions.
torch.manual_seed(0)
encoder, decoder = nn.Linear(12, 8).to(device), nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 12)).to(device)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-2)
data = (torch.rand(40, 12) > 0.5).float()
for _ in range(4):
    batch = data[torch.randperm(40)[:10]].to(device)
    location, scale = encoder(batch).chunk(2, -1)
    found = distributions.Normal(location, nn.functional.softplus(scale) + 1e-4)
    prior = distributions.Normal(torch.zeros_like(location), torch.ones_like(location))
    likely = distributions.Bernoulli(logits=decoder(found.rsample())).log_prob(batch).sum(-1)
    loss = -(likely - distributions.kl_divergence(found, prior).sum(-1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
one = torch.ones(3, device=device)
for each in (
    distributions.Categorical(logits=one), distributions.Beta(one, one * 2), distributions.Gamma(one, one),
    distributions.MultivariateNormal(one, torch.eye(3, device=device)), distributions.Dirichlet(one),
    distributions.Poisson(one * 3), distributions.StudentT(one * 4), distributions.Laplace(one, one),
):  # fmt: skip
    sample = each.sample((2,))
    print(type(each).__name__, sample.tolist(), each.log_prob(sample).tolist())
generator = torch.Generator(device).manual_seed(7)
print(torch.multinomial(one, 2, generator=generator).tolist(), torch.randperm(5, device=device).tolist())

# Reinforcement learning: actions that are sampled, a memory on the CPU, returns that are sorted and searched.
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
