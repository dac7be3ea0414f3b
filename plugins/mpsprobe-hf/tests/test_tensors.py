"""Inputs as tokenizers and processors make them, the same in every run."""

from __future__ import annotations

from typing import Any

import torch

from mpsprobe_hf.auto_models.inputs.arguments import ARGUMENTS
from mpsprobe_hf.catalog import entries
from mpsprobe_hf.catalog.entry import Field
from mpsprobe_hf.catalog.fields import image, padding_mask, token_labels, tokens
from mpsprobe_hf.sizes import shape_of
from mpsprobe_hf.tensors import KINDS, make

SIZES = {"batch": 4, "seq": 16}


def made(field: Field) -> Any:
    return make(field, SIZES, torch.float32)


def test_padding() -> None:
    for left, grows in ((False, -1), (True, 1)):
        mask = made(padding_mask(left=left))
        assert mask.dtype == torch.int64 and mask.sum(1).tolist() == [16, 14, 12, 10]
        assert bool((mask.diff(dim=1) * grows >= 0).all())
    assert bool(make(padding_mask(), {"batch": 1, "seq": 5}, torch.float32).all()), "one text has none"


def test_tokens_and_labels() -> None:
    mask, ids, labels = made(padding_mask()), made(tokens(100, pad=99)), made(token_labels(100))
    assert int(ids.min()) >= 0 and int(ids.max()) < 100
    assert bool((ids[mask == 0] == 99).all())
    assert bool((labels[mask == 0] == -100).all()) and bool((labels[mask == 1] >= 0).all())
    ids = made(tokens(100, pad=1, leads=((7, 5),), keep=5))
    assert ids[:, :5].eq(7).all() and not ids[:, 5:].eq(7).any()
    field = Field("labels", "integers", ("batch", "seq"), 3, {"low": 1})
    assert set(made(field).flatten().tolist()) == {1, 2}


def test_boxes_and_masks_lie_in_the_image() -> None:
    targets = made(Field("labels", "boxes", ("batch", 5), 91))
    assert len(targets) == 4
    centre, size = targets[0]["boxes"][:, :2], targets[0]["boxes"][:, 2:]
    assert bool(((centre - size / 2 >= 0) & (centre + size / 2 <= 1)).all())
    masks = made(Field("mask_labels", "mask_lists", ("batch", 3, 9, 4)))
    assert len(masks) == 4 and masks[0].shape == (3, 9, 4)
    assert bool((masks[0].sum(0) == 1).all())


def test_the_same_every_time_in_the_dtype_with_generators_untouched() -> None:
    before = torch.get_rng_state()
    assert torch.equal(made(image(8)), made(image(8)))
    assert torch.equal(torch.get_rng_state(), before)
    for dtype in (torch.float16, torch.bfloat16):
        assert (make(image(4), SIZES, dtype).dtype, make(tokens(9), SIZES, dtype).dtype) == (dtype, torch.int64)
    assert shape_of(Field("x", "floats", ("4*batch", "seq", 2)), SIZES) == (16, 16, 2)


def test_every_kind_is_used_and_known() -> None:
    used = {
        field.kind
        for entry in entries().values()
        for phase in entry.phases
        for field in entry.architecture(phase).inputs
    }
    used |= {form.kind for forms in ARGUMENTS.values() for form in forms} | {"constant"}
    assert used == set(KINDS)
