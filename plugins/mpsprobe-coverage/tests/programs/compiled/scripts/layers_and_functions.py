"""Recurrent layers and attention in all their forms, and what torch makes of gradients and functions."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

device = "mps" if torch.backends.mps.is_available() else "cpu"
# LSTMs with dropout, in both directions, and with projections, which MPS refuses; CTC; packed sequences.
for options in ({"num_layers": 2, "dropout": 0.3}, {"bidirectional": True, "batch_first": True}, {"proj_size": 3}):
    torch.manual_seed(0)
    layer = nn.LSTM(5, 6, **options).to(device)
    inputs = torch.randn(4, 3, 5).to(device).requires_grad_()
    for _ in range(2):
        outputs, (hidden, cell) = layer(inputs)
        (outputs.sum() + hidden.square().sum() + cell.sum()).backward()
        print(outputs.sum().item(), inputs.grad.sum().item(), [p.grad.sum().item() for p in layer.parameters()])
    layer.eval()
    print(layer(inputs, (hidden.detach(), cell.detach()))[0].sum().item())
torch.manual_seed(0)
layer, head = nn.LSTM(8, 12, bidirectional=True).to(device), nn.Linear(24, 6).to(device)
optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], 0.1, momentum=0.9, nesterov=True)
lengths = torch.tensor([10, 7, 8])
for _ in range(3):
    inputs, targets = torch.randn(10, 3, 8).to(device), torch.randint(1, 6, (3, 3)).to(device)
    likely = head(layer(inputs)[0]).log_softmax(-1)
    loss = nn.functional.ctc_loss(likely, targets, lengths, torch.tensor([3, 2, 3]), zero_infinity=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item(), likely.argmax(-1).tolist())
# Only on the CPU are all steps of a packed sequence, and of a GRU, multiplied by the weights of the input at once.
torch.manual_seed(6)  # no sum is near where the fourth digit changes
packed = nn.utils.rnn.pack_padded_sequence(torch.randn(10, 3, 8).to(device), lengths, enforce_sorted=False)
for layer in (nn.LSTM(8, 12).to(device), nn.GRU(8, 12).to(device)):
    padded, known = nn.utils.rnn.pad_packed_sequence(layer(packed)[0])
    padded.square().sum().backward()
    print(f"{padded.sum().item():.4f} {layer.weight_ih_l0.grad.sum().item():.4f}", known.tolist())

# Checkpointed gradients, compiled and transformed functions, hooks, attention in all its forms.
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
