"""Image classification by hand: convolutions, batches that are shuffled, a schedule, a checkpoint."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import nn

device = "mps" if torch.backends.mps.is_available() else "cpu"
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
