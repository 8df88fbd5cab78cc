"""Draw charts as SVG.  Each mark has its value as a title.

``bars`` and ``curve`` are parts of a page, whose style sheet gives the colours.  ``figure`` is a file of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

from markupsafe import Markup

from weft.instants import format_instant, format_interval

_WIDTH: Final = 720
_HEIGHT: Final = 138
_LEFT: Final = 44
_FOOT: Final = 28
_HEAD: Final = 12
_SECOND: Final = 1_000_000
_HOUR: Final = 3_600 * _SECOND
_DAY: Final = 24 * _HOUR
_STEPS: Final = (60 * _SECOND, 10 * 60 * _SECOND, _HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY, 364 * _DAY)
"""The lengths of the periods that a chart counts in, in microseconds."""
_ROOM_FOR_TWO: Final = 460
"""The least distance between the two labels of an axis: on a telephone, each takes 220."""
_BARS: Final = 48
"""The maximum number of bars."""


@dataclass(frozen=True)
class Counted:
    """Numbers in successive periods of the same length, the first of which begins at ``begins`` (microseconds UTC)."""

    begins: int
    step: int
    counts: tuple[int, ...]

    @property
    def each(self) -> str:
        """The length of a period in words, such as ``per hour``."""
        words = {60 * _SECOND: "minute", _HOUR: "hour", _DAY: "day", 7 * _DAY: "week"}
        return f"per {words.get(self.step) or _length(self.step)}"


def _length(step: int) -> str:
    """Format the length of a period, with one decimal if it is no whole number of minutes.

    >>> _length(3_600_000_000), _length(45_763_200_000)
    ('1h', 'about 12.7 hours')
    """
    if step % (60 * _SECOND) == 0:
        return format_interval(step)
    units = ((_DAY, "days"), (_HOUR, "hours"), (60 * _SECOND, "minutes"), (_SECOND, "seconds"))
    size, unit = next((each for each in units if step >= each[0]), (_SECOND, "seconds"))
    return f"about {step / size:.1f} {unit}"


def counted_over_time(events: Iterable[tuple[int, int]]) -> Counted | None:
    """Add up (instant, number) in at most 48 periods.  Return None if there is no event.

    >>> counted_over_time([(0, 2), (90_000_000, 1)])
    Counted(begins=0, step=60000000, counts=(2, 1))
    """
    known = sorted(events)
    if not known:
        return None
    first, last = known[0][0], known[-1][0]
    step = next((each for each in _STEPS if last // each - first // each < _BARS), _STEPS[-1])
    begins = max(first // step, last // step - _BARS + 1)
    counts = [0] * (last // step - begins + 1)
    for instant, number in known:
        if instant // step >= begins:
            counts[instant // step - begins] += number
    return Counted(begins * step, step, tuple(counts))


def bars(counted: Counted, what: str) -> Markup:
    """Draw the numbers of ``what`` as bars."""
    most, count = max((*counted.counts, 1)), len(counted.counts)
    room, height = _WIDTH - _LEFT, _HEIGHT - _FOOT - _HEAD
    width = min(room / count, 40)
    marks = []
    for number, value in enumerate(counted.counts):
        tall = value / most * height if value else 0
        begins = format_instant(counted.begins + number * counted.step)
        marks.append(
            Markup('<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1.5"><title>').format(
                _LEFT + number * width + 0.75, _HEAD + height - tall, max(width - 1.5, 1), tall
            )
            + Markup("{}, {}: {:,}</title></rect>").format(begins, counted.each, value)
        )
    ends = counted.begins + (count - 1) * counted.step
    right = _LEFT + width * count
    labels = _axis(most, height) + _text(_LEFT, _day(counted.begins), "start")
    if right - _LEFT > _ROOM_FOR_TWO:
        labels += _text(right, _day(ends), "end")
    total = f"{sum(counted.counts):,} {what} from {_day(counted.begins)} to {_day(ends)}, most {counted.each}: {most:,}"
    return _svg(total, labels + Markup("").join(marks))


def curve(points: Sequence[tuple[int, float]], what: str) -> Markup:
    """Draw values at instants as a line of steps."""
    first, last = points[0][0], points[-1][0]
    most, height = max(max(value for _, value in points), 1), _HEIGHT - _FOOT - _HEAD
    across = (_WIDTH - _LEFT) / max(last - first, 1)
    path, before = [], 0.0
    for number, (instant, value) in enumerate(points):
        x, y = _LEFT + (instant - first) * across, _HEAD + height - value / most * height
        path.append(f"M{x:.1f} {y:.1f}" if not number else f"L{x:.1f} {before:.1f}L{x:.1f} {y:.1f}")
        before = y
    drawn = Markup('<path class="curve" d="{}"/>').format("".join(path))
    labels = _axis(int(most), height) + _text(_LEFT, _day(first), "start") + _text(_WIDTH, _day(last), "end")
    return _svg(f"{what} from {_day(first)} to {_day(last)}, most: {most:,.0f}", labels + drawn)


def _svg(words: str, inside: Markup) -> Markup:
    opened = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(_WIDTH, _HEIGHT, words)
    return opened + inside + Markup("</svg>")


def _axis(most: int, height: float) -> Markup:
    rule = Markup('<line class="rule" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>')
    foot, head = _HEAD + height, _HEAD
    top = Markup('<text x="{}" y="{}" text-anchor="end">{}</text>').format(_LEFT - 6, head + 8, _short(most))
    zero = Markup('<text x="{}" y="{}" text-anchor="end">0</text>').format(_LEFT - 6, foot)
    return rule.format(_LEFT, _WIDTH, foot, foot) + rule.format(_LEFT, _WIDTH, head, head) + top + zero


def _text(x: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{}" text-anchor="{}">{}</text>').format(x, _HEIGHT - 4, anchor, text)


def _short(number: int) -> str:
    """Format a number in few characters.

    >>> _short(999), _short(12_300), _short(4_000_000)
    ('999', '12k', '4M')
    """
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if number >= size:
            return f"{number // (10**3 if unit == 'k' else size)}{unit}"
    return str(number)


def _day(instant: int) -> str:
    second = instant // _SECOND * _SECOND
    return format_instant(second).removesuffix(" UTC").removesuffix(":00").removesuffix(" 00:00") + " UTC"


@dataclass(frozen=True)
class Line:
    """A line through points (x, y).  All x are positive."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """Lines over a logarithmic axis, which ``below`` names.

    The vertical axis is logarithmic, or begins at 0 if ``linear`` is true.
    """

    title: str
    note: str
    below: str
    lines: Sequence[Line]
    linear: bool = False

    def places(self) -> list[list[tuple[float, float]]]:
        """Return the places of each line's points, from the left and from the foot, between 0 and 1.

        >>> Panel("", "", "", [Line("a", [(1, 0.1), (10, 10)]), Line("b", [(100, 1)])]).places()
        [[(0.0, 0.0), (0.5, 1.0)], [(1.0, 0.5)]]
        """
        across = [log10(x) for line in self.lines for x, _ in line.points]
        low, high = self.rows
        width, height = max(across) - min(across) or 1, self._up(high) - self._up(low) or 1
        return [
            [((log10(x) - min(across)) / width, (self._up(y) - self._up(low)) / height) for x, y in line.points]
            for line in self.lines
        ]

    @property
    def rows(self) -> tuple[float, float]:
        """The values at the foot and at the head of the vertical axis."""
        values = [y for line in self.lines for _, y in line.points]
        if self.linear:
            return 0, max(values)
        return 10 ** floor(log10(min(values))), 10 ** ceil(log10(max(values)))

    def _up(self, value: float) -> float:
        return value if self.linear else log10(value)


_LEFT_OF, _TOP, _WIDE, _TALL, _STEP, _DOWN = 58, 46, 190, 120, 270, 210
"""The left, top, width and height of a panel, and the distances to the next one and to the next row."""
_ROW: Final = 3
"""The maximum number of panels in a row."""
_COLOURS: Final = ("#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b7791f", "#718096")


def figure(title: str, panels: Sequence[Panel]) -> str:
    """Draw panels as an SVG file, three in a row.  A legend names the lines if there are several."""
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    foot = _DOWN * -(-len(panels) // _ROW) + 6
    size = f"{_STEP * min(len(panels), _ROW) + 10} {foot + (10 + 18 * -(-len(names) // 4) if len(names) > 1 else 4)}"
    parts = [
        Markup('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {}" ').format(size)
        + Markup('font-family="sans-serif" font-size="11" role="img">'),
        Markup("<title>{}</title>").format(title),
        Markup("<style>text { fill: #1c2733 } .soft { fill: #556270 } @media (prefers-color-scheme: dark) ")
        + Markup("{ text { fill: #e8edf2 } .soft { fill: #a9b6c3 } }</style>"),
    ]
    for number, panel in enumerate(panels):
        at = f"{number % _ROW * _STEP + _LEFT_OF} {number // _ROW * _DOWN}"
        parts += [Markup('<g transform="translate({})">').format(at), *_panel(panel, names), Markup("</g>")]
    for number, name in enumerate(names if len(names) > 1 else ()):
        x, y, colour = _LEFT_OF + number % 4 * 190, foot + number // 4 * 18 + 8, _COLOURS[number]
        parts.append(Markup('<path d="M{} {}h20" stroke="{}" stroke-width="2"/>').format(x, y, colour))
        parts.append(Markup('<text x="{}" y="{}">{}</text>').format(x + 26, y + 4, name))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, names: Sequence[str]) -> Iterator[Markup]:
    yield Markup('<text y="18" font-weight="bold">{}</text>').format(panel.title)
    yield Markup('<text y="34" class="soft">{}</text>').format(panel.note)
    yield Markup('<path d="M0 {}v{}h{}" fill="none" stroke="#90a4bd"/>').format(_TOP, _TALL, _WIDE)
    low, high = panel.rows
    decades = [] if panel.linear else range(round(log10(low)), round(log10(high)) + 1)
    for number, decade in enumerate(decades):
        y = _TOP + _TALL * (1 - number / max(len(decades) - 1, 1))
        yield _label(-6, y + 3, "end", f"{10.0**decade:,g}")
        yield Markup('<path d="M0 {:.1f}h{}" stroke="#90a4bd" stroke-opacity="0.3"/>').format(y, _WIDE)
    labelled: set[float] = set()
    for line, places in zip(panel.lines, panel.places(), strict=True):
        colour = _COLOURS[names.index(line.name)]
        at = [(_WIDE * x, _TOP + _TALL * (1 - y)) for x, y in places]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        yield Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>').format(path, colour)
        for (x, y), (below, value) in zip(at, line.points, strict=True):
            mark = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"><title>{}</title></circle>')
            yield mark.format(x, y, colour, f"{line.name}: {value:,.{0 if panel.linear else 3}f}")
            if below not in labelled:
                labelled.add(below)
                yield _label(x, _TOP + _TALL + 16, "middle", f"{below:,g}" if below < 1e6 else f"{below:,.0f}")
    below_text = Markup('<text x="{:.1f}" y="{}" class="soft" text-anchor="middle">{}</text>')
    yield below_text.format(_WIDE / 2, _TOP + _TALL + 34, panel.below)


def _label(x: float, y: float, anchor: str, text: str) -> Markup:
    label = Markup('<text x="{:.1f}" y="{:.1f}" class="soft" text-anchor="{}" font-size="9">{}</text>')
    return label.format(x, y, anchor, text)
