# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""doc/findings.md, made from the JSON files that the experiments left; nothing is measured here."""

import json
import os

import curve as curves
import experiment as experiments
import outcome
from harness import build
from results import Failure, cell
from samples import directory

HEAD = '''# The findings, repeated

Written by `make bench-findings DOC=1` from what the builds named below measured
(`test/bench/findings.py --doc` writes it again without measuring).
Each experiment repeats one public measurement; `make
bench-NAME` runs it alone. *ours / peer* is the median of the ratios of trials that took turns
(or, for counts, the ratio of the sums), with its quartiles (of fewer than 4 pairs the extremes; of
sums the quartiles of 1000 draws of the same trials); *state* is what the machine was like ([how to
measure](../test/bench/README.md)); *dropped* are pairs during which that changed. *better: less*
means that the ratio is to be at most the target.
'''


def markdown(head, lines):
    out = ['| ' + ' | '.join(head) + ' |', '|' + '---|' * len(head)]
    return '\n'.join(out + ['| ' + ' | '.join(line) + ' |' for line in lines])


def plain(table):
    """A table for the terminal."""
    lines = [table['head'], *table['lines']]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table['head']))]
    return '\n'.join([table['title'], *('  '.join(cell.rjust(w) for cell, w in zip(line, widths))
                                        for line in lines)])


def number(value):
    """Four digits that say something."""
    if value is None:
        return '-'
    return f'{value:.0f}' if abs(value) >= 1000 else f'{value:.4g}'


def row_cells(row):
    low, high = row['spread']
    return [row['case'], f'{row["ours_name"]}: {number(row["ours"])}',
            f'{row["peer_name"]}: {number(row["peer"])}', row['unit'],
            f'{cell(row["ratio"])} ({cell(low)}..{cell(high)})', row['better'],
            cell(row['target']), outcome.verdict(row), str(row['pairs']), str(row['dropped']),
            row['state']]


ROW_HEAD = ['case', 'ours', 'peer', 'unit', 'ours / peer', 'better', 'target', 'result', 'pairs',
            'dropped', 'state']


def about_line(about):
    long = ', the long form' if about['long'] else ''
    return (f'Measured on {about["date"]}: {about["cpu"]}, kernel {about["kernel"]}, '
            f'{about["dpdk"]}, pages of {about["pages"]}; build {about["build"]}, '
            f'seed {about["seed"]}{long}.')


def section(experiment, made, folder):
    """One experiment as markdown; its curves are drawn into the folder."""
    out = [f'## {experiment.title}', f'**Finding.** {experiment.finding.strip()}',
           f'**Method.** {experiment.method.strip()}']
    if made is None:
        return '\n\n'.join([*out, f'Not measured yet: `make bench-{experiment.name}`.'])
    out.append(about_line(made['about']))
    for part in experiment.parts:
        found = [t for t in made['tables'] if t['part'] == part.name]
        compared = [r for r in made['rows'] if r['part'] == part.name]
        drawn = [c for c in made['curves'] if c['part'] == part.name]
        if not found and not compared:
            continue
        out.append(f'### {part.title}')
        if compared:
            out.append(markdown(ROW_HEAD, map(row_cells, compared)))
        for curve in drawn:
            name = f'{experiment.name}-{curve["name"]}.svg'
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as f:
                f.write(curves.svg(curve))
            out.append(f'![{curve["title"]}](findings/{name})')
        out += [markdown(t['head'], t['lines']) for t in found]
    out.append(f'**What the figures do not say.** {experiment.limits.strip()}')
    return '\n\n'.join(out)


def load(name):
    path = os.path.join(directory(), name + '.json')
    if not os.path.exists(path):
        return None
    with open(path, encoding='ascii') as f:
        return json.load(f)


def keep(made, folder):
    """The rows, for whoever quotes a figure (devtools/defaults): beside the pictures."""
    with open(os.path.join(folder, made['bench'] + '.json'), 'w', encoding='ascii') as f:
        json.dump({key: made[key] for key in ('bench', 'about', 'rows')}, f, indent=1)
        f.write('\n')


def write(root=build.ROOT):
    """Write doc/findings.md, its pictures and its rows; return the path."""
    path = os.path.join(root, 'doc/findings.md')
    folder = os.path.join(root, 'doc/findings')
    found = {name: load(name) for name in experiments.names()}
    if not any(found.values()):
        raise Failure(f'{directory()} has no results: run make bench-findings')
    if not curves.available():
        raise Failure('gnuplot is not there, it draws the curves: apt-get install gnuplot-nox')
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(('.svg', '.json')):
            os.unlink(os.path.join(folder, name))
    for made in filter(None, found.values()):
        keep(made, folder)
    sections = [section(experiments.load(name), made, folder) for name, made in found.items()]
    with open(path, 'w', encoding='utf-8') as f:
        f.write('\n'.join([HEAD, *(text + '\n' for text in sections)]))
    return path
