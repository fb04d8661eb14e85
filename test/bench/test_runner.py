# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The runner with a machine and sides that are made up: nothing is measured here."""

import json
import os
import stat
import xml.etree.ElementTree as ElementTree

import bench
import definition
import pairs as paired
import pytest
import results as results_module
import state
from definition import Bench, Case, Command
from harness.proc import ProcError
from results import Failure, Results, table
from state import Reading

NEAR = Reading(80.0, (15.0, 14.5), 1.0, 3.3)
FAR = Reading(240.0, (15.0, 14.5), 1.0, 3.3)
SHARED = Reading(80.0, (15.0, 10.0), 1.0, 3.3)
DISTURBED = Reading(80.0, (15.0, 14.5), 0.5, 3.3)
FIELDS = ['case', 'unit', 'ours', 'peer', 'peer_name', 'ratio', 'spread', 'pairs', 'state',
          'target', 'dropped']


class Script:
    """A probe or a side that says one thing after the other, and writes down when it was asked."""

    def __init__(self, name, values, log):
        self.name, self.values, self.log = name, list(values), log

    def __call__(self):
        self.log.append(self.name)
        return self.values.pop(0) if len(self.values) > 1 else self.values[0]


def collect(readings, ours, peer, wanted, **options):
    log = []
    pairs = paired.collect(Script('probe', readings, log), Script('A', ours, log),
                           Script('B', peer, log), wanted, **options)
    return pairs, log


def pair(ours, peer, *readings):
    a, b, c, d = readings * 4 if len(readings) == 1 else readings
    return paired.Pair(paired.Trial(ours, a, b), paired.Trial(peer, c, d))


# --- states ---------------------------------------------------------------------------------


@pytest.mark.parametrize('reading, expected', [
    (Reading(55.0, (14.0, 14.0), 1.0, 3.3), 'near clean'),
    (Reading(42.9, (14.0, 14.0), 1.0, 3.3), 'sibling clean'),
    (Reading(43.0, (14.0, 14.0), 1.0, 3.3), 'near clean'),
    (Reading(159.0, (14.0, 14.0), 0.75, 3.3), 'near clean'),
    (Reading(160.0, (14.0, 14.0), 1.0, 3.3), 'far clean'),
    (Reading(240.0, (14.0, 9.0), 1.0, 3.3), 'far shared'),
    (Reading(80.0, (9.0, 14.0), 1.0, 3.3), 'near shared'),
    (Reading(80.0, (14.0, 14.0), 0.74, 3.3), state.BUSY),
])
def test_state_of_a_reading(reading, expected):
    assert state.name(reading, 14.0) == expected


def test_pair_has_the_state_that_its_four_probes_agree_on():
    assert list(paired.by_state([pair(1, 1, NEAR)])) == ['near clean']
    for i in range(4):
        for odd, name in (FAR, 'far clean'), (SHARED, 'near shared'), (DISTURBED, state.BUSY):
            readings = [NEAR] * 4
            readings[i] = odd
            assert sorted(paired.states_of(pair(1, 1, *readings), 15.0)) == sorted(
                ['near clean', name])
            assert paired.by_state([pair(1, 1, *readings)]) == {}
    assert paired.by_state([pair(1, 1, DISTURBED)]) == {}


def test_a_faster_probe_later_renames_the_earlier_ones():
    slow = Reading(80.0, (10.0, 10.0), 1.0, 3.3)
    assert list(paired.by_state([pair(1, 1, slow)])) == ['near clean']
    states = paired.by_state([pair(1, 1, slow), pair(1, 1, NEAR)])
    assert {name: len(found) for name, found in states.items()} == {'near shared': 1,
                                                                    'near clean': 1}


def test_speed_of_a_cpu_alone_is_the_best_seen_or_what_its_clock_promises():
    assert state.fastest([Reading(80.0, (15.0, 9.0), 1.0, 3.3), NEAR]) == 15.0
    assert state.fastest([Reading(80.0, (4.0, 3.0), 1.0, 2.5)]) == 5.0
    assert list(paired.by_state([pair(1, 1, Reading(80.0, (4.0, 4.0), 1.0, 2.5))])) == ['near shared']


# --- the order of trials ----------------------------------------------------------------------


def test_order_is_a_b_b_a_with_a_probe_around_each():
    pairs, log = collect([NEAR], [2], [1], 4)
    assert len(pairs) == 4
    assert [name for name in log if name != 'probe'] == list('ABBAABBA')
    assert log == [word for side in 'ABBAABBA' for word in ('probe', side, 'probe')]


def test_continued_run_goes_on_with_the_order():
    done, _ = collect([NEAR], [2], [1], 1)
    pairs, log = collect([NEAR], [2], [1], 2, done=done)
    assert len(pairs) == 3
    assert [name for name in log if name != 'probe'] == list('BAAB')


def test_sides_are_not_exchanged_by_the_order():
    pairs, _ = collect([NEAR], [10, 20, 30], [1, 2, 3], 3)
    assert [(p.ours.rate, p.peer.rate) for p in pairs] == [(10, 1), (20, 2), (30, 3)]


