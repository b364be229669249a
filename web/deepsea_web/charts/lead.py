"""The lead of A over B and its interval, as blocks come in."""

from __future__ import annotations

from typing import Final

from deepsea_arena.reports.plot_data import PlotData
from deepsea_referee.workbench.comparison import Lead
from deepsea_web.charts.svg import LEFT, RIGHT, Chart, Drawing, Table, short

_HEIGHT: Final = 170
_TOP: Final = 38
_ROWS: Final = 12
"""Rows of the table."""


def lead(data: PlotData, lead: Lead) -> Chart:
    """Draw the mean difference in placement score after each block, within its interval."""
    points = lead.points
    blocks = points[-1].blocks if points else 1
    # Not the whole range that is possible: a wide first interval would flatten the rest.
    settled = points[len(points) // 10 :]
    reach = max([abs(v) for point in settled for v in point[1:]] + [2 * lead.margin, 0.05])
    reach = min(reach * 1.1, 1.0)

    def x(block: float) -> float:
        return LEFT + 4 + (RIGHT - LEFT - 4) * block / blocks

    def y(value: float) -> float:
        return _TOP + _HEIGHT / 2 * (1 - max(-1.0, min(1.0, value / reach)))

    drawing = Drawing()
    drawing.rect(0, 1, 14, 8, "band")
    drawing.line(0, 5, 14, 5, "lead")
    drawing.text(19, 9, f"mean lead and {100 * (1 - lead.alpha):.4g} % interval", "small")
    drawing.rect(214, 1, 14, 8, "margin")
    drawing.text(233, 9, f"no difference: ±{lead.margin:g}", "small")
    drawing.text(0, _TOP - 11, f"▲ {short(lead.a, 40)} leads", "label")
    drawing.rect(LEFT, y(lead.margin), RIGHT - LEFT, y(-lead.margin) - y(lead.margin), "margin")
    for step in range(-4, 5):
        value = step * _nice(reach)
        if abs(value) <= reach:
            drawing.line(LEFT, y(value), RIGHT, y(value), "grid" if step else "base")
            drawing.text(
                LEFT - 4, y(value) + 4, f"{value:+.3g}" if step else "0", "small", anchor="end"
            )
    if points:
        upper = [(x(point.blocks), y(point.high)) for point in points]
        lower = [(x(point.blocks), y(point.low)) for point in points]
        drawing.path(upper + lower[::-1], "band", closed=True)
        drawing.path(upper, "bound")
        drawing.path(lower, "bound")
        drawing.path([(x(point.blocks), y(point.mean)) for point in points], "lead")
        last = points[-1]
        drawing.circle(x(last.blocks), y(last.mean), 3, "dot", _words(lead))
    bottom = _TOP + _HEIGHT
    for part in range(5):
        block = round(blocks * part / 4)
        anchor = "end" if part == 4 else "middle"
        drawing.text(x(block), bottom + 31, f"{block:,}", "small", anchor=anchor)
    drawing.text(0, bottom + 16, f"▼ {short(lead.b, 40)} leads", "label")
    drawing.text((LEFT + RIGHT) / 2, bottom + 45, "blocks", "axis", anchor="middle")
    drawing.text(0, bottom + 63, _words(lead), "label")
    step = max(1, -(-len(points) // _ROWS))
    shown = points[::-1][::step][::-1]
    return Chart(
        "lead",
        "Lead in placement score",
        f"{short(lead.a, 45)} against {short(lead.b, 45)}: {_words(lead)}.",
        drawing.element,
        bottom + 67,
        Table(
            ("blocks", "mean lead", "from", "to"),
            [[f"{p.blocks:,}", f"{p.mean:+.3f}", f"{p.low:+.3f}", f"{p.high:+.3f}"] for p in shown],
        ),
    )


def _words(lead: Lead) -> str:
    if not lead.points:
        return "no block counts yet"
    last = lead.points[-1]
    count = "1 block" if last.blocks == 1 else f"{last.blocks:,} blocks"
    return f"after {count}: {last.mean:+.3f}, between {last.low:+.3f} and {last.high:+.3f}"


def _nice(reach: float) -> float:
    """The distance of grid lines, of which two to four fit on each side."""
    return next(step for step in (0.5, 0.25, 0.1, 0.05, 0.025, 0.01) if reach / step >= 2)
