"""The workloads of ``memory_on_cuda.py``: all families, sizes that fit 20 GB each, nothing that depends on values.

Each is called with a function that gives a context for a phase, where ``torch.device`` is set, and returns a ``Step``.
The form of an optimizer is named: left to itself, torch chooses another one for fake tensors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Phase = Callable[[str], AbstractContextManager[Any]]
SMALL = os.environ.get("SMALL_WORKLOADS") == "1"  # a check of the script without a GPU


def _normal(tensor: torch.Tensor, mean: float, std: float, *_: Any, **__: Any) -> torch.Tensor:
    return tensor.data.normal_(mean, std)


torch.nn.init._no_grad_trunc_normal_ = _normal  # type: ignore[attr-defined]  # that of torch reads values


def size(usual: int, small: int) -> int:
    return small if SMALL else usual


class Step:
    """One step: inference, or forward, backward and update.

    Args:
        run: called with the model and the inputs, returns what is differentiated, or what inference returns.
        make: the optimizer, from parameters; None for inference.
    """

    def __init__(
        self,
        phase: Phase,
        model: nn.Module,
        inputs: Iterable[torch.Tensor],
        run: Callable[..., Any],
        make: Callable[..., torch.optim.Optimizer] | None = None,
        autocast: torch.dtype | None = None,
        accumulate: int = 1,
        clip: bool = False,
    ) -> None:
        self.phase, self.model, self.inputs, self.run = phase, model, list(inputs), run
        self.autocast, self.accumulate, self.clip = autocast, accumulate, clip
        self.parameters = [one for one in model.parameters() if one.requires_grad]
        self.optimizer = make(self.parameters) if make else None
        model.train(make is not None)

    def take(self) -> None:
        if self.optimizer is None:
            with self.phase("forward"), torch.no_grad(), self._autocast():
                self.run(self.model, *self.inputs)
            return
        for _ in range(self.accumulate):
            with self.phase("forward"), self._autocast():
                loss = self.run(self.model, *self.inputs) / self.accumulate
            with self.phase("backward"):
                loss.backward()
        with self.phase("optimizer"):
            if self.clip:
                nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
            self.optimizer.step()
            self.optimizer.zero_grad()

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(self.inputs[0].device.type, dtype=self.autocast)


def fused(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-4, fused=True)


def foreach(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-4, foreach=True)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=True)


def ids(batch: int, length: int, vocabulary: int = 1000) -> torch.Tensor:
    return torch.randint(0, vocabulary, (batch, length))


def with_loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(input_ids=tokens, labels=tokens).loss
    return loss


def logits(model: nn.Module, tokens: torch.Tensor) -> Any:
    return model(tokens).logits


def bert(checkpointing: bool = False) -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig(num_hidden_layers=size(12, 2)))
    if checkpointing:  # it would read the state of CUDA's generator, which is no fake tensor
        model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    return model


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_layer=size(12, 2)))


def llama() -> nn.Module:
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        hidden_size=size(2048, 256), intermediate_size=size(5632, 512), num_hidden_layers=size(16, 2),
        num_attention_heads=16, num_key_value_heads=4, vocab_size=32000, max_position_embeddings=4096,
    )  # fmt: skip
    return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


def bert_training(phase: Phase, *, checkpointing: bool = False, make: Any = fused, **options: Any) -> Step:
    return Step(phase, bert(checkpointing), [ids(size(32, 2), size(256, 64))], with_loss, make, **options)


def generate(new: int) -> Callable[..., Any]:
    """Prefill and ``new`` tokens, greedy, with the cache that ``generate()`` keeps."""

    def run(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        output = model(input_ids=tokens, use_cache=True, logits_to_keep=1)
        for _ in range(new):
            token = output.logits[:, -1:].argmax(-1)
            output = model(input_ids=token, past_key_values=output.past_key_values, use_cache=True, logits_to_keep=1)
        last: torch.Tensor = output.logits
        return last

    return run


def classified(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    output = model(images)
    return functional.cross_entropy(getattr(output, "logits", output), labels)


def images(batch: int, edge: int = 224) -> list[torch.Tensor]:
    return [torch.randn(batch, 3, edge, edge), torch.randint(0, 1000, (batch,))]


def torchvision_model(name: str) -> nn.Module:
    from torchvision import models

    return models.get_model(name)


def vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(ViTConfig(num_hidden_layers=size(12, 2), num_labels=1000))


def t5(phase: Phase) -> Step:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(d_model=768, d_kv=64, d_ff=3072, num_layers=size(12, 2), num_heads=12, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config)
    return Step(phase, model, [ids(size(16, 2), size(256, 64))], with_loss, foreach, clip=True)


def whisper(phase: Phase) -> Step:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        d_model=512, encoder_layers=size(6, 2), decoder_layers=size(6, 2), encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, vocab_size=51865,
    )  # fmt: skip

    def run(model: nn.Module, sound: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        logits = model(input_features=sound, decoder_input_ids=tokens, use_cache=False).logits
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    batch = size(16, 1)
    sound = torch.randn(batch, 80, 3000)
    return Step(phase, WhisperForConditionalGeneration(config), [sound, ids(batch, 128)], run, fused)


class Cells(nn.Module):
    """A language model of two LSTM cells, stepped in Python."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.cells = nn.ModuleList([nn.LSTMCell(width, width), nn.LSTMCell(width, width)])
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states: list[Any] = [None] * len(self.cells)
        outputs = []
        for x in self.embedding(tokens).unbind(1):
            for index, cell in enumerate(self.cells):
                states[index] = cell(x, states[index])
                x = states[index][0]
            outputs.append(x)
        scores = self.out(torch.stack(outputs, 1))
        return functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())


