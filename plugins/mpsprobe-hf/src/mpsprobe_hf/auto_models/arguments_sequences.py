"""What the arguments of models of sound and of series are, by their names."""

from __future__ import annotations

from collections.abc import Mapping

from mpsprobe_hf.auto_models.forms import TEXT, Argument, flags, floats, integers

SOUNDS: Mapping[str, tuple[Argument, ...]] = {
    "input_features": (
        Argument("floats", ("batch", "mels", "double_positions"), if_="says sound_positions", with_=TEXT),
        Argument("floats", ("batch", "frames", "feature_width"), with_=TEXT),
    ),
    "input_features_mask": flags("batch", "frames", with_=("input_features",)),
    "input_values": (
        Argument("floats", ("batch", "spectrogram", "mels"), if_="says spectrogram"),
        Argument("floats", ("batch", 1, "samples"), if_="says codebook"),
        Argument("floats", ("batch", "samples")),
    ),
    "audio_mel": floats("batch", "frames", "feature_width"),
    "audio_mel_mask": (Argument("zeros", ("batch", "frames")),),
}

SERIES: Mapping[str, tuple[Argument, ...]] = {
    "past_values": (
        Argument("floats", ("batch", "past"), if_="past_time_features"),
        Argument("series", ("batch", "context"), if_="freq"),
        Argument("floats", ("batch", "context", "variates"), if_="says variates"),
        Argument("floats", ("batch", "context")),
    ),
    "past_time_features": floats("batch", "past", "time_features"),
    "past_observed_mask": (Argument("observed", ("batch", "past"), with_=("past_time_features",)),),
    "future_values": floats("batch", "horizon", with_=("past_time_features",)),
    "future_time_features": floats("batch", "horizon", "time_features", with_=("past_time_features",)),
    "static_categorical_features": integers(1, "batch", "categories", with_=("past_time_features",)),
    "states": floats("batch", "seq", "state"),
    "actions": floats("batch", "seq", "action", with_=("states",)),
    "rewards": floats("batch", "seq", 1, with_=("states",)),
    "returns_to_go": floats("batch", "seq", 1, with_=("states",)),
    "timesteps": integers(64, "batch", "seq", with_=("states",)),
}
