"""Language models of the years since 2023: one row each, its sizes in the order of ``SIZES``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mpsprobe_hf.catalog.decoders import decoder
from mpsprobe_hf.catalog.entry import Entry

SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "max_position_embeddings",
)


def row(
    name: str,
    checkpoint: str,
    parameters: int,
    sizes: tuple[int, ...],
    *,
    model_class: str,
    model_type: str,
    pad: int,
    theta: float = 0.0,
    configuration: str = "",
    **config: Any,
) -> Entry:
    """A decoder, with a summary from its sizes.

    Args:
        name: what the user types.
        checkpoint: the published model.
        parameters: head included, each shared one counted once.
        sizes: in the order of ``SIZES``.
        model_class, model_type, pad, configuration: as ``decoder`` takes them.
        theta: of the rotary embedding; 0 where ``config`` or the class says it.
        config: the rest of the configuration.
    """
    config = {**dict(zip(SIZES, sizes, strict=True)), **config}
    if theta:
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
    experts = config.get("num_local_experts") or config.get("num_experts") or config.get("n_routed_experts")
    routed = f", {config['num_experts_per_tok']} of {experts} experts a token" if experts else ""
    return decoder(
        model_class,
        config,
        name=name,
        checkpoint=checkpoint,
        model_type=model_type,
        configuration=configuration,
        parameters=parameters,
        pad=pad,
        longest=config["max_position_embeddings"],
        summary=f"{checkpoint.partition('/')[2]}: decoder of {config['num_hidden_layers']} layers{routed}",
    )


def family(**shared: Any) -> Callable[..., Entry]:
    """``row`` with what is the same in each of a family."""
    return partial(row, **shared)


TIED: dict[str, Any] = {"tie_word_embeddings": True}
EPS_5: dict[str, Any] = {"rms_norm_eps": 1e-5}
QWEN: dict[str, Any] = {"pad": 151643, "theta": 1e6}
QWEN3_MOE: dict[str, Any] = {"num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True}
LLAMA: dict[str, Any] = {"model_class": "LlamaForCausalLM", "model_type": "llama", **EPS_5}
LLAMA_3_2: dict[str, Any] = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LLAMA_3_1: dict[str, Any] = {**LLAMA_3_2, "factor": 8.0}
GRANITE: dict[str, Any] = {
    "embedding_multiplier": 12.0,
    "attention_multiplier": 0.015625,
    "residual_multiplier": 0.22,
    "logits_scaling": 8.0,
}
# Of the rotary embedding of Phi-4 mini for texts of more than 4096 tokens.
LONG_FACTORS = [
    *(1.0, 1.118320672, 1.250641126, 1.398617824, 1.564103225, 1.74916897, 1.956131817, 2.187582649, 2.446418898),
    *(2.735880826, 3.059592084, 3.421605075, 3.826451687, 4.279200023, 4.785517845, 5.351743533, 5.984965424),
    *(6.693110555, 7.485043894, 8.370679318, 9.36110372, 10.4687158, 11.70738129, 13.09260651, 14.64173252),
    *(16.37415215, 18.31155283, 20.47818807, 22.90118105, 25.61086418, 28.64115884, 32.03, 32.1, 32.13, 32.23),
    *(32.6, 32.61, 32.64, 32.66, 32.7, 32.71, 32.93, 32.97, 33.28, 33.49, 33.5, 44.16, 47.77),
]
LFM2_ATTENTION = [2, 5, 8, 10, 12, 14]
"""Layers with attention; the others are short convolutions."""

qwen2 = family(model_class="Qwen2ForCausalLM", model_type="qwen2", **QWEN)
qwen3 = family(model_class="Qwen3ForCausalLM", model_type="qwen3", head_dim=128, **QWEN)
qwen3_moe = family(model_class="Qwen3MoeForCausalLM", model_type="qwen3_moe", head_dim=128, **QWEN3_MOE, **QWEN)
llama = family(**LLAMA)
llama3 = family(**LLAMA, pad=128001)
smollm2 = family(**LLAMA, pad=2, **TIED)
gemma3 = family(
    model_class="Gemma3ForCausalLM",
    model_type="gemma3",
    configuration="Gemma3TextConfig",
    pad=0,
    head_dim=256,
    query_pre_attn_scalar=256,
    sliding_window=512,
)
mistral = family(
    model_class="MistralForCausalLM", model_type="mistral", pad=11, head_dim=128, sliding_window=None, **EPS_5
)
phi3 = family(model_class="Phi3ForCausalLM", model_type="phi3", sliding_window=None)
olmo2 = family(model_class="Olmo2ForCausalLM", model_type="olmo2", pad=100277, rms_norm_eps=1e-6)
granite = family(model_class="GraniteForCausalLM", model_type="granite", pad=0, **GRANITE, **EPS_5, **TIED)
lfm2 = family(model_class="Lfm2ForCausalLM", model_type="lfm2", pad=0, full_attn_idxs=LFM2_ATTENTION, theta=1e6)

ENTRIES = (
    qwen2("qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B", 494_032_768, (151936, 896, 24, 14, 2, 4864, 32768), **TIED),
    qwen2("qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B", 1_543_714_304, (151936, 1536, 28, 12, 2, 8960, 131072), **TIED),
    qwen2("qwen2.5-3b", "Qwen/Qwen2.5-3B", 3_085_938_688, (151936, 2048, 36, 16, 2, 11008, 32768), **TIED),
    qwen2("qwen2.5-14b", "Qwen/Qwen2.5-14B", 14_770_033_664, (152064, 5120, 48, 40, 8, 13824, 131072), **EPS_5),
    qwen2(
        "deepseek-r1-distill-qwen-1.5b",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
        1_777_088_000,
        (151936, 1536, 28, 12, 2, 8960, 131072),
        theta=1e4,
    ),
    qwen2(
        "deepseek-r1-distill-qwen-7b",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
        7_615_616_512,
        (152064, 3584, 28, 28, 4, 18944, 131072),
        theta=1e4,
    ),
    qwen3("qwen3-0.6b", "Qwen/Qwen3-0.6B", 596_049_920, (151936, 1024, 28, 16, 8, 3072, 40960), **TIED),
    qwen3("qwen3-1.7b", "Qwen/Qwen3-1.7B", 1_720_574_976, (151936, 2048, 28, 16, 8, 6144, 40960), **TIED),
    qwen3("qwen3-4b", "Qwen/Qwen3-4B", 4_022_468_096, (151936, 2560, 36, 32, 8, 9728, 40960), **TIED),
    qwen3("qwen3-8b", "Qwen/Qwen3-8B", 8_190_735_360, (151936, 4096, 36, 32, 8, 12288, 40960)),
    qwen3("qwen3-14b", "Qwen/Qwen3-14B", 14_768_307_200, (151936, 5120, 40, 40, 8, 17408, 40960)),
    qwen3_moe(
        "qwen3-30b-a3b",
        "Qwen/Qwen3-30B-A3B",
        30_532_122_624,
        (151936, 2048, 48, 32, 4, 6144, 40960),
        moe_intermediate_size=768,
    ),
    row(
        "qwen3-next-80b-a3b",
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        79_674_391_296,
        (151936, 2048, 48, 16, 2, 5120, 262144),
        model_class="Qwen3NextForCausalLM",
        model_type="qwen3_next",
        pad=151643,
        num_experts=512,
        num_experts_per_tok=10,
        rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
    ),
    llama(
        "tinyllama-1.1b",
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        1_100_048_384,
        (32000, 2048, 22, 32, 4, 5632, 2048),
        pad=2,
        theta=1e4,
    ),
    smollm2("smollm2-135m", "HuggingFaceTB/SmolLM2-135M", 134_515_008, (49152, 576, 30, 9, 3, 1536, 8192), theta=1e5),
    smollm2("smollm2-360m", "HuggingFaceTB/SmolLM2-360M", 361_821_120, (49152, 960, 32, 15, 5, 2560, 8192), theta=1e5),
    smollm2(
        "smollm2-1.7b", "HuggingFaceTB/SmolLM2-1.7B", 1_711_376_384, (49152, 2048, 24, 32, 32, 8192, 8192), theta=1.3e5
    ),
    row(
        "smollm3-3b",
        "HuggingFaceTB/SmolLM3-3B",
        3_075_098_624,
        (128256, 2048, 36, 16, 4, 11008, 65536),
        model_class="SmolLM3ForCausalLM",
        model_type="smollm3",
        pad=128004,
        theta=5e6,
    ),
    llama3(
        "llama-3.1-8b",
        "meta-llama/Llama-3.1-8B",
        8_030_261_248,
        (128256, 4096, 32, 32, 8, 14336, 131072),
        rope_parameters=LLAMA_3_1,
    ),
    llama3(
        "llama-3.2-1b",
        "meta-llama/Llama-3.2-1B",
        1_235_814_400,
        (128256, 2048, 16, 32, 8, 8192, 131072),
        rope_parameters=LLAMA_3_2,
        **TIED,
    ),
    llama3(
        "llama-3.2-3b",
        "meta-llama/Llama-3.2-3B",
        3_212_749_824,
        (128256, 3072, 28, 24, 8, 8192, 131072),
        rope_parameters=LLAMA_3_2,
        **TIED,
    ),
    llama3(
        "deepseek-r1-distill-llama-8b",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
        8_030_261_248,
        (128256, 4096, 32, 32, 8, 14336, 131072),
        rope_parameters=LLAMA_3_1,
    ),
    gemma3("gemma-3-270m", "google/gemma-3-270m", 268_098_176, (262144, 640, 18, 4, 1, 2048, 32768)),
    gemma3("gemma-3-1b", "google/gemma-3-1b-pt", 999_885_952, (262144, 1152, 26, 4, 1, 6912, 32768)),
    row(
        "gpt-oss-20b",
        "openai/gpt-oss-20b",
        20_914_757_184,
        (201088, 2880, 24, 64, 8, 2880, 131072),
        model_class="GptOssForCausalLM",
        model_type="gpt_oss",
        pad=199999,
        head_dim=64,
        sliding_window=128,
        num_local_experts=32,
        num_experts_per_tok=4,
    ),
    llama3(
        "orpheus-3b",
        "canopylabs/orpheus-3b-0.1-ft",
        3_300_867_072,
        (156940, 3072, 28, 24, 8, 8192, 131072),
        rope_parameters=LLAMA_3_2,
        **TIED,
    ),
    phi3("phi-4", "microsoft/phi-4", 14_659_507_200, (100352, 5120, 40, 40, 10, 17920, 16384), pad=100349, theta=2.5e5),
    phi3(
        "phi-4-mini",
        "microsoft/Phi-4-mini-instruct",
        3_836_021_760,
        (200064, 3072, 32, 24, 8, 8192, 131072),
        pad=199999,
        original_max_position_embeddings=4096,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.75,
            "original_max_position_embeddings": 4096,
            "short_factor": [1.0] * 48,
            "long_factor": LONG_FACTORS,
        },
        **TIED,
    ),
    mistral(
        "mistral-7b-v0.3", "mistralai/Mistral-7B-v0.3", 7_248_023_552, (32768, 4096, 32, 32, 8, 14336, 32768), theta=1e6
    ),
    mistral(
        "mistral-nemo-12b",
        "mistralai/Mistral-Nemo-Base-2407",
        12_247_782_400,
        (131072, 5120, 40, 32, 8, 14336, 131072),
        theta=1e6,
    ),
    mistral(
        "mistral-small-24b",
        "mistralai/Mistral-Small-24B-Base-2501",
        23_572_403_200,
        (131072, 5120, 40, 32, 8, 32768, 32768),
        theta=1e8,
    ),
    mistral(
        "ministral-8b",
        "mistralai/Ministral-8B-Instruct-2410",
        8_019_808_256,
        (131072, 4096, 36, 32, 8, 12288, 32768),
        theta=1e8,
    ),
    row(
        "glm-4-9b",
        "zai-org/GLM-4-9B-0414",
        9_400_279_040,
        (151552, 4096, 40, 32, 2, 13696, 32768),
        model_class="Glm4ForCausalLM",
        model_type="glm4",
        pad=151329,
        head_dim=128,
        rms_norm_eps=1e-5,
        attention_bias=True,
    ),
    row(
        "glm-4.5-air",
        "zai-org/GLM-4.5-Air",
        106_852_245_504,
        (151552, 4096, 46, 96, 8, 10944, 131072),
        model_class="Glm4MoeForCausalLM",
        model_type="glm4_moe",
        pad=151329,
        head_dim=128,
        moe_intermediate_size=1408,
        n_routed_experts=128,
        num_experts_per_tok=8,
        attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
    ),
    granite(
        "granite-3.3-2b",
        "ibm-granite/granite-3.3-2b-base",
        2_533_539_840,
        (49159, 2048, 40, 32, 8, 8192, 131072),
        theta=1e7,
    ),
    olmo2("olmo-2-1b", "allenai/OLMo-2-0425-1B", 1_484_916_736, (100352, 2048, 16, 16, 16, 8192, 4096), theta=5e5),
    olmo2("olmo-2-7b", "allenai/OLMo-2-1124-7B", 7_298_617_344, (100352, 4096, 32, 32, 32, 11008, 4096), theta=5e5),
    row(
        "olmo-3-7b",
        "allenai/Olmo-3-1025-7B",
        7_298_011_136,
        (100278, 4096, 32, 32, 32, 11008, 65536),
        model_class="Olmo3ForCausalLM",
        model_type="olmo3",
        pad=100277,
        rms_norm_eps=1e-6,
        sliding_window=4096,
    ),
    lfm2("lfm2-350m", "LiquidAI/LFM2-350M", 354_483_968, (65536, 1024, 16, 16, 8, 6656, 128000)),
    lfm2("lfm2-1.2b", "LiquidAI/LFM2-1.2B", 1_170_340_608, (65536, 2048, 16, 32, 8, 12288, 128000)),
    row(
        "granite-4.0-h-tiny",
        "ibm-granite/granite-4.0-h-tiny",
        6_939_037_248,
        (100352, 1536, 40, 12, 4, 512, 131072),
        model_class="GraniteMoeHybridForCausalLM",
        model_type="granitemoehybrid",
        pad=100256,
        num_local_experts=64,
        num_experts_per_tok=6,
        shared_intermediate_size=1024,
        mamba_n_heads=48,
        mamba_d_state=128,
        position_embedding_type="nope",
        layer_types=[("attention" if layer % 10 == 5 else "mamba") for layer in range(40)],
        **{**GRANITE, "logits_scaling": 6.0},
        **EPS_5,
        **TIED,
    ),
)