# --- how many -----------------------------------------------------------------------------------


def test_ends_when_one_state_has_enough():
    # The first pair is near, the second changes on the way, then it stays far.
    pairs, _ = collect([NEAR] * 4 + [NEAR, NEAR, NEAR, FAR] + [FAR], [2], [1], 3)
    states = paired.by_state(pairs)
    assert {name: len(found) for name, found in states.items()} == {'near clean': 1,
                                                                    'far clean': 3}
    assert len(pairs) == 5


def test_tries_three_times_as_many_and_no_more():
    pairs, _ = collect([NEAR, FAR] * 100, [2], [1], 4)
    assert len(pairs) == 12
    assert paired.by_state(pairs) == {}


def test_begins_no_pair_after_the_time():
    ticks = iter([0, 10, 20, 30])
    pairs, _ = collect([NEAR], [2], [1], 10, seconds=25, clock=lambda: next(ticks))
    assert len(pairs) == 3


def test_pairs_of_an_earlier_run_do_not_count_as_new_ones():
    done, _ = collect([NEAR], [2], [1], 5)
    pairs, _ = collect([NEAR], [2], [1], 2, done=done)
    assert len(pairs) == 7


def test_told_of_each_pair():
    told = []
    pairs, _ = collect([NEAR], [2], [1], 3, found=lambda pair, all_: told.append((pair, len(all_))))
    assert told == [(pairs[0], 1), (pairs[1], 2), (pairs[2], 3)]


# --- rows ---------------------------------------------------------------------------------------


def test_ratio_is_the_median_of_the_paired_ratios():
    # The ratio of the medians would be 2: the second pair met a slow moment on both sides.
    row = paired.row('near clean', [pair(4, 2, NEAR), pair(1, 1, NEAR), pair(9, 3, NEAR),
                                    pair(8, 4, NEAR), pair(10, 2, NEAR)])
    assert (row.ours, row.peer, row.ratio) == (8, 2, 2)
    assert row.spread == [2, 3]
    assert (row.pairs, row.state) == (5, 'near clean')
    row = paired.row('near clean', [pair(6, 1, NEAR), pair(8, 4, NEAR), pair(9, 9, NEAR)])
    assert (row.ours, row.peer, row.ratio, row.spread) == (8, 4, 2, [1, 6])


@pytest.fixture
def built(tmp_path, monkeypatch):
    monkeypatch.setenv('SLUICE_BUILD', str(tmp_path))
    return tmp_path


def fill(name='made-up', append=False, peer='stock', count=4):
    results = Results(name, {'case': Case('Mpps', 1.5, None)}, append=append)
    pairs = list(results.of('case', peer))
    for i in range(count):
        pairs.append(pair(3.0 + i, 2.0, FAR if i % 4 == 3 else NEAR))
        results.add('case', peer, pairs[-1], pairs)
    return results


def test_json_has_the_fields_and_keeps_states_apart(built):
    results = fill(count=16)
    changed = pair(1000.0, 1.0, NEAR, NEAR, NEAR, FAR)
    results.add('case', 'stock', changed, results.of('case', 'stock') + [changed])
    results.write({'cpu': 'made up'})
    written = json.loads((built / 'bench/made-up.json').read_text(encoding='ascii'))
    assert list(written) == ['bench', 'about', 'rows']
    assert written['bench'] == 'made-up'
    assert written['about']['cpu'] == 'made up'
    assert [list(row) for row in written['rows']] == [FIELDS] * 2
    near, far = written['rows']
    assert near == {'case': 'case', 'unit': 'Mpps', 'ours': 10.0, 'peer': 2.0, 'peer_name': 'stock',
                    'ratio': 5.0, 'spread': [3.25, 6.75], 'pairs': 12, 'state': 'near clean',
                    'target': 1.5, 'dropped': 1}
    assert (far['pairs'], far['state'], far['ratio']) == (4, 'far clean', 6.0)
    lines = table(written['rows']).splitlines()
    assert len(lines) == 3 and all(line.endswith('stock') for line in lines[1:])


def test_too_few_pairs_make_no_row(built):
    assert fill(count=2).rows() == []
    assert len(fill(count=3).rows()) == 1


def test_append_goes_on_where_the_last_run_ended(built):
    whole = fill(count=8).rows()
    fill(count=3)
    results = fill(append=True, count=1)
    assert len(results.of('case', 'stock')) == 4
    assert fill(count=4).of('case', 'stock')[:3] == results.of('case', 'stock')[:3]
    fill(count=8)
    again = Results('made-up', {'case': Case('Mpps', 1.5, None)}, append=True)
    assert again.rows() == whole
    assert fill(append=True, peer='newer').rows()[0] == whole[0]


def test_append_mixes_no_two_builds(built, monkeypatch):
    fill()
    monkeypatch.setattr(results_module, 'fingerprint', lambda: 'another')
    with pytest.raises(Failure, match='another build'):
        fill(append=True)
    fill()


