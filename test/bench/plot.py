# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A picture of rows: the median of the paired ratios, its quartiles, and the target."""

from xml.sax.saxutils import escape

LABELS, AREA, LINE, TOP, BOTTOM, RIGHT = 500, 420, 34, 56, 34, 20


def ticks(most):
    """About six round steps from 0."""
    step = next(s * 10 ** e for e in range(-2, 6) for s in (1, 2, 5) if most / (s * 10 ** e) <= 6)
    return [round(i * step, 6) for i in range(int(most / step) + 1)]


def svg(title, rows):
    most = 1.08 * max([1.0] + [max(r['spread'][1], r['target'] or 0) for r in rows])
    height = TOP + LINE * len(rows) + BOTTOM
    width = LABELS + AREA + RIGHT

    def x(ratio):
        return round(LABELS + AREA * ratio / most, 1)

    def line(x1, y1, x2, y2, look):
        out.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{look}"/>')

    def text(at, y, words, look):
        out.append(f'<text x="{at}" y="{y}" class="{look}">{escape(words)}</text>')

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">',
           '<style>text{font:12px sans-serif}.title{font-size:15px}.small{font-size:10px;'
           'fill:#555}.tick{text-anchor:middle}.grid{stroke:#ddd}.one{stroke:#888}'
           '.spread{stroke:#27c;stroke-width:3}.median{fill:#27c}'
           '.target{stroke:#c33;stroke-width:2}</style>',
           f'<rect width="{width}" height="{height}" fill="#fff"/>']
    text(10, 24, title, 'title')
    text(LABELS, 40, 'dot: median of the pairs, bar: quartiles, red: target', 'small')
    end = height - BOTTOM
    for tick in ticks(most):
        line(x(tick), TOP, x(tick), end, 'one' if tick == 1 else 'grid')
        text(x(tick), end + 16, f'{tick:g}', 'tick')
    for i, r in enumerate(rows):
        y = TOP + LINE * i + LINE / 2
        low, high = r['spread']
        text(10, y - 2, f'{r["case"]}: {r["ours"]:g} / {r["peer"]:g} {r["unit"]} = {r["ratio"]:g}',
             'name')
        text(10, y + 11, f'{r["peer_name"]}; {r["state"]}, {r["pairs"]} pairs', 'small')
        line(x(low), y, x(high), y, 'spread')
        out.append(f'<circle cx="{x(r["ratio"])}" cy="{y}" r="5" class="median"/>')
        if r['target'] is not None:
            line(x(r['target']), y - 11, x(r['target']), y + 11, 'target')
    out.append('</svg>')
    return '\n'.join(out) + '\n'