class Experts(nn.Module):
    """A layer in which each token goes to two of eight experts, each with the same number of places."""

    def __init__(self, width: int, experts: int = 8) -> None:
        super().__init__()
        self.norm, self.gate = nn.LayerNorm(width), nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 4 * width) * 0.02)
        self.down = nn.Parameter(torch.randn(experts, 4 * width, width) * 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.norm(x).flatten(0, 1)
        weights, chosen = self.gate(tokens).softmax(-1).topk(2)
        order = chosen.flatten().argsort(stable=True)
        experts, width = self.up.shape[:2]
        places = tokens.repeat_interleave(2, 0)[order].view(experts, -1, width)
        made = torch.bmm(functional.gelu(torch.bmm(places, self.up)), self.down).flatten(0, 1)
        back = torch.empty_like(made).index_copy(0, order, made)
        return x + (back.view(-1, 2, width) * weights[..., None]).sum(1).view_as(x)


class Mixture(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(8000, width), nn.Linear(width, 8000)
        self.layers = nn.ModuleList([Experts(width) for _ in range(layers)])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.out(x).flatten(0, 1), tokens.flatten())


class Block(nn.Module):
    """A residual block of a UNet, with attention where ``heads`` is not 0, and the time added."""

    def __init__(self, before: int, after: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(32, before), nn.GroupNorm(32, after), nn.GroupNorm(32, after)])
        self.time = nn.Linear(256, after)
        self.shortcut = nn.Conv2d(before, after, 1) if before != after else nn.Identity()
        self.heads = heads
        if heads:
            self.qkv, self.out = nn.Linear(after, 3 * after), nn.Linear(after, after)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.first(functional.silu(self.norms[0](x))) + self.time(time)[:, :, None, None]
        x = self.shortcut(x) + self.second(functional.silu(self.norms[1](h)))
        if self.heads:
            flat = self.norms[2](x).flatten(2).transpose(1, 2)
            parts = self.qkv(flat).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(*parts.unbind(0)).transpose(1, 2).flatten(2)
            x = x + self.out(seen).transpose(1, 2).view_as(x)
        return x


