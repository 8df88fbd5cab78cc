"""Draw periods along a time line, as text, SVG or an HTML page.  SVG and HTML escape all labels and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from weft.instants import format_instant, format_rfc3339

_LABEL: Final = 320
_LINE: Final = 640
_ROW: Final = 22
_TOP: Final = 34
_LETTERS: Final = 44


@dataclass(frozen=True)
class Bar:
    """A period [``begin``, ``end``) in microseconds UTC, with a label.  ``end`` is None for an open period."""

    label: str
    begin: int
    end: int | None


@dataclass(frozen=True)
class Span:
    """The time covered by a drawing, from ``first`` to ``last`` (microseconds UTC)."""

    first: int
    last: int

    @classmethod
    def of(cls, bars: Sequence[Bar], now: int) -> Span:
        """Return the span of all bars.  Open bars end at ``now``."""
        ends = [now if bar.end is None else bar.end for bar in bars]
        first = min((bar.begin for bar in bars), default=now)
        return cls(first, max([*ends, first + 1]))

    def share(self, instant: int) -> float:
        """Return the position of an instant in the span, from 0 (first instant) to 1 (last instant)."""
        return min(max((instant - self.first) / (self.last - self.first), 0.0), 1.0)


def cells(bar: Bar, span: Span, width: int) -> str:
    """Draw a bar as a line of ``width`` characters.  An open bar ends in an arrow.

    >>> span = Span(0, 100)
    >>> cells(Bar("a", 0, 50), span, 8), cells(Bar("b", 50, None), span, 8), cells(Bar("c", 99, 100), span, 8)
    ('████    ', '    ███▶', '       █')
    """
    begin = min(int(span.share(bar.begin) * width), width - 1)
    end = width if bar.end is None else max(round(span.share(bar.end) * width), begin + 1)
    drawn = "█" * (end - begin)
    if bar.end is None:
        drawn = drawn[:-1] + "▶"
    return (" " * begin + drawn).ljust(width)


def svg(title: str, bars: Sequence[Bar], now: int) -> str:
    """Return an SVG drawing with one row for each bar.  The tooltip of a bar shows its label and period."""
    span = Span.of(bars, now)
    height = _TOP + _ROW * len(bars) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LABEL + _LINE + 20} {height}" '
        'font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<text x="{_LABEL}" y="16" fill="#555">{escape(format_instant(span.first))}</text>',
        f'<text x="{_LABEL + _LINE}" y="16" fill="#555" text-anchor="end">{escape(format_instant(span.last))}</text>',
    ]
    for number, bar in enumerate(bars):
        top = _TOP + _ROW * number
        left = _LABEL + span.share(bar.begin) * _LINE
        right = _LABEL + (span.share(bar.end) if bar.end is not None else 1.0) * _LINE
        color = "#2b6cb0" if bar.end is None else "#90a4bd"
        shown = bar.label if len(bar.label) <= _LETTERS else bar.label[: _LETTERS - 1] + "…"
        parts += [
            f'<text x="4" y="{top + 13}">{escape(shown)}</text>',
            f'<rect x="{left:.1f}" y="{top + 2}" width="{max(right - left, 1):.1f}" height="14" rx="2" fill="{color}">'
            f"<title>{escape(bar.label)}: {escape(_period(bar))}</title></rect>",
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def html(title: str, bars: Sequence[Bar], names: Sequence[str], rows: Sequence[Sequence[str]], now: int) -> str:
    """Return an HTML page with the drawing and a table.  ``names`` are the column names of the table, and ``rows`` are
    its rows.
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    style = (
        "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:2px 10px;text-align:left}"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style></head><body>\n<h1>{escape(title)}</h1>\n{svg(title, bars, now)}"
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>\n</body></html>\n"
    )


def _period(bar: Bar) -> str:
    end = "now" if bar.end is None else format_rfc3339(bar.end)
    return f"{format_rfc3339(bar.begin)} to {end}"
