"""What a program prints of the memory and the GPU."""

from __future__ import annotations

import torch

torch.cuda.set_device(0)  # cpu: pass
torch.cuda.reset_peak_memory_stats()  # cpu: pass
x = torch.ones(1024, 1024, device="cuda")  # cpu: x = torch.ones(1024, 1024)
y = x * 2
print(torch.cuda.memory_allocated() // 2**20)  # cpu: print(8)
del y
print(torch.cuda.max_memory_allocated() // 2**20)  # cpu: print(8)
print(torch.cuda.memory_reserved() >= torch.cuda.memory_allocated())  # cpu: print(True)
free, total = torch.cuda.mem_get_info()  # cpu: free, total = 1, 2
print(0 < free < total, torch.cuda.get_device_properties(0).total_memory == total)  # cpu: print(True, True)
print(len(torch.cuda.get_device_name()) > 0, torch.cuda.get_device_capability())  # cpu: print(True, (0, 0))
print("allocated" in torch.cuda.memory_summary().lower(), torch.cuda.is_bf16_supported())  # cpu: print(True, True)
torch.cuda.empty_cache()  # cpu: pass
print(x.sum().item(), torch.cuda.current_device())  # cpu: print(x.sum().item(), 0)
try:
    print(torch.cuda.utilization())  # cpu: print("torch.cuda.utilization() is of CUDA alone: MPS has nothing like it")
except RuntimeError as error:
    print(error)
try:
    graph = torch.cuda.CUDAGraph()  # cpu: print("Tried to instantiate dummy base class CUDAGraph")
except RuntimeError as error:
    print(error)
