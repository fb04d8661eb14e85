# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The benchmark `growth`, and rows of which less is better; nothing is measured here."""

import json

import definition
import outcome
import perfdoc
import pytest
from definition import Case, Command
from results import Results, table
from test_runner import NEAR, pair

GROWTH = definition.load('growth')


def module(name):
    definition.load(name)
    return __import__(name)


def options(command):
    """{option: number} of a command line."""
    words = command.argv[command.argv.index('--ports'):]
    return {name: int(value) for name, value in zip(words[::2], words[1::2])}


def test_a_cost_is_the_time_of_a_packet():
    cost = module('growth').Cost(lambda: 4.0, 'four a microsecond')
    assert cost() == 250.0


@pytest.mark.parametrize('name', [name for name in GROWTH.cases if 'vm2vm' not in name])
def test_one_thing_grows(name):
    ours, peer = GROWTH.cases[name].sides(None)
    assert isinstance(ours.side, Command) and isinstance(peer.side, Command)
    grown, least = options(ours.side), options(peer.side)
    changed = [option for option in grown if grown[option] != least[option]]
    assert changed == ['--' + name.split('-')[1]]
    what = changed[0][2:]
    assert (ours.name, peer.name) == (f'{what} {grown[changed[0]]}', f'{what} {least[changed[0]]}')
    assert str(grown[changed[0]]) == name.split('-')[2]
    if GROWTH.cases[name].target is not None:
        assert grown[changed[0]] > least[changed[0]]


def test_of_each_case_less_is_better():
    assert {case.better for case in GROWTH.cases.values()} == {'less'}


@pytest.mark.parametrize('cost, said', [(1.0, 'met'), (1.1, 'met'), (1.5, 'missed by 0.4')])
def test_a_row_of_which_less_is_better(tmp_path, monkeypatch, cost, said):
    monkeypatch.setenv('SLUICE_BUILD', str(tmp_path))
    results = Results('made-up', {'cost': Case('ns/packet', 1.1, None, 'less'),
                                  'rate': Case('Mpps', 1.1, None)})
    for case in results.cases:
        results.begin(case, 'few')
        for _ in range(3):
            results.add(case, 'few', pair(cost, 1.0, NEAR),
                        results.pairs.get((case, 'few'), []) + [pair(cost, 1.0, NEAR)])
    results.write({})
    cost_row, rate_row = json.loads((tmp_path / 'bench/made-up.json').read_text())['rows']
    assert cost_row['better'] == 'less' and 'better' not in rate_row
    assert outcome.verdict(cost_row) == said
    lines = table([cost_row, rate_row]).splitlines()
    assert '<1.100' in lines[1] and '<' not in lines[2]
    assert 'at most 1.1' in perfdoc.line(cost_row) and '1.1' in perfdoc.line(rate_row)
