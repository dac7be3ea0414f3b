"""Arguments of ``forward`` that are images and videos, or say something about them."""

from __future__ import annotations

from collections.abc import Mapping

from mpsprobe_hf.transformers.inputs.forms import (
    BY_PATCH,
    GRID,
    IMAGE,
    TEXT,
    Argument,
    flags,
    floats,
    integers,
    ones,
)

PIXEL_VALUES = ("pixel_values",)

IMAGES: Mapping[str, tuple[Argument, ...]] = {
    "pixel_values": (
        Argument("floats", BY_PATCH, if_="image_grid_thw", with_=TEXT),
        Argument("floats", BY_PATCH, if_="image_grid_hw", with_=TEXT),
        Argument("floats", BY_PATCH, if_="grid_thw"),
        Argument("floats", ("batch", "grid", "patch_values"), if_="spatial_shapes", with_=TEXT),
        Argument("floats", ("batch", "grid", "patch_values"), if_="pixel_position_ids", with_=TEXT),
        Argument("floats", ("batch", "grid", "patch_values"), if_="image_position_ids", with_=TEXT),
        # Patches of all images in one row.
        Argument("floats", (1, "channels", "patch", "strip*batch"), if_="target_sizes", with_=TEXT),
        Argument("floats", ("batch", "images", "tiles", *IMAGE[1:]), if_="aspect_ratio_ids", with_=TEXT),
        Argument("floats", ("batch", "tiles", *IMAGE[1:]), if_="says pinpoints", with_=TEXT),
        Argument("floats", ("batch", "images", *IMAGE[1:]), if_="pixel_attention_mask", with_=TEXT),
        Argument("floats", ("batch", "images", *IMAGE[1:]), if_="perceiver_embeddings", with_=TEXT),
        Argument("floats", ("batch", "clip", *IMAGE[1:]), if_="says clip", with_=TEXT),
        Argument("floats", IMAGE, with_=TEXT),
    ),
    "image": floats(*IMAGE, with_=TEXT),
    "image_pixel_values": floats("batch", "tiles", *IMAGE[1:], with_=TEXT),
    "pixel_values_videos": (
        Argument("floats", BY_PATCH, if_="video_grid_thw"),
        Argument("floats", ("batch", "clip", *IMAGE[1:])),
    ),
    "inference_session": floats(2, *IMAGE[1:]),
    "high_res_pixel_values": floats("batch", "channels", 1024, 1024),
    "prompt_pixel_values": floats(*IMAGE),
    "prompt_masks": floats(*IMAGE),
    "flattened_patches": floats("batch", "flat_patches", "flat_values", with_=TEXT),
    "hidden_states": (Argument("floats", BY_PATCH, if_="grid_thw"),),
    # which patches there are, and where
    "image_grid_thw": (Argument("rows", ("batch", 3), settings={"row": GRID}, with_=PIXEL_VALUES),),
    "image_grid_hw": (Argument("rows", ("batch", 2), settings={"row": GRID[1:]}, with_=PIXEL_VALUES),),
    "grid_thw": (Argument("rows", ("batch", 3), settings={"row": GRID}),),
    "merge_sizes": (Argument("rows", ("batch",), settings={"row": "merge"}),),
    "image_merge_sizes": (Argument("rows", ("batch",), settings={"row": "merge"}, with_=PIXEL_VALUES),),
    "spatial_shapes": (Argument("rows", ("batch", 2), settings={"row": GRID[1:]}, with_=PIXEL_VALUES),),
    "target_sizes": (Argument("rows", ("batch", 2), settings={"row": GRID[1:]}, with_=PIXEL_VALUES),),
    "pixel_position_ids": (Argument("places", ("batch", "grid", 2), settings={"row": GRID[1:]}),),
    "image_position_ids": (Argument("places", ("batch", "grid", 2), settings={"row": GRID[1:]}, with_=PIXEL_VALUES),),
    "image_sizes": (
        Argument(
            "rows",
            ("batch", 2),
            settings={"row": ("tiled_height", "tiled_width")},
            if_="says pinpoints",
            with_=PIXEL_VALUES,
        ),
        Argument("rows", ("batch", 2), settings={"row": ("height", "width")}),
    ),
    "aspect_ratio_ids": ones("batch", "images", with_=PIXEL_VALUES),
    "aspect_ratio_mask": ones("batch", "images", "tiles", with_=PIXEL_VALUES),
    "cross_attention_mask": ones("batch", "seq", "images", "tiles", with_=PIXEL_VALUES),
    "image_attention_mask": (
        Argument("ones", ("batch", "seq", "images"), if_="perceiver_embeddings", with_=PIXEL_VALUES),
    ),
    "pixel_attention_mask": (
        Argument("ones", ("batch", "grid"), if_="spatial_shapes", with_=PIXEL_VALUES),
        Argument("flags", ("batch", "images", "height", "width")),
    ),
    "pixel_mask": ones("batch", "height", "width"),
    "bool_masked_pos": (Argument("every_other", ("batch", "patches")),),
    "image_embeds_position_mask": (
        Argument("leading", ("batch", "seq"), settings={"keep": "latents"}, with_=(*PIXEL_VALUES, "flattened_patches")),
    ),
    # regions that another model has found
    "visual_feats": floats("batch", 36, "region_width"),
    "visual_pos": floats("batch", 36, "region_place"),
    "visual_embeds": floats("batch", 36, "region_width", with_=TEXT),
    "visual_attention_mask": ones("batch", 36, with_=("visual_feats", "visual_embeds")),
    "visual_token_type_ids": ones("batch", 36, with_=("visual_embeds",)),
    # what to look for in an image
    "task_inputs": integers("vocabulary", "batch", "task_tokens"),
    "tasks_input_ids": integers("vocabulary", "batch", 16),
    "tasks_attention_mask": flags("batch", 16),
    "classes_input_ids": integers("vocabulary", "named*batch", 16),
    "classes_attention_mask": flags("named*batch", 16),
    "classes_structure": (Argument("rows", ("batch",), settings={"row": "named"}),),
    "qformer_input_ids": integers("vocabulary", "batch", 32),
    "qformer_attention_mask": ones("batch", 32, with_=("qformer_input_ids",)),
    "input_points": floats("batch", 1, 1, 2),
    "input_labels": ones("batch", 1, 1, with_=("input_points",)),
}
"""Name → its forms, the special ones first."""
