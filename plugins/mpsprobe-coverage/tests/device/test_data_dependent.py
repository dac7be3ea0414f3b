"""Operators whose results depend on values."""

from __future__ import annotations

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.kernels.mps import load_table


def test_an_operator_that_writes_its_results_gives_the_tensors_that_it_wrote() -> None:
    """``linalg_lstsq`` allocates empty outputs and calls ``linalg_lstsq.out``, whose sizes depend on values."""
    device = VirtualDevice(load_table("2.13.0"))
    with device:
        matrix, right = device.move((torch.ones(2, 3, requires_grad=True), torch.ones(2, 4, requires_grad=True)))
        with device.recording("forward"):
            solution = torch.linalg.lstsq(matrix, right, driver="gelsd").solution
        assert tuple(solution.shape) == (3, 4)
        with device.recording("backward"):
            solution.sum().backward()
        assert matrix.grad is not None and tuple(matrix.grad.shape) == (2, 3)


def test_a_mask_selects_as_many_as_it_is_said_to_count() -> None:
    """As vision-language models leave out images that are padding, and split what they made of the others."""
    device = VirtualDevice(load_table("2.13.0"))
    with device:
        (images,) = device.move((torch.ones(6, 3, 512, 512),))
        with device.recording("forward"):
            real = (images == 0.0).sum(dim=(-1, -2, -3)) != images[0].numel()
            assert images[real].shape[0] == 6
            assert real.view(2, 3).sum(dim=1).tolist() == [3, 3]
            assert real.sum().item() == real.sum().cpu().item() == 6


@pytest.mark.parametrize("tokens", [400, 20_000])
def test_a_mask_of_tokens_stays_known_as_one_of_their_features(tokens: int) -> None:
    """As vision-language models count the features that images have in a text; also where those are many."""
    device = VirtualDevice(load_table("2.13.0"))
    with device:
        ids, features = device.move((torch.arange(tokens) % 4, torch.ones(tokens, 3072)))
        with device.recording("forward"):
            mask = (ids == 1).unsqueeze(-1).expand_as(features)
            assert features[mask].numel() == features.masked_select(mask).numel() == tokens // 4 * 3072
            assert tuple(features[mask[:, 0]].shape) == (tokens // 4, 3072)


def test_what_is_repeated_is_as_long_as_the_sum_of_its_repeats() -> None:
    """As models of speech repeat each phoneme for its duration, in a tensor that has room for the longest sum."""
    device = VirtualDevice(load_table("2.13.0"))
    with device:
        (phonemes,) = device.move((torch.ones(2, 5, 64, 2048),))
        with device.recording("forward"):
            durations = phonemes.mean(dim=(2, 3)).round().long()
            longest = int(durations.sum(dim=1).max())
            repeated = torch.repeat_interleave(phonemes[0], durations[0], dim=0)
            assert longest == repeated.shape[0] == 5


@pytest.mark.parametrize("release", ["1.12.0", "1.13.1", "2.13.0"])
def test_what_a_release_registers_whole_depends_on_values_as_its_parts_do(release: str) -> None:
    """``repeat_interleave.self_Tensor``, as models read how long images are: up to 1.13 left to the CPU."""
    device = VirtualDevice(load_table(release))
    with device:
        lengths, images = device.move((torch.tensor([64, 16]), torch.tensor([1, 2])))
        with device.recording("forward"):
            repeated = lengths.repeat_interleave(images)
            assert (repeated.tolist(), tuple(repeated.shape)) == ([64, 16, 16], (3,))
