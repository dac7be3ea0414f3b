"""Checkpointed gradients, compiled and transformed functions, hooks, attention in all its forms."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

device = "mps" if torch.backends.mps.is_available() else "cpu"
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 3)).to(device)
inputs = torch.randn(5, 6).to(device).requires_grad_()
for reentrant in (False, True):
    checkpoint(net, inputs, use_reentrant=reentrant).square().sum().backward()
    print(inputs.grad.sum().item(), [p.grad.sum().item() for p in net.parameters()])
torch.compile(net, backend="eager")(inputs).sum().backward()
print(inputs.grad.sum().item())
net.eval()
seen = []
copied = copy.deepcopy(net)
copied[0].register_forward_hook(lambda module, args, output: seen.append(output.sum().item()))
copied[0].register_full_backward_hook(lambda module, before, after: seen.append(after[0].sum().item()))
copied(inputs).sum().backward()
print(seen, inputs.grad.sum().item())
known = {name: value.detach() for name, value in net.named_parameters()}


def loss(parameters, one):
    return torch.func.functional_call(net, parameters, (one[None],)).square().sum()


gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(known, inputs.detach())
print({name: (list(value.shape), round(value.sum().item(), 3)) for name, value in gradients.items()})

attend = nn.functional.scaled_dot_product_attention
query, key, value = (torch.randn(2, 4, n, 8, device=device, requires_grad=True) for n in (5, 7, 7))
grouped = [torch.randn(2, 2, 7, 8, device=device, requires_grad=True) for _ in range(2)]
flags, added = torch.rand(2, 1, 5, 7, device=device) > 0.4, torch.randn(5, 7, device=device)
for pair, options in (
    ((key, value), {}), ((key, value), {"is_causal": True}), ((key, value), {"attn_mask": flags, "dropout_p": 0.3}),
    ((key, value), {"attn_mask": added, "scale": 0.3}), (grouped, {"enable_gqa": True}),
):  # fmt: skip
    for tensor in (query, *pair):
        tensor.grad = None
    result = attend(query, *pair, **options)
    result.square().sum().backward()
    print(sorted(options), result.sum().item(), [tensor.grad.sum().item() for tensor in (query, *pair)])
    with torch.no_grad():
        print(attend(query, *pair, **options).sum().item())
layer = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True).to(device)
result, weights = layer(query[0], key[0], value[0])
(result.sum() + weights.square().sum()).backward()
print(result.sum().item(), layer.in_proj_weight.grad.sum().item())
