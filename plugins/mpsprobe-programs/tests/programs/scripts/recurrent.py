"""LSTMs with dropout, in both directions, and with projections, which MPS refuses; CTC; packed sequences."""

from __future__ import annotations

import torch
from torch import nn

device = "mps" if torch.backends.mps.is_available() else "cpu"
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
packed = nn.utils.rnn.pack_padded_sequence(torch.randn(10, 3, 8).to(device), lengths, enforce_sorted=False)
for layer in (nn.LSTM(8, 12).to(device), nn.GRU(8, 12).to(device)):
    padded, known = nn.utils.rnn.pad_packed_sequence(layer(packed)[0])
    padded.square().sum().backward()
    print(f"{padded.sum().item():.3f} {layer.weight_ih_l0.grad.sum().item():.3f}", known.tolist())
