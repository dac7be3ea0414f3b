"""The functions that programs get, the rewrites first. Each is copied as it is, so it has no types, and needs nothing
but torch and the others here.
"""

from __future__ import annotations

from time import perf_counter

import torch


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    """torch.nn.functional.grid_sample of images, by gather."""
    if input.device.type != "mps" or input.dim() != 4:
        return torch.nn.functional.grid_sample(input, grid, mode, padding_mode, align_corners)
    batch, channels, height, width = input.shape
    flat = input.reshape(batch, channels, height * width)

    def bounded(at, size):
        if padding_mode == "reflection":
            low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
            if span == 0:
                at = at * 0
            else:
                at = (at - low).abs()
                turns = (at / span).floor()
                rest = at - turns * span
                at = torch.where(turns.remainder(2) == 0, rest, span - rest) + low
        return at if padding_mode == "zeros" else at.clamp(0, size - 1)

    def taps(at, size):
        """The pixels of one dimension that a place is made of, and the weight of each."""
        at = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
        if mode == "nearest":
            return [(bounded(at, size).detach().round(), torch.ones_like(at))]
        at = at if mode == "bicubic" else bounded(at, size)
        low = at.detach().floor()
        part = at - low
        if mode == "bilinear":
            return [(low, 1 - part), (low + 1, part)]
        near = [((1.25 * one - 2.25) * one) * one + 1 for one in (part, 1 - part)]
        far = [((-0.75 * one + 3.75) * one - 6) * one + 3 for one in (part + 1, 2 - part)]
        return [(bounded(low + number - 1, size), one) for number, one in enumerate((far[0], *near, far[1]))]

    made = 0
    columns = taps(grid[..., 0], width)
    for row, of_row in taps(grid[..., 1], height):
        for column, of_column in columns:
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            index = row.clamp(0, height - 1).long() * width + column.clamp(0, width - 1).long()
            index = index.reshape(batch, 1, -1).expand(batch, channels, index[0].numel())
            found = flat.gather(2, index).reshape(batch, channels, *grid.shape[1:3])
            made = made + found * (of_row * of_column * inside).unsqueeze(1)
    return made


def antialias_weights(size, to, scale, mode, like):
    """What each of size pixels adds to each of to new ones: a filter as wide as the scale, in rows that add up to 1."""
    support = (2.0 if mode == "bicubic" else 1.0) * max(scale, 1.0)
    centre = (torch.arange(to, device=like.device, dtype=torch.float32) + 0.5) * scale
    first = (centre - support + 0.5).floor().clamp(min=0)
    last = (centre + support + 0.5).floor().clamp(max=size)
    pixel = torch.arange(size, device=like.device, dtype=torch.float32)
    inside = (pixel >= first.unsqueeze(1)) & (pixel < last.unsqueeze(1))
    x = ((pixel + 0.5 - centre.unsqueeze(1)) / max(scale, 1.0)).abs()
    if mode == "bilinear":
        weights = (1 - x).clamp(min=0)
    else:
        near = ((1.5 * x - 2.5) * x) * x + 1
        far = ((-0.5 * x + 2.5) * x - 4) * x + 2
        weights = torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))
    weights = weights * inside.to(weights.dtype)
    return (weights / weights.sum(1, keepdim=True)).to(like.dtype)


def interpolate_antialias(
    input, size=None, scale_factor=None, mode="nearest", align_corners=None,
    recompute_scale_factor=None, antialias=False,
):  # fmt: skip
    """torch.nn.functional.interpolate with antialias=True, as two products of matrices."""
    ours = antialias and mode in ("bilinear", "bicubic") and not align_corners and scale_factor is None
    if input.device.type != "mps" or not ours:
        return torch.nn.functional.interpolate(
            input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
        )
    height, width = (size, size) if isinstance(size, int) else size
    rows = antialias_weights(input.size(2), height, input.size(2) / height, mode, input)
    columns = antialias_weights(input.size(3), width, input.size(3) / width, mode, input)
    return torch.matmul(torch.matmul(rows, input), columns.t())


