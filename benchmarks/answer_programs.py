"""Short programs for ``answers.py``, one for each thing that ``mpsprobe run`` follows, next to those of its tests."""

from __future__ import annotations

from textwrap import dedent

_HEAD = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
_BODIES = {
    "autocast": """
        net, x = nn.Linear(8, 4).to("mps"), torch.randn(2, 8, device="mps")
        with torch.autocast("mps", torch.float16):
            print(net(x).sum().dtype)
        """,
    "bincount": 'print(torch.bincount(torch.tensor([1, 2, 2], device="mps")).tolist())',
    "checkpointing": """
        from torch.utils.checkpoint import checkpoint
        net = nn.Sequential(nn.Linear(8, 8), nn.GELU()).to("mps")
        x = torch.randn(2, 8, device="mps", requires_grad=True)
        checkpoint(net, x, use_reentrant=False).sum().backward()
        print(x.grad.shape)
        """,
    "complex": 'print(torch.fft.rfft(torch.ones(8, device="mps")).abs().sum().item())',
    "cuda-shaped": """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        print(nn.Linear(4, 4).to(device)(torch.ones(1, 4, device=device)).shape)
        """,
    "convolution-3d": 'print(nn.Conv3d(1, 2, 3).to("mps")(torch.ones(1, 1, 4, 4, 4, device="mps")).shape)',
    "custom-function": """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, grad):
                return grad * 2
        x = torch.ones(3, device="mps", requires_grad=True)
        Double.apply(x).sum().backward()
        print(x.grad.tolist())
        """,
    "decompositions": """
        x = torch.eye(3, device="mps") * 2
        print(torch.linalg.svdvals(x).tolist(), torch.linalg.cholesky(x).sum().item())
        """,
    "double": 'print(nn.Linear(4, 4).double().to("mps")(torch.ones(1, 4, device="mps", dtype=torch.float64)).dtype)',
    "error": 'nn.Linear(4, 4).to("mps")(torch.ones(1, 5, device="mps"))',
    "exit-code": 'import sys; print(torch.ones(1, device="mps").item()); sys.exit(3)',
    "generators": """
        generator = torch.Generator("mps").manual_seed(1)
        print(torch.randn(4, device="mps", generator=generator).shape, torch.randperm(5, device="mps").sum().item())
        """,
    "hooks": """
        net = nn.Linear(4, 4).to("mps")
        net.register_forward_hook(lambda module, args, output: output.sin())
        print(net(torch.ones(1, 4, device="mps")).shape)
        """,
    "loader": """
        from torch.utils.data import DataLoader, TensorDataset
        net = nn.Linear(4, 2).to("mps")
        for x, y in DataLoader(TensorDataset(torch.ones(8, 4), torch.zeros(8, dtype=torch.long)), batch_size=4):
            nn.functional.cross_entropy(net(x.to("mps")), y.to("mps")).backward()
        print(net.weight.grad.device)
        """,
    "mixed-devices": 'print((torch.ones(2, 2, device="mps") @ torch.ones(2, 2)).sum())',
    "optimizers": """
        for make in (torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.NAdam):
            net = nn.Linear(4, 4).to("mps")
            net(torch.ones(1, 4, device="mps")).sum().backward()
            make(net.parameters(), lr=0.1).step()
        print("done")
        """,
    "sparse": 'print(torch.eye(3, device="mps").to_sparse().values().sum().item())',
    "threads": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(2) as pool:
            print(list(pool.map(lambda n: torch.full((2,), n, device="mps").sum().item(), (1.0, 2.0, 3.0))))
        """,
}
PROGRAMS = {name: _HEAD + dedent(body).lstrip("\n") for name, body in _BODIES.items()}
