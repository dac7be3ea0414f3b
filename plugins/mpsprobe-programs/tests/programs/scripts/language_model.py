"""A causal language model with accelerate: accumulated gradients, a schedule, the fused optimizer."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import GPT2Config, GPT2LMHeadModel, get_linear_schedule_with_warmup

set_seed(3)
accelerator = Accelerator(gradient_accumulation_steps=2)
model = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
loader = torch.utils.data.DataLoader(torch.randint(0, 40, (16, 12)), batch_size=4, shuffle=True)
schedule = get_linear_schedule_with_warmup(optimizer, 2, 10)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for _ in range(2):
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(input_ids=batch, labels=batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        print(accelerator.gather(loss.detach()).mean().item(), schedule.get_last_lr())
