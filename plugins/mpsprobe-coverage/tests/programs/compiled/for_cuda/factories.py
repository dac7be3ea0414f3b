"""Tensors made on the device, in all the ways, and what they say about it."""

from __future__ import annotations

import torch

device = torch.device("cuda", 0)  # cpu: device = torch.device("cpu")
generator = torch.Generator(device="cuda").manual_seed(9)  # cpu: generator = torch.Generator().manual_seed(9)
x = torch.rand(3, 4, generator=generator, device=device)
y = x.new_zeros(3) + torch.arange(3, device=0)  # same: y = x.new_zeros(3) + torch.arange(3)
z = torch.cuda.FloatTensor([1, 2, 3])  # cpu: z = torch.FloatTensor([1, 2, 3])
w = torch.as_tensor([1.5], device=x.device).type("torch.cuda.HalfTensor")  # cpu: w = torch.HalfTensor([1.5])
print(x.sum().item(), (y * z).tolist(), w.dtype, isinstance(z, type(x)), torch.empty_like(x).shape)
print(x.is_cuda, x.device == device)  # cpu: print(True, True)
print(x.get_device(), str(z.device), z.type())  # same: print(0, "cuda:0", "torch.cuda.FloatTensor")
if device.type == "cuda":  # cpu: if True:
    print("on the GPU")