class UNet(nn.Module):
    """Of a diffusion model, small: three resolutions, attention in the lower two."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        w = [width, 2 * width, 4 * width]
        self.time, self.enter, self.leave = nn.Linear(64, 256), nn.Conv2d(4, w[0], 3, 1, 1), nn.Conv2d(w[0], 4, 3, 1, 1)
        self.down = nn.ModuleList([Block(w[0], w[0], 0), Block(w[0], w[1], 8), Block(w[1], w[2], 8)])
        self.smaller = nn.ModuleList([nn.Conv2d(c, c, 3, stride=2, padding=1) for c in w[:2]])
        self.up = nn.ModuleList([Block(2 * w[2], w[1], 8), Block(2 * w[1], w[0], 8), Block(2 * w[0], w[0], 0)])

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        time = functional.silu(self.time(time))
        x, kept = self.enter(x), []
        for index, block in enumerate(self.down):
            x = block(x, time)
            kept.append(x)
            if index < len(self.smaller):
                x = self.smaller[index](x)
        for block in self.up:
            other = kept.pop()
            if x.shape[-1] != other.shape[-1]:
                x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, other], 1), time)
        left: torch.Tensor = self.leave(x)
        return left


def denoised(model: nn.Module, noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(model(noisy, time), noisy)


class Adapted(nn.Module):
    """A linear layer, frozen, and its LoRA adapter; peft moves its own in a way that fake tensors do not allow."""

    def __init__(self, base: nn.Linear, rank: int = 16) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.base(x) + self.up(self.down(x.float())).to(x.dtype)
        return made


def lora(phase: Phase) -> Step:
    model = llama().requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and name.endswith("_proj"):
                setattr(module, name, Adapted(child))
    return Step(phase, model, [ids(size(4, 1), size(1024, 64))], with_loss, fused)


def _noise() -> list[torch.Tensor]:
    batch = size(48, 1)
    return [torch.randn(batch, 4, size(64, 16), size(64, 16)), torch.randn(batch, 64)]


WORKLOADS: dict[str, Callable[[Phase], Step]] = {
    "bert-train-fused": bert_training,
    "bert-train-foreach-clip": lambda phase: bert_training(phase, make=foreach, clip=True),
    "bert-train-autocast": lambda phase: bert_training(phase, autocast=torch.bfloat16),
    "bert-train-accumulation": lambda phase: bert_training(phase, accumulate=4),
    "bert-train-checkpointing": lambda phase: bert_training(phase, checkpointing=True),
    "bert-inference": lambda phase: Step(phase, bert(), [ids(size(64, 2), size(512, 64))], logits),
    "gpt2-train": lambda phase: Step(phase, gpt2(), [ids(size(8, 1), size(1024, 64))], with_loss, fused),
    "gpt2-inference": lambda phase: Step(phase, gpt2(), [ids(size(16, 1), size(1024, 64))], logits),
    "gpt2-generate": lambda phase: Step(phase, gpt2(), [ids(size(64, 2), size(512, 64))], generate(size(32, 4))),
    "llama-generate-bfloat16": lambda phase: Step(
        phase, llama(), [ids(size(32, 1), size(1024, 64))], generate(size(16, 4))
    ),
    "llama-lora-train-bfloat16": lora,
    "t5-train-foreach-clip": t5,
    "whisper-train": whisper,
    "vit-train": lambda phase: Step(phase, vit(), images(size(64, 1)), classified, fused),
    "resnet50-train-sgd": lambda phase: Step(
        phase, torchvision_model("resnet50"), images(size(96, 1)), classified, sgd
    ),
    "resnet50-inference": lambda phase: Step(
        phase, torchvision_model("resnet50"), images(size(256, 1))[:1], lambda model, x: model(x)
    ),
    "convnext-train": lambda phase: Step(
        phase, torchvision_model("convnext_tiny"), images(size(64, 1)), classified, foreach
    ),
    "unet-train": lambda phase: Step(phase, UNet(size(128, 32)), _noise(), denoised, fused),
    "lstm-train-sgd": lambda phase: Step(
        phase, Cells(size(1024, 64), size(10000, 100)), [ids(size(128, 2), size(64, 8), 100)],
        lambda model, tokens: model(tokens), sgd,
    ),
    "experts-train": lambda phase: Step(
        phase, Mixture(size(512, 32), size(6, 2)), [ids(size(32, 2), size(512, 32))],
        lambda model, tokens: model(tokens), fused,
    ),
}  # fmt: skip
