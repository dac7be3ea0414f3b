"""Forecasting of time series. Their lengths are part of the model, so there is no ``seq_len``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mpsprobe_hf.catalog.entry import Architecture, Entry, Field
from mpsprobe_hf.catalog.fields import EVERY_LAYER

TOURISM: Mapping[str, Any] = {
    "prediction_length": 24,
    "context_length": 48,
    "lags_sequence": [1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 23, 24, 25, 35, 36, 37],
    "num_time_features": 2,
    "num_static_categorical_features": 1,
    "cardinality": [366],
    "embedding_dimension": [6],
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
}
"""The monthly tourism data set: 366 series, month and age as time features."""

PAST = 48 + 37
"""Context and the longest lag, in months."""

TOURISM_INPUTS = (
    Field("past_values", "floats", ("batch", PAST)),
    Field("past_time_features", "floats", ("batch", PAST, 2)),
    Field("past_observed_mask", "observed", ("batch", PAST)),
    Field("static_categorical_features", "integers", ("batch", 1), 366),
    Field("future_values", "floats", ("batch", 24)),
    Field("future_time_features", "floats", ("batch", 24, 2)),
)
TOURISM_LABELS = (*TOURISM_INPUTS, Field("future_observed_mask", "observed", ("batch", 24)))
MANY = {"inference": 32, "training": 32}
TEACHER = ("inference is one forward pass with known future values, not the sampling loop of generate()",)


def tourism(
    name: str,
    checkpoint: str,
    model_class: str,
    *,
    model_type: str,
    parameters: int,
    summary: str,
    **config: Any,
) -> Entry:
    """A probabilistic encoder-decoder for monthly tourism data."""
    return Entry(
        name=name,
        family="series",
        summary=summary,
        checkpoint=checkpoint,
        model_type=model_type,
        config={**TOURISM, **config},
        inference=Architecture(model_class, TOURISM_INPUTS, parameters, notes=TEACHER),
        training=Architecture(model_class, TOURISM_LABELS, parameters, notes=EVERY_LAYER),
        batch_size=MANY,
    )


def _etth1(steps: int, channels: int, horizon: int) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    past = Field("past_values", "floats", ("batch", steps, channels))
    return (past,), (past, Field("future_values", "floats", ("batch", horizon, channels)))


ETTH1_PAST, ETTH1_BOTH = _etth1(512, 7, 96)
TIMESFM_PAST = Field("past_values", "series", ("batch", 512))
TIMESFM_FREQUENCY = Field("freq", "integers", ("batch",), 3)

ENTRIES = (
    tourism(
        "time-series-transformer",
        "huggingface/time-series-transformer-tourism-monthly",
        "TimeSeriesTransformerForPrediction",
        model_type="time_series_transformer",
        parameters=77_559,
        summary="Time Series Transformer: forecasts monthly tourism",
        encoder_layers=4,
        decoder_layers=4,
        d_model=32,
    ),
    tourism(
        "informer",
        "huggingface/informer-tourism-monthly",
        "InformerForPrediction",
        model_type="informer",
        parameters=355_543,
        summary="Informer: forecasts monthly tourism with sparse attention",
        encoder_layers=6,
        decoder_layers=4,
        d_model=64,
    ),
    tourism(
        "autoformer",
        "huggingface/autoformer-tourism-monthly",
        "AutoformerForPrediction",
        model_type="autoformer",
        parameters=272_511,
        summary="Autoformer: forecasts monthly tourism by auto-correlation (Fourier transforms)",
        encoder_layers=4,
        decoder_layers=4,
        d_model=64,
    ),
    Entry(
        name="patchtst",
        family="series",
        summary="PatchTST: forecasts 96 of 7 channels from 512, in patches of 12",
        checkpoint="ibm-granite/granite-timeseries-patchtst",
        model_type="patchtst",
        config={
            "context_length": 512,
            "prediction_length": 96,
            "num_input_channels": 7,
            "patch_length": 12,
            "patch_stride": 12,
            "d_model": 128,
            "num_attention_heads": 16,
            "num_hidden_layers": 3,
            "ffn_dim": 512,
            "head_dropout": 0.2,
            "scaling": "std",
            "loss": "mse",
        },
        inference=Architecture("PatchTSTForPrediction", ETTH1_PAST, 614_240),
        training=Architecture("PatchTSTForPrediction", ETTH1_BOTH, 614_240),
        batch_size=MANY,
    ),
    Entry(
        name="patchtsmixer",
        family="series",
        summary="PatchTSMixer: forecasts 96 of 7 channels from 512, without attention",
        checkpoint="ibm-granite/granite-timeseries-patchtsmixer",
        model_type="patchtsmixer",
        config={
            "context_length": 512,
            "prediction_length": 96,
            "num_input_channels": 7,
            "patch_length": 8,
            "patch_stride": 8,
            "d_model": 16,
            "num_layers": 8,
            "expansion_factor": 2,
            "scaling": "std",
        },
        inference=Architecture("PatchTSMixerForPrediction", ETTH1_PAST, 275_696),
        training=Architecture("PatchTSMixerForPrediction", ETTH1_BOTH, 275_696),
        batch_size=MANY,
    ),
    Entry(
        name="timesfm",
        family="series",
        summary="TimesFM 2.0, 500 million parameters: forecasts any series without training",
        checkpoint="google/timesfm-2.0-500m-pytorch",
        model_type="timesfm",
        config={
            "patch_length": 32,
            "context_length": 2048,
            "horizon_length": 128,
            "num_hidden_layers": 50,
            "hidden_size": 1280,
            "intermediate_size": 1280,
            "head_dim": 80,
            "num_attention_heads": 16,
        },
        inference=Architecture("TimesFmModelForPrediction", (TIMESFM_PAST, TIMESFM_FREQUENCY), 498_828_960),
        training=Architecture(
            "TimesFmModelForPrediction",
            (TIMESFM_PAST, TIMESFM_FREQUENCY, Field("future_values", "floats", ("batch", 128))),
            498_828_960,
        ),
    ),
)
