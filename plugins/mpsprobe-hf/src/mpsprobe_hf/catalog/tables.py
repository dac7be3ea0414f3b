"""Models that read tables."""

from __future__ import annotations

from mpsprobe_hf.catalog.entry import Architecture, Entry, Field
from mpsprobe_hf.catalog.fields import padding_mask, tokens

TOKEN_TYPES = (2, 32, 64, 2, 256, 256, 10)
"""Limits of the seven columns: segment, column, row, previous label, two ranks, numeric relation.

Rows and columns up to what a cell can have (``max_num_rows`` 64, ``max_num_columns`` 32).
"""

TABLE_INPUTS = (
    tokens(30522, pad=0),
    padding_mask(),
    Field("token_type_ids", "columns", ("batch", "seq", len(TOKEN_TYPES)), settings={"highs": TOKEN_TYPES}),
)

ENTRIES = (
    Entry(
        name="tapas",
        family="table",
        summary="TAPAS base: questions about a table",
        checkpoint="google/tapas-base-finetuned-wtq",
        model_type="tapas",
        config={
            "vocab_size": 30522,
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "max_position_embeddings": 512,
            "num_aggregation_labels": 4,
            "use_answer_as_supervision": True,
            "answer_loss_cutoff": 0.664694,
            "cell_selection_preference": 0.207951,
            "huber_loss_delta": 0.121194,
            "init_cell_selection_weights_to_zero": True,
            "select_one_column": True,
            "allow_empty_column_selection": False,
            "temperature": 0.0352513,
        },
        inference=Architecture("TapasForQuestionAnswering", TABLE_INPUTS, 110_283_270),
        training=Architecture(
            "TapasForQuestionAnswering",
            (
                *TABLE_INPUTS,
                Field("labels", "integers", ("batch", "seq"), 2),
                Field("float_answer", "floats", ("batch",)),
                Field("numeric_values", "floats", ("batch", "seq")),
                Field("numeric_values_scale", "observed", ("batch", "seq")),
            ),
            110_283_270,
        ),
        seq_len=256,
        longest=512,
    ),
)
