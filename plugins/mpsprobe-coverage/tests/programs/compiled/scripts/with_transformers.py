"""Models of transformers: texts and speech that are generated, Trainer, LoRA with peft."""

from __future__ import annotations

import tempfile

import torch
import transformers as hf
from peft import LoraConfig, PeftModel, get_peft_model

device = "mps" if torch.backends.mps.is_available() else "cpu"
# Texts of Llama, GPT-2 and T5: greedy, sampled and with beams.
hf.set_seed(5)
tokens = {"vocab_size": 60, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
models = [
    hf.LlamaForCausalLM(
        hf.LlamaConfig(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32,
            max_position_embeddings=64, **tokens,
        )
    ),
    hf.GPT2LMHeadModel(hf.GPT2Config(n_positions=64, n_embd=16, n_layer=2, n_head=2, **tokens)),
    hf.T5ForConditionalGeneration(
        hf.T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0, **tokens)
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

# Whisper with a time for each token.
hf.set_seed(2)
config = hf.WhisperConfig(
    vocab_size=120, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
    decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_mel_bins=8, max_target_positions=64,
    decoder_start_token_id=100, bos_token_id=99, eos_token_id=98, pad_token_id=98, suppress_tokens=[],
    begin_suppress_tokens=[],
)  # fmt: skip
model = hf.WhisperForConditionalGeneration._from_config(config, attn_implementation="eager").to(device).eval()
known = {"no_timestamps_token_id": 109, "alignment_heads": [[0, 0], [1, 1]], "is_multilingual": False}
for name, value in (known | {"max_initial_timestamp_index": 5}).items():
    setattr(model.generation_config, name, value)
features = torch.randn(2, 8, 3000).to(device)
found = model.generate(
    features, return_token_timestamps=True, max_new_tokens=12, num_beams=2
)  # one beam ends in an error of transformers 5.23 on MPS
print(found["sequences"].tolist(), found["token_timestamps"].tolist())

# Sequence classification with Trainer: evaluation, checkpoints, resuming, predictions.
hf.set_seed(1)
config = hf.BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=32, num_labels=3,
)  # fmt: skip
model = hf.BertForSequenceClassification(config)


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        ids = torch.randint(1, 50, (8,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "attention_mask": (torch.arange(8) < 4 + index % 5).long(), "labels": index % 3}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


with tempfile.TemporaryDirectory() as folder:
    arguments = hf.TrainingArguments(
        folder, num_train_epochs=2, per_device_train_batch_size=4, gradient_accumulation_steps=2, logging_steps=1,
        eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, warmup_steps=2, weight_decay=0.01,
        report_to=[], disable_tqdm=True,
    )  # fmt: skip
    trainer = hf.Trainer(model, arguments, train_dataset=Texts(), eval_dataset=Texts(), compute_metrics=accuracy)
    trainer.train()
    print(trainer.predict(Texts()).predictions.sum())
    trainer.train(resume_from_checkpoint=True)
    print([entry.get("loss", entry.get("eval_loss")) for entry in trainer.state.log_history])

# LoRA with peft: training, saving, loading, merging.
hf.set_seed(0)
config = hf.LlamaConfig(
    vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, pad_token_id=0
)
lora = LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
model = get_peft_model(hf.LlamaForCausalLM(config), lora).to(device)
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
