"""Sequence classification with Trainer: evaluation, checkpoints, resuming, predictions."""

from __future__ import annotations

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(1)
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=32, num_labels=3,
)  # fmt: skip
model = BertForSequenceClassification(config)


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        ids = torch.randint(1, 50, (8,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "attention_mask": (torch.arange(8) < 4 + index % 5).long(), "labels": index % 3}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, num_train_epochs=2, per_device_train_batch_size=4, gradient_accumulation_steps=2, logging_steps=1,
        eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, warmup_steps=2, weight_decay=0.01,
        report_to=[], disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=Texts(), eval_dataset=Texts(), compute_metrics=accuracy)
    trainer.train()
    print(trainer.predict(Texts()).predictions.sum())
    trainer.train(resume_from_checkpoint=True)
    print([entry.get("loss", entry.get("eval_loss")) for entry in trainer.state.log_history])
