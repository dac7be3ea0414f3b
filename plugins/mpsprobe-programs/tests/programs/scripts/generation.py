"""Texts of Llama, GPT-2 and T5: greedy, sampled and with beams."""

from __future__ import annotations

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    set_seed,
)

device = "mps" if torch.backends.mps.is_available() else "cpu"
set_seed(5)
tokens = {"vocab_size": 60, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
models = [
    LlamaForCausalLM(
        LlamaConfig(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32,
            max_position_embeddings=64, **tokens,
        )
    ),
    GPT2LMHeadModel(GPT2Config(n_positions=64, n_embd=16, n_layer=2, n_head=2, **tokens)),
    T5ForConditionalGeneration(
        T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0, **tokens)
    ),
]  # fmt: skip
ways = [
    {"do_sample": False, "repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
    {"do_sample": True, "top_k": 10, "temperature": 0.8},
    {"do_sample": True, "top_p": 0.9},
    {"num_beams": 3, "do_sample": False},
    {"num_beams": 4, "do_sample": True, "num_return_sequences": 2},
]
for model in models:
    model = model.to(device).eval()
    ids = torch.randint(3, 60, (2, 6)).to(device)
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    for way in ways:
        print(model.generate(ids, attention_mask=mask, max_new_tokens=6, **way).tolist())
