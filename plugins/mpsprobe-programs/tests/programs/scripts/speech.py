"""Whisper with a time for each token."""

from __future__ import annotations

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration, set_seed

device = "mps" if torch.backends.mps.is_available() else "cpu"
set_seed(2)
config = WhisperConfig(
    vocab_size=120, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
    decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_mel_bins=8, max_target_positions=64,
    decoder_start_token_id=100, bos_token_id=99, eos_token_id=98, pad_token_id=98, suppress_tokens=[],
    begin_suppress_tokens=[],
)  # fmt: skip
model = WhisperForConditionalGeneration._from_config(config, attn_implementation="eager").to(device).eval()
known = {"no_timestamps_token_id": 109, "alignment_heads": [[0, 0], [1, 1]], "is_multilingual": False}
for name, value in (known | {"max_initial_timestamp_index": 5}).items():
    setattr(model.generation_config, name, value)
features = torch.randn(2, 8, 3000).to(device)
found = model.generate(
    features, return_token_timestamps=True, max_new_tokens=12, num_beams=2
)  # one beam ends in an error of transformers 5.23 on MPS
print(found["sequences"].tolist(), found["token_timestamps"].tolist())
