"""What the arguments of models of sound and of series are, by their names."""

from __future__ import annotations

from collections.abc import Mapping

from mpsprobe_hf.transformers.inputs.forms import TEXT, Argument, flags, floats, integers

PHI_SOUND = ("audio_input_features",)

SOUNDS: Mapping[str, tuple[Argument, ...]] = {
    "input_features": (
        Argument("floats", ("batch", 1, "crop", "mels"), if_="is_longer", with_=TEXT),
        Argument("floats", ("batch", "mels", "double_positions"), if_="says sound_positions", with_=TEXT),
        Argument("floats", ("batch", "mels", "frames"), if_="says window", with_=TEXT),
        Argument("floats", ("batch", "frames", "feature_width"), with_=TEXT),
        Argument("floats", ("batch", "mels", "frames"), with_=TEXT),
    ),
    "chunk_sample_lengths": (Argument("rows", ("batch",), settings={"row": "samples"}, with_=("input_features",)),),
    "input_features_mask": flags("batch", "frames", with_=("input_features",)),
    "feature_attention_mask": (
        Argument("ones", ("batch", "double_positions"), if_="says sound_positions", with_=("input_features",)),
        Argument("ones", ("batch", "frames"), with_=("input_features",)),
    ),
    "input_values": (
        Argument("floats", ("batch", "spectrogram", "mels"), if_="says spectrogram", with_=TEXT),
        Argument("floats", ("batch", 1, "samples"), if_="says codebook", with_=TEXT),
        Argument("floats", ("batch", "samples"), with_=TEXT),
        Argument("floats", ("batch", 1, "samples"), with_=TEXT),
    ),
    "padding_mask": flags("batch", "samples"),
    "audio_mel": floats("batch", "frames", "feature_width"),
    "audio_mel_mask": (Argument("zeros", ("batch", "frames")),),
    "audio_input_features": floats("batch", "frames", "feature_width", with_=TEXT),
    "audio_embed_sizes": (
        Argument("rows", ("batch",), settings={"row": "audio_tokens"}, with_=("audio_input_features",)),
    ),
    "audio_attention_mask": flags("batch", "frames"),
    "mask": flags("batch", "frames"),
    "latents": floats("batch", "hidden", "codes"),
    "spectrogram": floats("batch", "frames", "mels"),
    "mel_spectrogram": floats("batch", "mels", "frames"),
    "decoder_input_values": floats("batch", "frames", "mels", with_=("encoder",)),
    "noise_embeds": floats("batch", "seq", "hidden"),
    "context_hidden_states": floats("batch", "seq", "context_hidden"),
    "t_cond": floats(1, "hidden"),
    "protein_input_ids": integers("protein_vocabulary", "batch", "seq", with_=TEXT),
    "protein_attention_mask": flags("batch", "seq", with_=TEXT),
    "action_embeds": floats("batch", "chunk", "action_hidden"),
}

SERIES: Mapping[str, tuple[Argument, ...]] = {
    "past_values": (
        Argument("floats", ("batch", "past"), if_="past_time_features"),
        Argument("floats", ("batch", "context"), if_="past_values_padding"),
        Argument("series", ("batch", "context"), if_="freq"),
        Argument("floats", ("batch", "context", "variates"), if_="says variates"),
        Argument("floats", ("batch", "context")),
    ),
    "past_time_features": floats("batch", "past", "time_features"),
    "past_observed_mask": (Argument("observed", ("batch", "past"), with_=("past_time_features",)),),
    "past_values_padding": (Argument("integers", ("batch", "context"), 1),),
    "freq": (Argument("integers", ("batch", 1), 3, if_="past_values_padding"),),
    "future_values": (
        Argument("floats", ("batch", "horizon"), if_="past_time_features", with_=("past_time_features",)),
        Argument("floats", ("batch", "horizon", "variates"), if_="says variates"),
        Argument("floats", ("batch", "horizon")),
    ),
    "future_time_features": floats("batch", "horizon", "time_features", with_=("past_time_features",)),
    "static_categorical_features": integers(1, "batch", "categories", with_=("past_time_features",)),
    "states": floats("batch", "seq", "state"),
    "actions": floats("batch", "seq", "action", with_=("states",)),
    "rewards": floats("batch", "seq", 1, with_=("states",)),
    "returns_to_go": floats("batch", "seq", 1, with_=("states",)),
    "timesteps": integers(64, "batch", "seq", with_=("states",)),
}
