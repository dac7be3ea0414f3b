"""A profile as TensorFlow writes it, field by field."""

from __future__ import annotations

from collections.abc import Iterable

HOST, GPU = 1, 2


def varint(value: int) -> bytes:
    """As protobuf writes a whole number."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def named(number: int, name: str, shown: str = "") -> bytes:
    return field(1, number) + field(2, field(1, number) + field(2, name) + (field(4, shown) if shown else b""))


def event(name: int, start_us: int, duration_us: int, *facts: bytes) -> bytes:
    times = field(1, name) + field(2, start_us * 1_000_000) + field(3, duration_us * 1_000_000)
    return times + b"".join(field(4, one) for one in facts)


def plane(number: int, name: str, lines: dict[str, list[bytes]], names: list[bytes], facts: list[bytes]) -> bytes:
    def fields(number: int, values: Iterable[bytes]) -> bytes:
        return b"".join(field(number, one) for one in values)

    headings = [field(1, place) + field(2, title) + field(3, 5000) for place, title in enumerate(lines, 1)]
    written = [heading + fields(4, events) for heading, events in zip(headings, lines.values(), strict=True)]
    return field(1, field(1, number) + field(2, name) + fields(3, written) + fields(4, names) + fields(5, facts))


def profile() -> bytes:
    launch = field(1, 2) + field(4, 9)
    steps = [event(1, start, 90, field(1, 1) + field(4, number)) for number, start in ((0, 0), (1, 100))]
    work = [event(2, 10, 30), event(2, 110, 40), event(3, 20, 5, launch), event(4, 1, 0)]
    host = plane(
        HOST,
        "/host:CPU",
        {"python": steps, "tf_Compute/7": work},
        [
            named(1, "train"), named(2, "model/conv/Conv2D:Conv2D", "Conv2D"), named(3, "cuLaunchKernel"),
            named(4, "ThreadpoolListener::Record"),
        ],
        [named(1, "step_num"), named(2, "correlation_id")],
    )  # fmt: skip
    kernels = [event(1, 30, 50, field(1, 1) + field(4, 9)), event(2, 85, 3)]
    gpu = plane(
        GPU,
        "/device:GPU:0",
        {"Stream #13(compute)": kernels, "TensorFlow Ops": [event(3, 30, 50)]},
        [named(1, "implicit_gemm"), named(2, "MemcpyH2D"), named(3, "model/conv/Conv2D:Conv2D", "Conv2D")],
        [named(1, "correlation_id")],
    )
    return host + gpu
