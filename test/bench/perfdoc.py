#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Write the tables of doc/performance.md anew from what the benchmarks left in build/bench.

A table stands between `<!-- table: BENCH [CASE..] -->` and `<!-- end of table -->`; a CASE is a
case's name, or the beginning of some up to a dash. All else is prose and stays as it is, as does a
table of which there are no results. Nothing is measured here.
"""

import argparse
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'e2e'), HERE]
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import outcome  # noqa: E402
from harness import build  # noqa: E402
from report import markdown, number  # noqa: E402
from results import Failure, cell  # noqa: E402

DOCUMENT = os.path.join(build.ROOT, 'doc/performance.md')
BEGIN = r'<!-- table: (?P<words>[^>]*?) -->\n'
END = '<!-- end of table -->'
HEAD = ['case', 'state', 'ours', 'peer', 'unit', 'ours / peer', 'quartiles', 'target', 'result',
        'pairs (dropped)', 'peer is']


def line(row):
    low, high = row['spread']
    sign = 'at most ' if row.get('better') == 'less' else ''
    return [row['case'], row['state'], number(row['ours']), number(row['peer']), row['unit'],
            f'**{cell(row["ratio"])}**', f'{cell(low)}..{cell(high)}',
            '-' if row['target'] is None else f'{sign}{row["target"]:g}',
            outcome.result(row),
            f'{row["pairs"]} ({row["dropped"]})', row['peer_name']]


def text(made, words):
    """The table of these cases and what it was measured on; None: no such case was."""
    rows = [row for row in made['rows']
            if not words or any(row['case'] == w or row['case'].startswith(w + '-') for w in words)]
    if not rows:
        return None
    about = made['about']
    return (f'{about["date"]}, {about["cpu"]}, kernel {about["kernel"]}, switch on {about["dpdk"]}, '
            f'pages of {about["pages"]}; build {about["build"]}.\n\n'
            + markdown(HEAD, map(line, rows)) + '\n')


def load(name):
    try:
        with open(os.path.join(build.build_dir(), 'bench', name + '.json'), encoding='ascii') as f:
            return json.load(f)
    except FileNotFoundError:
        return None


def refresh(path=DOCUMENT):
    """Write the tables of the document; what became of each, one line a table."""
    with open(path, encoding='utf-8') as f:
        document = f.read()
    said = []

    def anew(match):
        name, *words = match['words'].split()
        made = load(name)
        table = made and text(made, words)
        said.append(f'{path}: table of {match["words"]}: '
                    + ('written' if table else 'left as it is, nothing was measured'))
        return match[0] if table is None else match['begin'] + table + END
    pattern = f'(?P<begin>{BEGIN})(?:(?!<!-- ).)*?{END}'
    if len(re.findall(BEGIN, document)) != len(re.findall(pattern, document, re.S)):
        raise Failure(f'{path}: a table has no end: {END}')
    document = re.sub(pattern, anew, document, flags=re.S)
    if not said:
        raise Failure(f'{path} has no <!-- table: BENCH --> to be written')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(document)
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--build', default='build', help='build directory (default: build)')
    parser.add_argument('document', nargs='?', default=DOCUMENT,
                        help='which one (default: doc/performance.md)')
    options = parser.parse_args()
    os.environ['SLUICE_BUILD'] = os.path.realpath(options.build)
    print('\n'.join(refresh(options.document)))


if __name__ == '__main__':
    try:
        main()
    except Failure as failure:
        sys.exit(f'perfdoc: {failure}')
    except OSError as error:
        sys.exit(f'perfdoc: {error.strerror}: {error.filename}')
