"""The events of one trace as lines of the Chrome trace format, streamed: a million of them take no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from mpsprobe_exporters.traces.encoding import LONGEST_NS, THOUSANDTHS, exact, pairs, text, ticks
from mpsprobe_exporters.traces.flows import Flows
from mpsprobe_exporters.traces.layout import AT_ONCE, SEPARATOR, Layout, pieces
from mpsprobe_exporters.traces.links import ON_DEVICE, Links

if TYPE_CHECKING:
    from mpsprobe.schemas import Trace
    from mpsprobe_exporters.traces.dialects import Dialect
    from mpsprobe_exporters.traces.layout import Row

FEW = 65_536  # texts of names or details that are kept
Columns = Iterable[tuple[int, int, int, int, int, int, int]]


class Slices:
    """One trace on its rows.

    Args:
        rows: one for each track.
        devices: the number of the device for each track, for readers that ask for it.
        offset_ns: when the first event begins in the written file.
        first_flow: what is added to the numbers of arrows, so that they are unique in the file.
        no_steps: when the steps begin that must not be read as steps.
    """

    def __init__(
        self,
        trace: Trace,
        rows: Sequence[Row],
        devices: Sequence[int],
        dialect: Dialect,
        offset_ns: int = 0,
        first_flow: int = 0,
        no_steps: frozenset[int] = frozenset(),
    ) -> None:
        self._trace = trace
        self._rows = rows
        self._devices = devices
        self._dialect = dialect
        self._no_steps = no_steps
        order = _order(trace)
        self._order = order
        self.base_ns = min(trace.start_ns, default=0) - offset_ns
        self._flows = Flows(trace, range(len(trace.start_ns)) if order is None else order, first_flow)
        self.flows = self._flows.count  # the largest number of an arrow

    def lines(self, layout: Layout) -> Iterator[str]:
        """All events in pieces of many lines."""
        return pieces(self._linked(), layout) if self._dialect.linked else self._plain(layout)

    def _plain(self, layout: Layout) -> Iterator[str]:
        trace, rows, flows, base, latest = self._trace, self._rows, self._flows, self.base_ns, LONGEST_NS
        arrow, rest = flows.arrow, THOUSANDTHS
        heads = _Kept(self._head)
        tails = _Kept(lambda index: f',"args":{{{self._pairs(trace.details[index])}}}}}')
        width = len(trace.categories)
        on_host = [track.kind == "host" for track in trace.tracks]
        columns = iter(self._columns())
        # A piece at a time, and the times put together from whole numbers: this loop decides how fast an export is.
        while some := list(islice(columns, AT_ONCE)):
            lines: list[str] = []
            append = lines.append
            for name, category, track, detail, flow, start, duration in some:
                begin = start - base
                end = begin + duration
                if end > latest:
                    begin, end = min(begin, latest), latest
                    duration = end - begin
                row = rows[track]
                ends = row.ends
                while ends and ends[-1] <= begin:
                    ends.pop()
                if ends and end > ends[-1]:
                    place = row.lane_for(begin, end)
                else:
                    ends.append(end)
                    place = row.place
                tail = "}" if detail < 0 else tails[detail]
                if flow:
                    known = tail[9:-2] if detail >= 0 else ""
                    tail = f',"args":{{{known}{"," if known else ""}"correlation":{flow}}}}}'
                    drawn = arrow(flow, on_host[track])
                    if drawn:
                        tail += f'{drawn}{place},"ts":{begin // 1000}{rest[begin % 1000]}}}'
                append(
                    f'{heads[name * width + category]}{place},"ts":{begin // 1000}{rest[begin % 1000]},'
                    f'"dur":{duration // 1000}{rest[duration % 1000]}{tail}'
                )
            yield "".join([*layout.taken(), *lines])

    def _head(self, index: int) -> str:
        name, category = divmod(index, len(self._trace.categories))
        cat = text(self._dialect.categories[self._trace.categories[category]])
        return f'{SEPARATOR}{{"ph":"X","cat":{cat},"name":{text(self._trace.names[name])},'

    def _linked(self) -> Iterator[str]:
        trace, rows, base, latest = self._trace, self._rows, self.base_ns, LONGEST_NS
        details = _Kept(lambda index: self._pairs(trace.details[index]))
        cats = [text(self._dialect.categories[one]) for one in trace.categories]
        on_host = [track.kind == "host" for track in trace.tracks]
        links = Links()
        for name, category, track, detail, flow, start, duration in self._columns():
            kind = trace.categories[category]
            begin = min(start - base, latest)
            # A step of no length is a division by zero in the reader.
            end = min(begin + (max(duration, 1) if kind == "step" else duration), latest + 1)
            row = rows[track]
            while row.ends and row.ends[-1] <= begin:
                row.ends.pop()
                row.contexts.pop()
            known = trace.details[detail] if detail >= 0 else {}
            cat = cats[category]
            if kind == "step" and start in self._no_steps:
                kind, cat = "other", '"step"'
            if kind in ON_DEVICE and on_host[track]:  # the reader asks each of these for its device
                kind, cat = "other", text(self._dialect.categories["other"])
            shown = links.name(kind, trace.names[name], known)
            context, inside = links.enter(row, kind, shown, known, flow)
            if row.ends and end > row.ends[-1]:
                place = row.lane_for(begin, end)
            else:
                row.ends.append(end)
                row.contexts.append(context)
                place = row.place
            extra = details[detail] if detail >= 0 else ""
            device = "" if on_host[track] else f'"device":{self._devices[track]}'
            args = ",".join(part for part in (inside, device, extra) if part)
            first, last = ticks(begin), ticks(end)
            drawn = self._flows.arrow(flow, on_host[track])
            yield (
                f'{SEPARATOR}{{"ph":"X","cat":{cat},"name":{text(shown)},{place},'
                f'"ts":{exact(first)},"dur":{exact(last - first)},"args":{{{args}}}}}'
                + (f'{drawn}{place},"ts":{exact(first)}}}' if drawn else "")
            )

    def _pairs(self, detail: Mapping[str, str]) -> str:
        return pairs(detail.items(), self._dialect.taken)

    def _columns(self) -> Columns:
        trace = self._trace
        columns = (
            trace.name, trace.category, trace.track, trace.detail, trace.flow, trace.start_ns, trace.duration_ns,
        )  # fmt: skip
        if self._order is None:
            return zip(*columns, strict=True)
        return ((*(column[index] for column in columns),) for index in self._order)  # type: ignore[misc]


def _order(trace: Trace) -> list[int] | None:
    """Positions by start, the longer event first where two start together; ``None`` where they are in order."""
    starts, lengths = trace.start_ns, trace.duration_ns
    following = pairwise(zip(starts, lengths, strict=True))
    if all(one[0] < other[0] or (one[0] == other[0] and one[1] >= other[1]) for one, other in following):
        return None
    return sorted(range(len(starts)), key=lambda index: (starts[index], -lengths[index]))


class _Kept(dict[int, str]):
    """What ``make`` made of a number, kept while it is few of them: never more for more events."""

    def __init__(self, make: Callable[[int], str]) -> None:
        self._make = make

    def __missing__(self, index: int) -> str:
        made = self._make(index)
        if len(self) < FEW:
            self[index] = made
        return made
