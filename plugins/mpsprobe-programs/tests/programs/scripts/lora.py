"""LoRA with peft: training, saving, loading, merging."""

from __future__ import annotations

import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, set_seed

device = "mps" if torch.backends.mps.is_available() else "cpu"
set_seed(0)
config = LlamaConfig(
    vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, pad_token_id=0
)
lora = LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
model = get_peft_model(LlamaForCausalLM(config), lora).to(device)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
for _ in range(3):
    ids = torch.randint(3, 40, (2, 9)).to(device)
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    loaded = PeftModel.from_pretrained(model.unload(), folder).eval()
    print(loaded(input_ids=ids).logits.sum().item(), loaded.device.type == device)
    print(loaded.merge_and_unload().generate(ids[:1], max_new_tokens=4, do_sample=False).tolist())