def adaptive_avg_pool2d(input, output_size):
    """torch.nn.functional.adaptive_avg_pool2d of any sizes, as two products of matrices."""
    if input.device.type != "mps":
        return torch.nn.functional.adaptive_avg_pool2d(input, output_size)
    sizes = (output_size, output_size) if isinstance(output_size, int) else output_size
    made = input
    for dim, to in ((-2, sizes[0]), (-1, sizes[1])):
        size = input.size(dim)
        to = size if to is None else to
        cell = torch.arange(to, device=input.device).unsqueeze(1)
        pixel = torch.arange(size, device=input.device)
        first, last = cell * size // to, ((cell + 1) * size + to - 1) // to
        inside = ((pixel >= first) & (pixel < last)).to(input.dtype)
        weights = inside / inside.sum(1, keepdim=True)
        made = torch.matmul(weights, made) if dim == -2 else torch.matmul(made, weights.t())
    return made


def running_extreme(function, made, input, dim, wins):
    """Values and places of the extremes so far, in log2(size) steps; a NaN stays, of equal ones the later counts."""
    if input.device.type != "mps":
        return function(input, dim)
    if input.dim() == 0 or input.numel() == 0:
        return made((input.clone(), torch.zeros_like(input, dtype=torch.long)))
    values = input.detach().movedim(dim, -1)
    size = values.size(-1)
    index = torch.arange(size, device=input.device).expand(values.shape)
    step = 1
    while step < size:
        one, other = values[..., step:], values[..., :-step]
        later = wins(one, other) & (other == other) | (one != one)
        values = torch.cat([values[..., :step], torch.where(later, one, other)], -1)
        index = torch.cat([index[..., :step], torch.where(later, index[..., step:], index[..., :-step])], -1)
        step *= 2
    index = index.movedim(-1, dim)
    return made((input.gather(dim, index), index))


def cummax(input, dim):
    """torch.cummax, in log2(size) steps of comparisons."""
    return running_extreme(torch.cummax, torch.return_types.cummax, input, dim, torch.ge)


def cummin(input, dim):
    """torch.cummin, in log2(size) steps of comparisons."""
    return running_extreme(torch.cummin, torch.return_types.cummin, input, dim, torch.le)