def test_picture_shows_each_row(built):
    results = fill(count=16)
    results.write({})
    root = ElementTree.parse(built / 'bench/made-up.svg').getroot()
    space = '{http://www.w3.org/2000/svg}'
    looks = [e.get('class') for e in root.iter() if e.get('class')]
    assert [looks.count(look) for look in ('median', 'spread', 'target')] == [2, 2, 2]
    width = float(root.get('width'))
    by_look = {look: [e for e in root.iter(space + 'line') if e.get('class') == look]
               for look in ('spread', 'target')}
    for dot, spread, target in zip(root.iter(space + 'circle'), *by_look.values()):
        places = [float(target.get('x1')), float(spread.get('x1')), float(dot.get('cx')),
                  float(spread.get('x2'))]
        assert places == sorted(places) and places[-1] < width


# --- definitions and the command line -----------------------------------------------------------


def program(tmp_path, text):
    path = tmp_path / 'program'
    path.write_text('#!/bin/sh\n' + text, encoding='ascii')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_program_prints_its_rate_last(tmp_path):
    path = program(tmp_path, 'echo "8 packets of 64B: $1 Mpps"')
    assert Command('ours', path, '12.75')() == 12.75
    assert Command('ours', path, '1e3')() == 1000.0


@pytest.mark.parametrize('text, said', [
    ('echo 5; echo broken >&2; exit 3', 'exit status 3, said: broken'),
    ('echo none', 'exit status 0, said: none'),
    ('true', 'said: nothing'),
])
def test_a_program_that_fails_is_named(tmp_path, text, said):
    path = program(tmp_path, text)
    with pytest.raises(ProcError, match=f'{path}: .*{said}'):
        Command('ours', path)()


def test_a_program_that_is_missing_or_hangs(tmp_path):
    with pytest.raises(ProcError, match='No such file'):
        Command('ours', tmp_path / 'none')()
    with pytest.raises(ProcError, match='timed out'):
        Command('ours', program(tmp_path, 'exec sleep 60'), timeout=0.1)()


@pytest.mark.parametrize('name', definition.names())
def test_each_bench_is_defined_whole(name):
    defined = definition.load(name)
    assert defined.name == name and defined.text
    assert defined.default and set(defined.default) <= set(defined.cases)
    assert all(case.unit and case.target > 0 and callable(case.sides)
               for case in defined.cases.values())


def run(monkeypatch, *words):
    monkeypatch.setattr('sys.argv', ['bench.py', *words])
    return bench.main()


def test_bench_from_end_to_end(built, monkeypatch, capsys):
    log = []
    sides = (Script('ours', [3.0], log), Script('peer', [2.0], log))
    made_up = Bench('made-up', 'nothing', {'one': Case('Mpps', 1.0, lambda place: sides)})
    monkeypatch.setattr(definition, 'names', lambda: ['made-up'])
    monkeypatch.setattr(definition, 'load', lambda name: made_up)
    monkeypatch.setattr(bench.build, 'missing', lambda: None)
    monkeypatch.setattr(bench, 'Probe', lambda: lambda: NEAR)
    monkeypatch.setattr(bench, 'Hugepages', NoHugepages)
    words = ['made-up', '--build', str(built)]
    run(monkeypatch, *words, '--pairs', '4')
    row = json.loads((built / 'bench/made-up.json').read_text(encoding='ascii'))['rows'][0]
    assert (row['case'], row['ratio'], row['pairs'], row['peer_name']) == ('one', 1.5, 4, 'peer')
    run(monkeypatch, *words, '--pairs', '2', '--append')
    row = json.loads((built / 'bench/made-up.json').read_text(encoding='ascii'))['rows'][0]
    assert row['pairs'] == 6
    assert 'one ' in capsys.readouterr().out
    with pytest.raises(Failure, match='fewer than 3 pairs in one state: one'):
        run(monkeypatch, *words, '--pairs', '1')
    with pytest.raises(Failure, match='made-up has no case two; it has: one'):
        run(monkeypatch, *words, '--case', 'two')


class NoHugepages:
    reason = 'none here'

    def __init__(self, megabytes, directory):
        os.rmdir(directory)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass


@pytest.mark.parametrize('words, said', [
    (['nonesuch'], 'no bench nonesuch; there are: .*loopback'),
    (['loopback', '--pairs', '0'], '--pairs: at least 1'),
    (['loopback', '--peer-dpdk', '/nowhere'], '/nowhere has no dpdk-testpmd: .*build-dpdk'),
    (['loopback', '--build', '/nowhere'], '/nowhere/.* is not there: run make'),
])
def test_bad_command_lines_say_what_to_do(monkeypatch, words, said):
    monkeypatch.setenv('SLUICE_BUILD', '/nowhere')
    with pytest.raises(Failure, match=said):
        run(monkeypatch, *words)


def test_list_names_every_bench_and_case(monkeypatch, capsys):
    monkeypatch.setenv('SLUICE_BUILD', '/nowhere')
    run(monkeypatch, '--list')
    out = capsys.readouterr().out.split()
    for name in definition.names():
        assert name + ':' in out
        assert set(definition.load(name).cases) <= set(out)
