"""Text from a language model of transformers; its name for the device goes through the library."""

from __future__ import annotations

import torch
import transformers

torch.manual_seed(3)
config = transformers.GPT2Config(
    n_layer=2, n_head=2, n_embd=32, vocab_size=50, n_positions=64, bos_token_id=0, eos_token_id=None, pad_token_id=0
)
model = transformers.GPT2LMHeadModel(config).eval()
model.to("cuda")  # cpu: pass
prompt = torch.tensor([[1, 2, 3], [4, 5, 6]]).to(model.device)
with torch.no_grad():
    print(model.generate(prompt, max_new_tokens=8, do_sample=False).tolist())
    torch.cuda.manual_seed(5)  # cpu: torch.manual_seed(5)
    print(model.generate(prompt, max_new_tokens=8, do_sample=True, top_k=5).tolist())