def index_copy(input, dim, index, source):
    """torch.index_copy, by scatter."""
    if input.device.type != "mps" or input.dim() == 0:
        return torch.index_copy(input, dim, index, source)
    shape = [1] * input.dim()
    shape[dim] = index.numel()
    return input.scatter(dim, index.reshape(shape).expand(source.shape), source)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """torch.nn.functional.fold, by index_add."""
    if input.device.type != "mps":
        return torch.nn.functional.fold(input, output_size, kernel_size, dilation, padding, stride)
    pairs = [
        (one, one) if isinstance(one, int) else one for one in (output_size, kernel_size, dilation, padding, stride)
    ]
    places = []
    for side in (0, 1):
        size, kernel, apart, pad, step = (pair[side] for pair in pairs)
        count = (size + 2 * pad - apart * (kernel - 1) - 1) // step + 1
        of_kernel = torch.arange(kernel, device=input.device).unsqueeze(1) * apart
        places.append(of_kernel + torch.arange(count, device=input.device) * step)
    (height, width), (pad_y, pad_x) = pairs[0], pairs[3]
    rows = places[0].reshape(places[0].size(0), 1, places[0].size(1), 1)
    columns = places[1].reshape(1, places[1].size(0), 1, places[1].size(1))
    index = (rows * (width + 2 * pad_x) + columns).reshape(-1)
    batched = input if input.dim() == 3 else input.unsqueeze(0)
    area = pairs[1][0] * pairs[1][1]
    blocks = batched.reshape(batched.size(0), batched.size(1) // area, -1)
    whole = blocks.new_zeros(*blocks.shape[:2], (height + 2 * pad_y) * (width + 2 * pad_x)).index_add(2, index, blocks)
    image = whole.reshape(*blocks.shape[:2], height + 2 * pad_y, width + 2 * pad_x)
    image = image[..., pad_y : pad_y + height, pad_x : pad_x + width]
    return image if input.dim() == 3 else image.squeeze(0)


def embedding_bag(
    input, weight, offsets=None, max_norm=None, norm_type=2.0,
    scale_grad_by_freq=False, mode="mean", sparse=False, per_sample_weights=None,
    include_last_offset=False, padding_idx=None,
):  # fmt: skip
    """torch.nn.functional.embedding_bag of sums and means, by index_add."""
    ours = (
        mode in ("sum", "mean") and max_norm is None and not scale_grad_by_freq and not sparse and padding_idx is None
    )
    if weight.device.type != "mps" or not ours:
        return torch.nn.functional.embedding_bag(
            input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights,
            include_last_offset, padding_idx,
        )  # fmt: skip
    rows = weight.index_select(0, input.reshape(-1))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    if input.dim() == 2:
        made = rows.reshape(*input.shape, rows.size(1)).sum(1)
        return made / max(input.size(1), 1) if mode == "mean" else made
    starts = offsets[:-1] if include_last_offset else offsets
    number = torch.arange(input.numel(), device=input.device).unsqueeze(1)
    bag = (number >= starts).sum(1) - 1
    made = rows.new_zeros(starts.numel(), rows.size(1)).index_add(0, bag, rows)
    if mode == "sum":
        return made
    counts = rows.new_zeros(starts.numel()).index_add(0, bag, rows.new_ones(rows.size(0)))
    return made / counts.clamp(min=1).unsqueeze(1)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """torch.nn.functional.ctc_loss of batches, one step of the forward recursion for each frame."""
    if log_probs.device.type != "mps" or log_probs.dim() != 3:
        return torch.nn.functional.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity
        )
    device = log_probs.device
    frames, batch, _ = log_probs.shape
    lengths = [int(one) for one in input_lengths]
    sizes = [int(one) for one in target_lengths]
    longest = max(sizes, default=0)
    if targets.dim() == 1:
        parts = targets.split(sizes)
        targets = torch.stack([torch.nn.functional.pad(one, (0, longest - one.numel())) for one in parts])
    targets = targets[:, :longest].to(device)
    labels = torch.full((batch, 2 * longest + 1), blank, dtype=torch.long, device=device)
    labels[:, 1::2] = targets
    lowest = torch.finfo(log_probs.dtype).min / 4  # not -inf, whose gradient is NaN
    skips = torch.zeros(labels.shape, dtype=torch.bool, device=device)
    skips[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    chosen = log_probs.gather(2, labels.expand(frames, *labels.shape)).clamp(min=lowest)
    at = torch.arange(labels.size(1), device=device)
    alpha = torch.where(at < 2, chosen[0], torch.full_like(chosen[0], lowest)) if frames else chosen.sum(0) + lowest
    last = torch.tensor(lengths, device=device).unsqueeze(1)
    for frame in range(1, frames):
        one = torch.nn.functional.pad(alpha, (1, 0), value=lowest)[:, :-1]
        two = torch.nn.functional.pad(alpha, (2, 0), value=lowest)[:, : labels.size(1)]
        two = torch.where(skips, two, torch.full_like(two, lowest))
        following = torch.logsumexp(torch.stack([alpha, one, two]), 0) + chosen[frame]
        alpha = torch.where(last > frame, following.clamp(min=lowest), alpha)
    ends = torch.tensor([2 * size for size in sizes], device=device).unsqueeze(1)
    final = alpha.gather(1, ends)
    before = torch.where(ends > 0, alpha.gather(1, (ends - 1).clamp(min=0)), torch.full_like(final, lowest))
    loss = -torch.logsumexp(torch.cat([final, before], 1), 1)
    impossible = loss > -lowest / 2
    loss = torch.where(impossible, loss * 0 + (0 if zero_infinity else float("inf")), loss)
    if reduction == "mean":
        return (loss / torch.tensor(sizes, device=device).clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
    scale=None, enable_gqa=False,
):  # fmt: skip
    """torch.nn.functional.scaled_dot_product_attention, by products and softmax of so many rows that 2**28 scores
    are there at once."""
    if query.device.type != "mps" or query.numel() == 0:
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if enable_gqa:
        key, value = (one.repeat_interleave(query.size(-3) // one.size(-3), -3) for one in (key, value))
    columns = key.size(-2)
    rows = max(1, 2**28 // max(1, query.numel() // query.size(-1) // query.size(-2) * columns))
    made = []
    for start in range(0, query.size(-2), rows):
        part = query[..., start : start + rows, :] * (query.size(-1) ** -0.5 if scale is None else scale)
        scores = torch.matmul(part, key.transpose(-2, -1))
        if is_causal:
            row = torch.arange(start, start + part.size(-2), device=query.device).unsqueeze(1)
            scores = scores.masked_fill(torch.arange(columns, device=query.device) > row, float("-inf"))
        if attn_mask is not None:
            mask = attn_mask[..., start : start + rows, :] if attn_mask.size(-2) > 1 else attn_mask
            scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        nothing = (scores == float("-inf")).all(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(nothing, 0), -1).masked_fill(nothing, 0)
        made.append(torch.matmul(torch.nn.functional.dropout(weights, dropout_p), value))
    return torch.cat(made, -2)


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """torch.linalg.vector_norm of all elements, also more than 2**31: the norm of the norms of parts."""
    if x.device.type != "mps" or dim is not None or keepdim or ord == 0 or x.numel() <= 2**30:
        return torch.linalg.vector_norm(x, ord, dim, keepdim, dtype=dtype)
    parts = [torch.linalg.vector_norm(one, ord, dtype=dtype) for one in x.reshape(-1).split(2**30)]
    return torch.linalg.vector_norm(torch.stack(parts), ord)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """torch.nn.utils.clip_grad_norm_, also of gradients with more than 2**31 elements."""
    parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    gradients = [one.grad for one in parameters if one.grad is not None]
    if error_if_nonfinite or all(one.device.type != "mps" or one.numel() <= 2**30 for one in gradients):
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
    total = vector_norm(torch.stack([vector_norm(one, norm_type) for one in gradients]), norm_type)
    for one in gradients:
        one.detach().mul_((max_norm / (total + 1e-6)).clamp(max=1.0))
    return total


def grouped_mm(input, mat2, *, offs=None, bias=None, out_dtype=None):
    """torch.nn.functional.grouped_mm of rows in groups, one product of matrices for each."""
    if input.device.type != "mps" or input.dim() != 2 or mat2.dim() != 3 or bias is not None:
        return torch.nn.functional.grouped_mm(input, mat2, offs=offs, bias=bias, out_dtype=out_dtype)
    ends = offs.tolist()
    parts = [input[start:end] @ one for start, end, one in zip([0, *ends[:-1]], ends, mat2.unbind(0), strict=True)]
    made = torch.cat([*parts, input.new_zeros(input.size(0) - ends[-1], mat2.size(2))])
    return made if out_dtype is None else made.to(out_dtype)


def on_cpu(function, *args, **named):
    """What function makes of tensors on MPS, computed by the CPU; gradients go the same way back."""
    devices = [one.device for one in (*args, *named.values()) if isinstance(one, torch.Tensor)]
    if not devices or devices[0].type != "mps":
        return function(*args, **named)
    args = [one.cpu() if isinstance(one, torch.Tensor) else one for one in args]
    named = {name: one.cpu() if isinstance(one, torch.Tensor) else one for name, one in named.items()}
    made = function(*args, **named)
    if isinstance(made, torch.Tensor):
        return made.to(devices[0])
    return type(made)([one.to(devices[0]) for one in made])


def without_float64(tensor, device):
    """tensor in float32 where it goes to MPS, which has no float64; else as it is."""
    wide = getattr(tensor, "dtype", None) == torch.float64 and torch.device(device).type == "mps"
    return tensor.float() if wide else tensor


class TimedEvent:
    """torch.cuda.Event, by the clock."""

    def record(self, stream=None):
        if torch.backends.mps.is_available():
            torch.mps.synchronize()
        self.at = perf_counter()

    def elapsed_time(self, end):
        return (end.at - self.at) * 1000

    def query(self):
        return True

    def synchronize(self):
        pass


# flash-attn and xformers have (batch, length, heads, size), torch (batch, heads, length, size). flash-attn 2.1 and
# later align a causal mask at its lower right corner; torch's is_causal does so at the upper left, and xformers' too.
def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False):
    """flash_attn.flash_attn_func, by torch's attention."""
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    k, v = (one.repeat_interleave(q.size(1) // one.size(1), 1) for one in (k, v))
    mask = None
    if causal:
        mask = torch.ones(q.size(2), k.size(2), dtype=torch.bool, device=q.device).tril(k.size(2) - q.size(2))
    made = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, dropout_p, scale=softmax_scale)
    return made.transpose(1, 2)


def flash_attn_qkvpacked_func(qkv, dropout_p=0.0, softmax_scale=None, causal=False):
    """flash_attn.flash_attn_qkvpacked_func, by torch's attention."""
    return flash_attn_func(*qkv.unbind(2), dropout_p, softmax_scale, causal)


def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None):
    """xformers.ops.memory_efficient_attention, by torch's attention; True stands for its lower triangular mask."""
    query, key, value = (one.transpose(1, 2) for one in (query, key, value))
    mask, causal = (None, True) if attn_bias is True else (attn_bias, False)
    made = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, p, causal, scale=scale)
    return made.transpose(1, 2)


def LowerTriangularMask():
    """xformers.ops.LowerTriangularMask, as memory_efficient_attention above takes it."""
    return True
