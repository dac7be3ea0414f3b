"""A model whose numbers are wrong on some releases, and one that is right: see docs/explanation/advisories.md."""

from __future__ import annotations

import torch


class Attention(torch.nn.Module):
    """Attention over eight heads of 64."""

    def __init__(self, is_causal: bool) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(512, 3 * 512)
        self.is_causal = is_causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 8, 64)).permute(2, 0, 3, 1, 4)
        mask = None if self.is_causal else torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.is_causal)


def causal() -> tuple[torch.nn.Module, torch.Tensor]:
    """Asks for the mask with is_causal."""
    return Attention(is_causal=True), torch.ones(1, 128, 512)


def masked() -> tuple[torch.nn.Module, torch.Tensor]:
    """Brings the mask itself."""
    return Attention(is_causal=False), torch.ones(1, 128, 512)
