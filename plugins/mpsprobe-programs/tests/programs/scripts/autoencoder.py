"""A variational autoencoder with torch.distributions, and samples of other distributions."""

from __future__ import annotations

import torch
from torch import distributions, nn

device = "mps" if torch.backends.mps.is_available() else "cpu"
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
