"""The model of time on an NVIDIA GPU, where all can be measured: fitted to single operators, checked on twenty steps.

    python benchmarks/times_cuda.py record -o .carry/time/calls.json   # here: what each program calls, on meta tensors
    python times_cuda.py measure -o measured.json                      # there: torch, transformers, nothing of mpsprobe
    python benchmarks/times_cuda.py check calls.json measured.json [--write fitted.toml]

Programs of a few operators are fitted by ``fit_times.fitted``, to the same form of data as for Apple's chips; the
workloads are only predicted. Everything runs eagerly, float32 without TF32. A time is the median of CUDA events around
one step each, after warm-up. The GPU sleeps before an operator, so that its launch is not in its time. What launching
takes is fitted to programs of many narrow layers; these and the steps are timed in turn ten times, and the least of the
medians counts, since other work on a shared host only adds to it. Of a step are forward, backward and a fused AdamW;
attention is recorded as one call.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

Step = Callable[[], object]
Make = Callable[[str, torch.dtype], Step]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WARM_UP, ROUNDS, FEW_S, TURNS = 5, 15, 1.5, 10
SLEEP = 10_000_000  # cycles of the GPU, some 5 ms: longer than launching any program of one operator takes
READ = "_local_scalar_dense"
CARDS = {"H100": (132, 3350.0), "H200": (132, 4800.0)}  # multiprocessors, GB/s of the SXM5 cards


def tensors(*shapes: Sequence[int], device: str, dtype: torch.dtype, grad: bool = False) -> list[Tensor]:
    return [torch.randn(*shape, device=device, dtype=dtype, requires_grad=grad) for shape in shapes]


def operators() -> Iterator[tuple[str, Make]]:
    """Programs of one operator, or of it and its derivative."""

    def called(name: str, function: Callable[..., Any], *shapes: Sequence[int], grad: bool = False) -> tuple[str, Make]:
        def make(device: str, dtype: torch.dtype) -> Step:
            inputs = tensors(*shapes, device=device, dtype=dtype, grad=grad)

            def step() -> None:
                result = function(*inputs)
                if grad:
                    torch.autograd.grad(result, inputs, torch.ones_like(result))

            return step

        return f"{name} {' '.join('x'.join(map(str, shape)) for shape in shapes)}{' grad' * grad}", make

    for rows, k, n in (
        (512, 768, 768), (1024, 1024, 1024), (2048, 768, 3072), (2048, 3072, 768), (4096, 1024, 4096),
        (4096, 4096, 4096), (8192, 2048, 2048), (1024, 2048, 16384), (8192, 8192, 8192), (2048, 768, 50257),
    ):  # fmt: skip
        yield called("linear", functional.linear, (rows, k), (n, k), (n,))
        yield called("linear", functional.linear, (rows, k), (n, k), (n,), grad=True)
    for batch, m, k, n in ((96, 512, 64, 512), (192, 128, 128, 64), (16, 2048, 2048, 64)):
        yield called("bmm", torch.bmm, (batch, m, k), (batch, k, n))
    for batch, c, size, out, window in (
        (32, 64, 56, 64, 3), (32, 256, 56, 64, 1), (32, 128, 28, 128, 3), (32, 512, 28, 128, 1), (32, 256, 14, 1024, 1),
        (32, 256, 14, 256, 3), (32, 512, 7, 512, 3), (32, 2048, 7, 512, 1), (64, 64, 56, 256, 1), (32, 3, 224, 64, 7),
    ):  # fmt: skip
        stride, padding = (2, 3) if window == 7 else (1, window // 2)

        def convolve(x: Tensor, weight: Tensor, stride: int = stride, padding: int = padding) -> Tensor:
            return functional.conv2d(x, weight, stride=stride, padding=padding)

        for grad in (False, True):
            yield called("conv2d", convolve, (batch, c, size, size), (out, c, window, window), grad=grad)
    for shape in ((16, 12, 128, 64), (8, 12, 512, 64), (4, 16, 1024, 64), (2, 16, 2048, 128), (16, 12, 197, 64)):
        for grad in (False, True):
            yield called("attention", functional.scaled_dot_product_attention, *[shape] * 3, grad=grad)
    for rows, width in ((2048, 768), (8192, 1024), (32768, 1024)):
        weights = (width,), (width,)

        def normalise(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            return functional.layer_norm(x, weight.shape, weight, bias)

        for grad in (False, True):
            yield called("layer_norm", normalise, (rows, width), *weights, grad=grad)
            yield called("softmax", lambda x: x.softmax(-1), (rows, width), grad=grad)
            yield called("gelu", functional.gelu, (rows, width * 4), grad=grad)
        yield called("add", torch.add, (rows, width), (rows, width))
        yield called("mul", lambda x: x * 2, (rows, width * 4))
        yield called("mean", lambda x: x.pow(2).mean(-1, keepdim=True), (rows, width))
        yield called("sum", lambda x: x.sum(0), (rows, width))
        yield called("transposed", lambda x: x.view(-1, 16, 64).transpose(0, 1).contiguous(), (rows, 1024))
        yield called("cat", lambda x, y: torch.cat((x, y), -1), (rows, width), (rows, width))
        yield called("cast", lambda x: x.double() if x.dtype is torch.float64 else x.to(torch.float16), (rows, width))
        yield called("dropout", lambda x: functional.dropout(x, 0.1), (rows, width), grad=True)
        yield called("log_softmax", lambda x: functional.log_softmax(x, -1), (rows // 4, 30522), grad=True)
    for shape in ((32, 64, 112, 112), (32, 256, 56, 56), (32, 1024, 14, 14)):
        channels = (shape[1],), (shape[1],)

        def batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            return functional.batch_norm(x, None, None, weight, bias, training=True)

        yield called("batch_norm", batch_norm, shape, *channels)
        yield called("batch_norm", batch_norm, shape, *channels, grad=True)
        yield called("relu", torch.relu, shape, grad=True)
        yield called("max_pool2d", lambda x: functional.max_pool2d(x, 3, 2, 1), shape, grad=True)
    for rows, width in ((30522, 768), (50257, 1024)):
        yield (
            f"embedding {rows}x{width}",
            lambda device, dtype, rows=rows, width=width: embedded(rows, width, device, dtype),
        )
    for count in (8_000_000, 100_000_000):
        yield f"adamw {count}", lambda device, dtype, count=count: optimised(count, device, dtype)


def launches() -> Iterator[tuple[str, Make]]:
    """Layers so narrow that launching their kernels is what takes time: bare ones, and those of four architectures of
    transformers, whose Python takes about as long as launching does.
    """
    import transformers as hf

    text: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 12, "num_attention_heads": 4, "vocab_size": 99}
    image: dict[str, Any] = {**text, "intermediate_size": 128, "image_size": 32, "num_labels": 9}
    opt = hf.OPTConfig(**text, ffn_dim=128, word_embed_proj_dim=64)
    distilled = hf.DistilBertConfig(vocab_size=99, dim=64, hidden_dim=128, n_layers=12, n_heads=4)
    regular = hf.RegNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[3, 3, 6, 3], groups_width=8, num_labels=9
    )
    narrow = (
        ("opt", hf.OPTForCausalLM, opt, tokens(2, 16)),
        ("distilbert", hf.DistilBertForMaskedLM, distilled, tokens(2, 16)),
        ("deit", hf.DeiTForImageClassification, hf.DeiTConfig(**image), images(2, 32)),
        ("regnet", hf.RegNetForImageClassification, regular, images(2, 32)),
    )
    for training in (False, True):
        for layers in (4, 12, 24):
            yield f"{layers} layers{' training' * training}", partial(small, layers, training)
        for name, kind, config, x in narrow:
            yield f"{name}{' training' * training}", partial(made, kind, config, x, training)


def tokens(*size: int) -> Tensor:
    return torch.zeros(size, dtype=torch.int64)


def images(count: int, side: int) -> Tensor:
    return torch.zeros(count, 3, side, side)


def embedded(rows: int, width: int, device: str, dtype: torch.dtype) -> Step:
    weight = tensors((rows, width), device=device, dtype=dtype, grad=True)[0]
    index = torch.zeros(4096, dtype=torch.int64, device=device) if device == "meta" else torch.arange(4096).to(device)

    def step() -> None:
        out = functional.embedding(index, weight)
        torch.autograd.grad(out, weight, torch.ones_like(out))

    return step


def optimised(count: int, device: str, dtype: torch.dtype) -> Step:
    weights = tensors(*[(count // 64,)] * 64, device=device, dtype=dtype, grad=True)
    for one in weights:
        one.grad = torch.zeros_like(one)
    return stepped(weights, device)


def small(layers: int, training: bool, device: str, dtype: torch.dtype) -> Step:
    """Layers as Transformers have them."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)
            self.query, self.key, self.value = (nn.Linear(64, 64) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            y = self.norm(x)
            q, k, v = (part(y).view(2, 16, 4, 16).transpose(1, 2) for part in (self.query, self.key, self.value))
            y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 16, 64)
            return x + self.down(functional.gelu(self.up(x + y)))

    model = nn.Sequential(*(Block() for _ in range(layers))).to(device, dtype)
    x = tensors((2, 16, 64), device=device, dtype=dtype)[0]
    return of_model(model, lambda: model(x), lambda out: out.float().pow(2).mean(), training, device)


