"""The events that are kept, as the report's trace has them; and its curves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

from mpsprobe.schemas import Counter, MemoryCurve, Trace, Track
from mpsprobe_devices.traces.columns import ANNOTATION, KINDS, OTHER, Columns, Numbers, TrackInfo

LARGEST = 2**53
INSTANTS = "[memory] "  # prefix of values from allocations, which a counter of that name has too
MOST_POINTS = 1000  # of a curve that is drawn
Points = list[tuple[int, float]]
ThreadNames = Mapping[tuple[object, object], str]
"""By process and thread."""


def make_trace(columns: Columns, names: ThreadNames, cpu: bool = False) -> Trace:
    """The trace, its first event at 0. ``cpu``: the host's own memory is the device's."""
    kept = list(range(columns.kept))
    columns.sort(kept)
    base_ns = min(columns.start_ns, default=0)
    name_numbers, detail_numbers, track_numbers, kind_numbers = Numbers(), Numbers(), Numbers(), Numbers()
    details, all_names = list(columns.details), list(columns.names)
    kinds = [*KINDS[:ANNOTATION], KINDS[OTHER]]
    data = {
        "name": [name_numbers[columns.name[index]] for index in kept],
        "category": [kind_numbers[kinds[columns.kind[index]]] for index in kept],
        "track": [track_numbers[columns.track[index]] for index in kept],
        "detail": [detail_numbers[columns.detail[index]] if columns.detail[index] >= 0 else -1 for index in kept],
        "flow": [columns.flow[index] for index in kept],
        "start_ns": [columns.start_ns[index] - base_ns for index in kept],
        "duration_ns": [columns.duration_ns[index] for index in kept],
        "names": [str(all_names[number]) for number in name_numbers],
        "categories": list(kind_numbers),
        "details": [dict(details[number]) for number in detail_numbers],
        "tracks": _tracks([columns.tracks[number] for number in track_numbers], names),
        "counters": [
            Counter(name=name, times_ns=[at - base_ns for at, _ in points], values=[value for _, value in points])
            for name, points in curves(columns, cpu).items()
        ],
        "truncated": columns.left_out,
    }
    return Trace.model_validate(data)


def _tracks(rows: Iterable[TrackInfo], names: ThreadNames) -> list[Track]:
    processes = Numbers()
    tracks = []
    for number, row in enumerate(rows, 1):
        process = processes[row.process] + 1
        name = names.get((row.process, row.thread))
        if name is None:
            shown = " ".join(map(str, row.thread)) if isinstance(row.thread, tuple) else str(row.thread)
            name = f"stream {shown}" if row.device else f"thread {shown}"
        tracks.append(
            Track(
                name=name,
                kind="device" if row.device else "host",
                process=_whole(row.process, process),
                thread=_whole(row.thread, number),
            )
        )
    return tracks


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and abs(value) < LARGEST else otherwise


def curves(columns: Columns, cpu: bool) -> dict[str, Points]:
    """Each curve in the order of time. ``cpu``: the host's own memory is the device's."""
    by_name: dict[str, Points] = {}
    # Counters last: where both tell the same, the counter stands.
    for full in sorted(columns.counters, key=lambda name: not name.startswith(INSTANTS)):
        name = full.removeprefix(INSTANTS)
        if cpu and full.startswith(INSTANTS):
            name = name.removeprefix("cpu_")
        by_name[name] = sorted(zip(*columns.counters[full], strict=True))
    return by_name


def drawn(allocated: Points, reserved: Points | None, base_ns: int) -> MemoryCurve:
    """The curve from ``base_ns`` on, the highest point of each of ``MOST_POINTS`` stretches."""
    after = [(at - base_ns, value) for at, value in allocated if at >= base_ns]
    width = max(1, -(-len(after) // MOST_POINTS))
    points = [max(after[at : at + width], key=lambda point: point[1]) for at in range(0, len(after), width)]
    times = [at for at, _ in reserved or ()]
    last = [max(bisect_right(times, at + base_ns) - 1, 0) for at, _ in points]
    return MemoryCurve(
        times_ns=[at for at, _ in points],
        allocated_bytes=[round(value) for _, value in points],
        reserved_bytes=[round(reserved[index][1]) for index in last] if reserved else [],
    )
