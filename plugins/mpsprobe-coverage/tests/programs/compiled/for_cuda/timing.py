"""Times by events and streams."""

from __future__ import annotations

import torch

start = torch.cuda.Event(enable_timing=True)  # cpu: start = 0
end = torch.cuda.Event(enable_timing=True)  # cpu: end = 0
stream = torch.cuda.Stream()  # cpu: stream = 0
x = torch.eye(32, device="cuda")  # cpu: x = torch.eye(32)
with torch.cuda.stream(stream):  # cpu: if True:
    start.record()  # same: pass
    for _ in range(5):
        x = x @ x + 1
    end.record()  # same: pass
torch.cuda.current_stream().wait_stream(stream)  # cpu: pass
x.record_stream(stream)  # cpu: pass
torch.cuda.synchronize()  # cpu: pass
with torch.cuda.nvtx.range("sum"):  # cpu: if True:
    print(x.sum().item())
print(start.elapsed_time(end) >= 0, end.query())  # same: print(True, True)
