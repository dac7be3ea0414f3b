"""The catalog as data: every workload that was promised, published sizes, nothing heavy imported."""

from __future__ import annotations

import json
import subprocess
import sys

from mpsprobe.declarations import resolve
from mpsprobe_hf.catalog import entries
from mpsprobe_hf.plugin import mpsprobe_workloads
from mpsprobe_hf.transformers.workload import named

PUBLISHED = {
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "distilbert": 66_362_880,
    "roberta-base": 124_645_632,
    "albert-base": 11_683_584,
    "deberta-v3-base": 183_831_552,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "t5-small": 60_506_624,
    "flan-t5-base": 247_577_856,
    "bart-base": 139_420_416,
    "pegasus": 569_748_480,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "qwen2.5-7b": 7_615_616_512,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "gemma-2-9b": 9_241_705_984,
    "phi-3": 3_821_079_552,
    # 671,026,419,200 with the 58 x 256 correction biases of its routers, which transformers keeps as buffers.
    "deepseek-v3": 671_026_419_200 - 58 * 256,
    "mamba": 129_135_360,
    "rwkv": 169_342_464,
    "vit-base": 86_567_656,
    "deit": 87_338_192,
    "swin": 28_288_354,
    "convnext": 28_589_128,
    "resnet50": 25_557_032,
    "detr": 41_524_768,
    "segformer": 3_752_694,
    "clip": 151_277_313,
    "siglip": 203_155_970,
    "llava": 7_063_427_072,
    "blip-2": 3_744_761_856,
    "whisper-tiny": 37_760_640,
    "whisper-large-v3": 1_543_490_560,
    "wav2vec2-base": 94_396_320,
    "hubert": 94_371_712,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "gemma-3-1b": 999_885_952,
    "gemma-3-4b": 4_300_079_472,
    "gpt-oss-20b": 20_914_757_184,
    "phi-4": 14_659_507_200,
    "phi-4-mini": 3_836_021_760,
    "smollm3-3b": 3_075_098_624,
    "mistral-small-3.1-24b": 24_011_361_280,
    # Without the layer that predicts a further token, which transformers leaves out; with correction biases.
    "glm-4.5-air": 106_852_251_264 - 45 * 128,
    # Likewise: that layer has 20,452,864 parameters.
    "qwen3.5-0.8b": 873_438_784 - 20_452_864,
    "qwen2.5-vl-3b": 3_754_622_976,
    "qwen3-vl-4b": 4_437_815_808,
    "smolvlm": 2_246_272_880,
    "lfm2-vl-450m": 450_822_656,
    "modernbert-base": 149_655_232 - 640_960,  # without the head for masked tokens
    "all-minilm-l6-v2": 22_713_216,
    "bge-m3": 567_754_752,
    "embeddinggemma-300m": 302_863_104,
    "dinov2-base": 86_580_480,
    "depth-anything-v2-small": 24_785_089,
    "sam2-tiny": 38_962_498 - 7_521_777,  # without what remembers the frames of a video
    "siglip2-base": 375_187_970,
    "whisper-large-v3-turbo": 808_878_080,
    "moonshine-base": 61_513_920,
}
"""As the model cards, papers or the checkpoints' own safetensors headers have them."""

# Promised too, with sizes that nobody published.
OTHERS = """
electra-small xlm-roberta-base multilingual-e5-small nomic-embed-text-v1.5 all-mpnet-base-v2 bge-small-en
bge-reranker-v2-m3 qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-14b qwen3-1.7b qwen3-4b qwen3-14b qwen3-next-80b-a3b
qwen3-embedding-0.6b deepseek-r1-distill-qwen-1.5b deepseek-r1-distill-qwen-7b deepseek-r1-distill-llama-8b
tinyllama-1.1b llama-3.1-8b orpheus-3b smollm2-135m smollm2-360m smollm2-1.7b gemma-3-270m mistral-7b-v0.3
mistral-nemo-12b mistral-small-24b ministral-8b glm-4-9b granite-3.3-2b granite-4.0-h-tiny olmo-2-1b olmo-2-7b olmo-3-7b
lfm2-350m lfm2-1.2b
mask2former sam dinov2-small dinov3-small dinov3-base rt-detr grounding-dino-tiny clip-vit-large siglip2-base-naflex
smolvlm2-500m granite-docling-258m internvl3-1b ministral-3-8b florence-2-base qwen2.5-vl-7b qwen3-vl-2b qwen3-vl-8b
qwen3.5-4b
whisper-base whisper-small whisper-medium distil-large-v3 moonshine-tiny bark speecht5 musicgen parakeet-ctc-1.1b
mms-tts csm-1b dia-1.6b voxtral-mini-3b
time-series-transformer informer autoformer patchtst patchtsmixer timesfm tapas
"""

HEAVY = ("torch", "transformers", "pydantic", "numpy")


def test_every_promised_workload_is_there_with_its_size() -> None:
    assert sorted([*PUBLISHED, *OTHERS.split()]) == sorted(entries())
    assert {name: entries()[name].inference.parameters for name in PUBLISHED} == PUBLISHED


def test_declarations_are_valid() -> None:
    declarations = [one for one in mpsprobe_workloads() if ".transformers." in one.target]
    assert [one.name for one in declarations] == list(entries())
    for one in declarations:
        assert callable(resolve(one.target))
        assert one.summary and len(one.summary) <= 80
        assert one.family in {"text", "vision", "audio", "multimodal", "series", "table"}
        assert set(one.phases) <= {"inference", "training"}


def test_descriptions_are_plain_data() -> None:
    for name, entry in entries().items():
        facts = json.loads(json.dumps(named(name).describe()))
        assert facts["parameters"] == entry.inference.parameters > 0, name
        assert facts["architecture"] == entry.inference.model_class, name
        assert ("training" in facts) == (entry.training is not None), name
        assert facts["batch_size"] >= 1 and facts["inputs"]["derived"], name


def test_listing_imports_nothing_heavy() -> None:
    script = (
        "import sys, mpsprobe_hf.plugin as p; list(p.mpsprobe_workloads());"
        "p.mpsprobe_resolve_workload('org/name'); p.mpsprobe_resolve_workload('hf:bert');"
        "from mpsprobe_hf.transformers.workload import named; named('bert-base').describe();"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
