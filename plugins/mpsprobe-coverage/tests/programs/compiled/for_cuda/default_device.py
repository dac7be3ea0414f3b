"""The device as the default of everything that is made."""

from __future__ import annotations

import torch

torch.set_default_device("cuda")  # cpu: pass
torch.manual_seed(10)
model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
print(model(torch.randn(2, 3, 8)).sum().item())
torch.set_default_device(None)
with torch.device("cuda"):  # cpu: if True:
    print(torch.nn.Embedding(5, 3)(torch.tensor([1, 2])).sum().item())
torch.set_default_tensor_type(torch.cuda.FloatTensor)  # cpu: pass
print(torch.zeros(3).is_cuda, torch.rand(3).mean().item())  # cpu: print(True, torch.rand(3).mean().item())
print(f"model on {next(model.parameters()).device}")  # same: print("model on cuda:0")