def workloads() -> Iterator[tuple[str, Make]]:
    """Twenty steps: five models, both phases, float32 and bfloat16 (the caller's)."""
    import transformers as hf

    decoder = {"vocab_size": 32000, "hidden_size": 1536, "intermediate_size": 4096, "num_hidden_layers": 16,
               "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 2048}  # fmt: skip
    models = (
        ("bert-base 16x128", hf.BertForMaskedLM, hf.BertConfig(), tokens(16, 128)),
        ("gpt2 4x512", hf.GPT2LMHeadModel, hf.GPT2Config(), tokens(4, 512)),
        ("llama-0.6b 1x1024", hf.LlamaForCausalLM, hf.LlamaConfig(**decoder), tokens(1, 1024)),
        ("vit-base 16", hf.ViTForImageClassification, hf.ViTConfig(num_labels=1000), images(16, 224)),
        ("resnet50 32", hf.ResNetForImageClassification, hf.ResNetConfig(num_labels=1000), images(32, 224)),
    )
    for training in (False, True):
        for name, kind, config, x in models:
            yield f"{name} {'training' if training else 'inference'}", partial(made, kind, config, x, training)


def made(kind: Any, config: Any, x: Tensor, training: bool, device: str, dtype: torch.dtype) -> Step:
    config = deepcopy(config)
    config.use_cache = False
    with torch.device(device):
        model = kind(config).to(dtype)
    name = "pixel_values" if x.is_floating_point() else "input_ids"
    x = x.to(device, dtype if x.is_floating_point() else x.dtype)
    labels = torch.zeros(x.shape[:1] if x.is_floating_point() else x.shape, dtype=torch.int64, device=device)

    def loss(out: Any) -> Tensor:
        return functional.cross_entropy(out.logits.reshape(-1, out.logits.shape[-1]).float(), labels.reshape(-1))

    return of_model(model, lambda: model(**{name: x}), loss, training, device)


def of_model(
    model: nn.Module, forward: Callable[[], Any], loss: Callable[[Any], Tensor], training: bool, device: str
) -> Step:
    model.train(training)
    update = stepped(list(model.parameters()), device) if training else None

    def step() -> None:
        with torch.set_grad_enabled(training):
            out = forward()
        if update is not None:
            loss(out).backward()
            update()
            model.zero_grad()

    return step


def stepped(weights: list[Tensor], device: str) -> Step:
    if device != "meta":
        return torch.optim.AdamW(weights, fused=True).step

    def step() -> None:
        LOG.append(("aten::_fused_adamw_", weights * 4, []))
        LOG.extend(("aten::detach", [weight], [weight]) for weight in weights)  # each parameter takes the CPU's time

    return step


LOG: list[tuple[str, list[Tensor], list[Tensor]]] = []


class Recorder(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # A value that is read is taken to be true: what Transformers ask of masks that are not there
        result = True if func.__name__.startswith(READ) else func(*args, **(kwargs or {}))
        given, returned = ([one for one in _flat(part) if isinstance(one, Tensor)] for part in (args, result))
        LOG.append((f"{func.namespace}::{func.__name__}", given, returned))
        return result


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _flat(one)
    else:
        yield value


class Attention(torch.autograd.Function):
    """One call forward and one backward, as the fused kernels of CUDA are."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out = query.new_empty(*query.shape[:-1], value.shape[-1])
        ctx.saved = query, key, value
        LOG.append(("aten::scaled_dot_product_attention", [query, key, value], [out]))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        gradients = tuple(torch.empty_like(one) for one in ctx.saved)
        LOG.append(("aten::attention_backward", [*ctx.saved, grad, grad], list(gradients)))
        return gradients


def record(into: Path) -> None:
    functional.scaled_dot_product_attention = lambda q, k, v, *_, **__: Attention.apply(q, k, v)
    found: dict[str, Any] = {}
    for name, make in programs():
        for dtype in DTYPES:
            step = make("meta", DTYPES[dtype])
            LOG.clear()
            with Recorder():
                step()
            counted: dict[str, int] = {}
            for operator, *parts in LOG:
                specs = [[[list(one.shape), list(one.stride()), str(one.dtype)[6:]] for one in part] for part in parts]
                key = json.dumps([operator, *specs])
                counted[key] = counted.get(key, 0) + 1
            found[f"{name} {dtype}"] = [[*json.loads(key), number] for key, number in counted.items()]
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_text(json.dumps(found), encoding="utf-8")


def programs() -> Iterator[tuple[str, Make]]:
    for name, make in operators():
        yield f"operator {name}", make
    for name, make in launches():
        yield f"launches {name}", make
    for name, make in workloads():
        yield f"step {name}", make


def measure(into: Path) -> None:
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    found: dict[str, Any] = {"machine": torch.cuda.get_device_name(), "torch": torch.__version__, "medians": {}}
    every = [*programs()]
    for name, make in every + [one for one in every if not one[0].startswith("operator")] * (TURNS - 1):
        for dtype in DTYPES:
            step = make("cuda", DTYPES[dtype])
            for _ in range(WARM_UP):
                step()
            taken: list[float] = []
            while len(taken) < ROUNDS and sum(taken) < FEW_S * 1e3:
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda.synchronize()
                if name.startswith("operator"):
                    torch.cuda._sleep(SLEEP)
                begin.record()
                step()
                end.record()
                torch.cuda.synchronize()
                taken.append(begin.elapsed_time(end))
            found["medians"].setdefault(f"{name} {dtype}", []).append(statistics.median(taken))
            del step
        torch.cuda.empty_cache()
        found["ms"] = {each: min(medians) for each, medians in found["medians"].items()}
        into.write_text(json.dumps(found, indent=1), encoding="utf-8")


def check(calls_file: Path, measured_file: Path, write: Path | None) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    import fit_times

    from mpsprobe_coverage.knowledge.calls.spec import interned
    from mpsprobe_coverage.knowledge.chips.store import Chip
    from mpsprobe_coverage.knowledge.times import costs, model

    measured = json.loads(measured_file.read_text(encoding="utf-8"))
    cores, bandwidth = next(card for name, card in CARDS.items() if name in measured["machine"])
    chip = Chip("m1-cuda", 7, (cores,), (bandwidth,), (), "hardware", None, ())

    def called(operator: str, given: Any, returned: Any, number: int) -> model.Call:
        inputs, outputs = (
            tuple(interned(tuple(shape), tuple(stride), getattr(torch, dtype)) for shape, stride, dtype in part)
            for part in (given, returned)
        )
        if operator == "aten::attention_backward":
            one = costs.cost("aten::scaled_dot_product_attention", inputs[:3], outputs[:1])
            one = one._replace(kind="attention_backward", flops=2.5 * one.flops, nbytes=3 * one.nbytes)
        else:
            one = costs.cost(operator, inputs, outputs)
        if one.kind != costs.HOST and one.dtype == "bfloat16":
            unaligned = one.flops and any(tensor.shape and tensor.shape[-1] % 8 for tensor in (*inputs, *outputs))
            if one.kind.startswith("convolution"):
                unaligned = any(len(tensor.shape) == 4 and tensor.shape[1] % 8 for tensor in inputs)
            one = one._replace(kind=f"{one.kind}_half{'_unaligned' * bool(unaligned)}")  # no tensor cores
        return model.Call(one, number, waits=READ in operator)

    class Operator(fit_times.Figure):
        """The GPU's time alone."""

        def predicted(self, known: Any) -> float:
            host = {**known["host"], "launch_us": 0.0, "view_us": 0.0, "sync_us": 0.0}
            return super().predicted({**known, "host": host})

    figures = []
    for name, calls in json.loads(calls_file.read_text(encoding="utf-8")).items():
        ms = measured["ms"].get(name)
        if ms is not None:
            each = [called(*one) for one in calls]
            if "training" in name:  # autograd keeps a node for every call, which takes the CPU about as much as a view
                nodes = sum(one.calls for one in each if one.cost.kind != costs.HOST)
                each.append(model.Call(costs.Cost(costs.HOST, 0.0, 0.0, "float32", 0), nodes))
            of = fit_times.merged(each)
            kind = Operator if name.startswith("operator") else fit_times.Figure
            figures.append(kind(name, chip, cores, "2.11.0", of, ms, name.startswith("launches"), "measured"))
    kinds = sorted({one.cost.kind for figure in figures for one in figure.calls if one.cost.kind != costs.HOST})
    with_flops = sorted({one.cost.kind for figure in figures for one in figure.calls if one.cost.flops})
    begin: dict[str, Any] = {
        "rate": {"m1": 350.0},
        "bfloat16": {"m1": 12.0},
        "arithmetic": {"all": {kind: 0.6 for kind in with_flops if kind != "matmul"}, "early": {}},
        "bandwidth": {"early": dict.fromkeys({*kinds, "elementwise"}, 0.6)},
        "before": {},
        "fixed": {},
        "host": {"launch_us": 6.0, "view_us": 1.5, "kernel_us": 3.0, "sync_us": 5.0, "each_generation": 1.0},
        "channels_last": {"gb_per_s": 1.0, "since": "2.11.0", "before": "2.11.0"},  # never: CUDA has kernels for it
        "cpu": {"gb_per_s": 25.0, "gflops": 300.0},
    }
    own = [one for one in figures if not one.name.startswith("step")]
    steps = [one for one in figures if one.name.startswith("step")]
    known = fit_times.rounded(fit_times.fitted(own, begin, pulled_to=begin))
    if write is not None:
        write.write_text(fit_times.written(known), encoding="utf-8")
    for one in [*own, *steps]:
        made_ms = one.predicted(known)
        fit_times.say(f"{one.name:64} {one.ms:9.3f} ms, predicted {made_ms:9.3f}: {made_ms / one.ms:.2f}")
    fit_times.say(f"{measured['machine']}, torch {measured['torch']}")
    fit_times.say(fit_times.summary("fitted operators and launches", [fit_times.factor(one, known) for one in own]))
    fit_times.say(fit_times.summary("predicted steps", [fit_times.factor(one, known) for one in steps]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("record", "measure", "check"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("-o", type=Path)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    if given.what == "check":
        check(*given.files, given.write)
    else:
        {"record": record, "measure": measure}[given.what](given.o)


if __name__ == "__main__":
    main()
