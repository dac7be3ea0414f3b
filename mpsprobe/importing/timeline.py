"""The events that are kept, as the report's trace has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mpsprobe.importing import curves
from mpsprobe.importing.columns import ANNOTATION, KINDS, OTHER, Columns, Numbers, TrackInfo
from mpsprobe.schemas.trace import Counter, Trace, Track

LARGEST = 2**53


def make_trace(columns: Columns, names: Mapping[tuple[object, object], str], cpu: bool) -> Trace:
    """The trace, its first event at 0.

    Args:
        names: of threads, by process and thread.
        cpu: whether the host's own memory is the device's.
    """
    kept = [index for index, keep in enumerate(columns.kept) if keep]
    start, duration = columns.start_ns, columns.duration_ns
    kept.sort(key=duration.__getitem__, reverse=True)  # then, stable, by start: the longer of two comes first
    kept.sort(key=start.__getitem__)
    base_ns = min(columns.start_ns, default=0)
    name_numbers, detail_numbers = Numbers(), Numbers()
    track_numbers, kind_numbers = Numbers(), Numbers()
    details = list(columns.details)
    all_names = list(columns.names)
    data = {
        "name": [name_numbers[columns.name[index]] for index in kept],
        "category": [kind_numbers[_category(columns.kind[index])] for index in kept],
        "track": [track_numbers[columns.track[index]] for index in kept],
        "detail": [detail_numbers[columns.detail[index]] if columns.detail[index] >= 0 else -1 for index in kept],
        "flow": [columns.flow[index] for index in kept],
        "start_ns": [start[index] - base_ns for index in kept],
        "duration_ns": [duration[index] for index in kept],
        "names": [str(all_names[number]) for number in name_numbers],
        "categories": [KINDS[number] for number in kind_numbers],
        "details": [dict(details[number]) for number in detail_numbers],
        "tracks": _tracks([columns.tracks[number] for number in track_numbers], names),
        "counters": [
            Counter(name=name, times_ns=[at - base_ns for at, _ in points], values=[value for _, value in points])
            for name, points in curves.by_name(columns, cpu).items()
        ],
        "truncated": columns.left_out,
    }
    return Trace.model_validate(data)


def _category(kind: int) -> int:
    return OTHER if kind == ANNOTATION else kind


def _tracks(found: Iterable[TrackInfo], names: Mapping[tuple[object, object], str]) -> list[Track]:
    processes: dict[object, int] = {}
    tracks = []
    for number, track in enumerate(found):
        process = processes.setdefault(track.process, len(processes) + 1)
        name = names.get((track.process, track.thread))
        if name is None:
            shown = " ".join(map(str, track.thread)) if isinstance(track.thread, tuple) else str(track.thread)
            name = f"stream {shown}" if track.device else f"thread {shown}"
        tracks.append(
            Track(
                name=name,
                kind="device" if track.device else "host",
                process=_whole(track.process, process),
                thread=_whole(track.thread, number + 1),
            )
        )
    return tracks


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and abs(value) < LARGEST else otherwise
