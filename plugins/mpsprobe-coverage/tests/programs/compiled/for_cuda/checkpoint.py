"""A checkpoint, saved and loaded with every form of map_location."""

from __future__ import annotations

import io

import torch

torch.manual_seed(6)
model = torch.nn.LSTM(4, 5, batch_first=True).cuda()  # cpu: model = torch.nn.LSTM(4, 5, batch_first=True)
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(2, 3, 4, device="cuda"))[0].sum().backward()  # cpu: model(torch.randn(2, 3, 4))[0].sum().backward()
optimizer.step()
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 7}, file)
for where in (
    "cuda",  # cpu: "cpu",
    torch.device("cuda", 0),  # cpu: "cpu",
    {"cuda:0": "cpu"},  # cpu: "cpu",
    lambda storage, location: storage.cuda(0),  # cpu: "cpu",
    "cpu",
    None,
):
    file.seek(0)
    loaded = torch.load(file, map_location=where)
    again = torch.nn.LSTM(4, 5, batch_first=True).to(0)  # same: again = torch.nn.LSTM(4, 5, batch_first=True)
    again.load_state_dict(loaded["model"])
    other = torch.optim.Adam(again.parameters())
    other.load_state_dict(loaded["optimizer"])
    print(loaded["step"], sum(p.double().sum().item() for p in map(torch.Tensor.cpu, again.state_dict().values())))
