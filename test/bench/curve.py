# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A picture of curves, by gnuplot: of each line the medians, and the quartiles as bars."""

import shutil
import subprocess

from results import Failure

SIZE = '760,440'
TAG = ('<!-- SPDX-License' '-Identifier: BSD-3-Clause', 'Copyright (c) 2026 The Sluice developers -->')
COLOURS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000')


def available():
    return shutil.which('gnuplot') is not None


def _text(words):
    return '"' + words.replace('\\', '\\\\').replace('"', '\\"') + '"'


def script(curve):
    """What gnuplot is told; the curve is one of NAME.json."""
    out = [f'set terminal svg noenhanced size {SIZE} font "sans-serif,12" background "#ffffff"',
           f'set title {_text(curve["title"])}',
           f'set xlabel {_text(curve["x"])}', f'set ylabel {_text(curve["y"])}',
           'set key outside right top', 'set grid lc rgb "#dddddd"', 'set bars small']
    # On a logarithmic axis 0 has no place, and the values of others are not to be cut off.
    out += [f'set logscale {axis}' for axis in 'xy' if curve[f'log_{axis}']]
    if not curve['log_y']:
        out.append('set yrange [0:*]')
    if curve['ticks']:
        ticks = ', '.join(f'{_text(name)} {place}' for name, place in curve['ticks'])
        out.append(f'set xtics ({ticks})')
        places = [place for _, place in curve['ticks']]
        out.append(f'set xrange [{min(places) - 0.5}:{max(places) + 0.5}]')
    else:
        out.append('set autoscale xfix')
        out.append('set offsets graph 0.02, graph 0.02, 0, 0')
    plots = []
    for i, line in enumerate(curve['lines']):
        look = f'lc rgb "{COLOURS[i % len(COLOURS)]}"'
        for key, using in (
                ('points', f'1:2:3:4 with yerrorlines lw 1.5 pt {5 + 2 * (i % 4)} ps 0.6 {look} '
                 f'title {_text(line["variant"])}'),
                ('model', f'1:2 with lines dt 2 {look} notitle')):
            shown = [f'{x:.9g} {median:.9g} {low:.9g} {high:.9g}'
                     for x, low, median, high in line[key] if not curve['log_y'] or median > 0]
            if shown:
                out += [f'${key}{i} << END', *shown, 'END']
                plots.append(f'${key}{i} using {using}')
    if not plots:
        raise Failure(f'{curve["name"]}: nothing above 0 for a logarithmic axis')
    return '\n'.join([*out, 'plot ' + ', \\\n  '.join(plots), ''])


def _tidy(drawn):
    """As every file of the tree is: with the tag, and nothing blank at an end."""
    lines = [line.rstrip() for line in drawn.strip().split('\n')]
    return '\n'.join([lines[0], *TAG, *lines[1:], ''])


def svg(curve):
    """The picture as text."""
    if not available():
        raise Failure('gnuplot is not there, it draws the curves: apt-get install gnuplot-nox')
    done = subprocess.run(['gnuplot', '-'], input=script(curve), capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode != 0 or '</svg>' not in done.stdout:
        said = (done.stderr.strip() or 'nothing').splitlines()[-1]
        raise Failure(f'gnuplot could not draw {curve["name"]}: {said}')
    return _tidy(done.stdout)
