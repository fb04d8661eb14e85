# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The runner with a machine and sides that are made up: nothing is measured here."""

import json
import os
import re
import stat
import subprocess
import xml.etree.ElementTree as ElementTree

import bench
import definition
import outcome
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
FAR_SHARED = Reading(240.0, (15.0, 10.0), 1.0, 3.3)
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
    (Reading(42.9, (8.0, 8.0), 1.0, 3.3), 'sibling shared'),
    (Reading(43.0, (8.0, 8.0), 1.0, 3.3), 'near shared'),
    (Reading(42.9, (14.0, 14.0), 1.0, 3.3), 'near clean'),
    (Reading(42.9, (14.0, 8.0), 1.0, 3.3), 'near shared'),
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


def test_order_is_a_b_b_a_with_a_probe_between_any_two():
    pairs, log = collect([NEAR], [2], [1], 4)
    assert len(pairs) == 4
    assert [name for name in log if name != 'probe'] == list('ABBAABBA')
    assert log == ['probe'] + [word for side in 'ABBAABBA' for word in (side, 'probe')]


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
    pairs, _ = collect([NEAR] * 3 + [NEAR, FAR] + [FAR], [2], [1], 3)
    states = paired.by_state(pairs)
    assert {name: len(found) for name, found in states.items()} == {'near clean': 1,
                                                                    'far clean': 3}
    assert len(pairs) == 5


def test_goes_on_until_each_place_that_was_asked_for_has_enough():
    readings = [NEAR] * 11 + [FAR_SHARED] * 100
    pairs, _ = collect(readings, [2], [1], 3, places=['far'])
    counted = {name: len(found) for name, found in paired.by_state(pairs).items()}
    assert counted == {'near clean': 5, 'far shared': 3}
    pairs, _ = collect(readings, [2], [1], 4, places=['far', 'near'])
    counted = {name: len(found) for name, found in paired.by_state(pairs).items()}
    assert counted == {'near clean': 5, 'far shared': 4}


def test_a_place_has_enough_when_one_of_its_states_has():
    assert not paired.enough({'far clean': 2, 'far shared': 2}, 3, ['far'])
    assert paired.enough({'far clean': 2, 'far shared': 3}, 3, ['far'])
    assert not paired.enough({'far clean': 9}, 3, ['near'])
    assert paired.enough({'far clean': 9}, 3) and not paired.enough({}, 3)


@pytest.mark.parametrize('readings', [[NEAR], [NEAR, FAR] * 100])
def test_begins_no_pair_after_the_time(readings):
    ticks = iter([0, 10, 20, 30])
    pairs, _ = collect(readings, [2], [1], 10, seconds=25, clock=lambda: next(ticks))
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


def fill(append=False, peer='stock', count=4, case='case', target=1.5):
    results = Results('made-up', {'other': Case('Mpps', 1.5, None), case: Case('Mpps', target, None)})
    pairs = list(results.begin(case, peer, append=append))
    for i in range(count):
        pairs.append(pair(3.0 + i, 2.0, FAR if i % 4 == 3 else NEAR))
        results.add(case, peer, pairs[-1], pairs)
    return results


def test_json_has_the_fields_and_keeps_states_apart(built):
    results = fill(count=16)
    changed = pair(1000.0, 1.0, NEAR, NEAR, NEAR, FAR)
    results.add('case', 'stock', changed, results.pairs['case', 'stock'] + [changed])
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


def test_a_target_may_depend_on_the_place_of_the_cpus(built):
    targets = {row['state']: row['target']
               for row in fill(count=16, target={'far': 2.0, 'near': 1.75}).rows()}
    assert targets == {'near clean': 1.75, 'far clean': 2.0}
    results = fill(count=16, target={'far': 2.0})
    rows = results.write({})
    assert {row['state']: row['target'] for row in rows} == {'near clean': None, 'far clean': 2.0}
    assert table(rows).splitlines()[1].split()[6] == '-'
    picture = ElementTree.parse(built / 'bench/made-up.svg').getroot()
    assert [e.get('class') for e in picture.iter()].count('target') == 1


def test_append_goes_on_where_the_last_run_ended(built):
    whole = fill(count=8).rows()
    first = list(fill(count=3).pairs['case', 'stock'])
    pairs = fill(append=True, count=1).pairs['case', 'stock']
    assert len(pairs) == 4 and pairs[:3] == first
    fill(count=8)
    assert Results('made-up', fill(count=0, append=True).cases).rows() == whole
    assert fill(append=True, peer='newer').rows()[0] == whole[0]


def test_what_is_not_measured_again_stays(built):
    fill(count=8)
    fill(case='other', count=5)
    again = fill(count=4)
    assert {key: len(pairs) for key, pairs in again.pairs.items()} == {
        ('case', 'stock'): 4, ('other', 'stock'): 5}
    assert [row['case'] for row in again.rows()] == ['other', 'case']  # as the bench has them


def test_one_case_mixes_no_two_builds(built, monkeypatch):
    of_this = fill(peer='older').build
    fill()
    monkeypatch.setattr(results_module, 'fingerprint', lambda: 'another')
    results = fill(append=True, count=3)
    assert list(results.pairs) == [('case', 'stock')]
    assert len(results.pairs['case', 'stock']) == 3 and results.builds() == ['another']
    fill(case='other', count=4)
    monkeypatch.setattr(results_module, 'fingerprint', lambda: of_this)
    results = fill(append=True, count=3)
    assert {key: len(pairs) for key, pairs in results.pairs.items()} == {
        ('case', 'stock'): 3, ('other', 'stock'): 4}
    assert results.builds() == sorted([of_this, 'another'])
    results.write({})
    about = json.loads((built / 'bench/made-up.json').read_text(encoding='ascii'))['about']
    assert about['build'] == ', '.join(results.builds())


def test_lines_of_an_older_form_are_passed_over(built):
    fill(count=3)
    path = built / 'bench/made-up.pairs'
    path.write_text('{"build": "old"}\n["case", "stock", []]\n' + path.read_text(encoding='ascii'),
                    encoding='ascii')
    assert len(fill(append=True, count=1).pairs['case', 'stock']) == 4


def test_a_line_that_was_broken_off_is_passed_over(built):
    fill(count=4)
    path = built / 'bench/made-up.pairs'
    path.write_text(path.read_text(encoding='ascii')[:-20], encoding='ascii')
    assert len(fill(append=True, count=1).pairs['case', 'stock']) == 4


def test_what_earlier_runs_measured_outlives_an_end_while_it_is_written(built, monkeypatch):
    fill(case='other', count=5).write({})
    kept = {kind: (built / f'bench/made-up.{kind}').read_text(encoding='utf-8')
            for kind in ('pairs', 'json', 'svg')}

    def end(*args):
        raise KeyboardInterrupt
    monkeypatch.setattr(results_module.os, 'replace', end)
    for write in fill, lambda: Results('made-up', {}).write({}):
        with pytest.raises(KeyboardInterrupt):
            write()
    assert kept == {kind: (built / f'bench/made-up.{kind}').read_text(encoding='utf-8')
                    for kind in kept}
    monkeypatch.undo()


@pytest.mark.parametrize('ratio, count, said', [
    (3.0, 10, 'met'),
    (3.0, 9, 'few pairs'),
    (1.0, 10, 'missed by 0.5'),
    (1.0, 9, 'few pairs, missed by 0.5'),
])
def test_few_pairs_meet_no_target(built, ratio, count, said):
    results = Results('made-up', {'case': Case('Mpps', 1.5, None)})
    results.begin('case', 'stock')
    results.pairs['case', 'stock'] = [pair(ratio, 1.0, NEAR)] * count
    row, = results.rows()
    assert outcome.result(row) == said
    assert outcome.result({**row, 'target': None}) == ('-' if count == 10 else 'few pairs')
    head, line = table([row], outcome.result).splitlines()
    assert re.sub(' +', ' ', line[head.index('result'):]) == f'{said} stock' and head.endswith('  peer')


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
    for case in defined.cases.values():
        targets = case.target.values() if isinstance(case.target, dict) else [case.target]
        assert case.unit and targets and callable(case.sides)
        assert all(t is None or t > 0 for t in targets) and case.better in ('more', 'less')
        assert not isinstance(case.target, dict) or set(case.target) <= set(bench.PLACES)


def test_no_two_cases_of_all_benches_have_one_name():
    names = [case for name in definition.names() for case in definition.load(name).cases]
    assert len(set(names + definition.names())) == len(names) + len(definition.names())


# --- which cases --------------------------------------------------------------------------------


def made_up(name, cases, default=None):
    return Bench(name, 'nothing', {case: Case('Mpps', 1.0, None) for case in cases}, default)


ROUND = made_up('round', ['round-64', 'round-64-256', 'round-1518', 'round-memif-64'], ['round-64'])
SWITCH = made_up('switch', ['vm2vm-64', 'vm2vm-640', 'vm2vm-ovs-64'])
THERE = {'round': ROUND, 'switch': SWITCH}


@pytest.mark.parametrize('words, chosen', [
    (['vm2vm-64'], {'switch': ['vm2vm-64']}),
    (['round-64'], {'round': ['round-64']}),
    (['vm2vm'], {'switch': ['vm2vm-64', 'vm2vm-640', 'vm2vm-ovs-64']}),
    (['round-memif'], {'round': ['round-memif-64']}),
    (['round'], {'round': ['round-64']}),
    (['round-memif', 'round-1518', 'round-1518'], {'round': ['round-1518', 'round-memif-64']}),
    (['vm2vm-ovs', 'round-1518'], {'round': ['round-1518'], 'switch': ['vm2vm-ovs-64']}),
    ([], {'round': ['round-64'], 'switch': ['vm2vm-64', 'vm2vm-640', 'vm2vm-ovs-64']}),
])
def test_a_word_names_a_case_or_the_beginning_of_some_or_a_bench(words, chosen):
    assert definition.choose(words, THERE) == chosen


@pytest.mark.parametrize('word, said', [
    ('vm2vm-6', 'no case vm2vm-6; near to it: vm2vm-64 vm2vm-640; --list .*'),
    ('vm2wm-64', 'no case vm2wm-64; near to it: vm2vm-64 .*'),
    ('nothing-like-it', 'no case nothing-like-it; --list .*'),
])
def test_a_word_that_names_nothing_gets_names_near_to_it(word, said):
    with pytest.raises(LookupError, match=said) as caught:
        definition.choose(['vm2vm-64', word], THERE)
    assert '\n' not in str(caught.value)


def run(monkeypatch, *words):
    monkeypatch.setattr('sys.argv', ['bench.py', *words])
    return bench.main()


@pytest.fixture
def two_benches(built, monkeypatch):
    """A bench `one` of the cases one-a and one-b, `two` of two-a; the peer of one-b breaks."""
    log = []
    sides = (Script('ours', [3.0], log), Script('peer', [2.0], log))
    place = {}

    def broken(its_place):
        place['b'] = its_place
        raise ProcError('peer is gone')

    def start(its_place):
        place['a'] = its_place
        return sides
    benches = {'one': Bench('one', 'nothing', {'one-a': Case('Mpps', 1.0, start),
                                               'one-b': Case('Mpps', 1.0, broken)}),
               'two': Bench('two', 'nothing', {'two-a': Case('Mpps', 1.0, start)})}
    monkeypatch.setattr(definition, 'names', lambda: list(benches))
    monkeypatch.setattr(definition, 'load', benches.get)
    monkeypatch.setattr(bench, 'check_built', lambda: None)
    monkeypatch.setattr(bench, 'default_directory', lambda: '/nowhere')
    monkeypatch.setattr(bench, 'Probe', lambda: lambda: NEAR)
    monkeypatch.setattr(bench, 'Hugepages', NoHugepages)
    return place


def rows_of(built, name):
    return json.loads((built / f'bench/{name}.json').read_text(encoding='ascii'))['rows']


def test_bench_from_end_to_end(built, two_benches, monkeypatch, capsys):
    words = ['--build', str(built), '--case', 'two-a']
    run(monkeypatch, *words, '--pairs', '4')
    row, = rows_of(built, 'two')
    assert (row['case'], row['ratio'], row['pairs'], row['peer_name']) == ('two-a', 1.5, 4, 'peer')
    run(monkeypatch, *words, '--pairs', '2', '--append')
    assert rows_of(built, 'two')[0]['pairs'] == 6
    assert 'two-a ' in capsys.readouterr().out
    with pytest.raises(Failure, match='two-a: fewer than 3 pairs in one state: of 1 the machine was '
                       'busy in 0, and changed in 0$'):
        run(monkeypatch, *words, '--pairs', '1')
    with pytest.raises(Failure, match='two-a: fewer than 3 pairs in far'):
        run(monkeypatch, *words, '--pairs', '3', '--state', 'far', '--seconds', '0')
    assert not (built / 'bench/one.json').exists()
    with pytest.raises(Failure, match='no case three; '):
        run(monkeypatch, 'two', '--build', str(built), '--case', 'three')


def test_a_case_that_fails_leaves_the_others_their_turn(built, two_benches, monkeypatch):
    with pytest.raises(Failure, match='^one-b: peer is gone$'):
        run(monkeypatch, '--build', str(built), '--pairs', '3')
    assert [row['case'] for row in rows_of(built, 'one') + rows_of(built, 'two')] == ['one-a',
                                                                                      'two-a']


def dpdk_of(directory, built_here=True):
    program(directory, '').rename(directory / 'dpdk-testpmd')
    if built_here:
        (directory / 'install/lib/pkgconfig').mkdir(parents=True)
        (directory / 'install/lib/pkgconfig/libdpdk.pc').touch()
    return directory


def test_which_dpdk_a_side_gets(built, two_benches, tmp_path, monkeypatch):
    (tmp_path / 'p').mkdir()
    here, debian = dpdk_of(tmp_path), dpdk_of(tmp_path / 'p', built_here=False)
    words = ['--build', str(built), '--case', 'two-a', '--pairs', '3']
    run(monkeypatch, *words)
    place = two_benches['a']
    assert place.dpdk_of(True) is place.dpdk_of(False) is place.peer_program() is None
    run(monkeypatch, *words, '--dpdk', str(here))
    place = two_benches['a']
    assert place.dpdk_of(True) is place.dpdk_of(False)
    assert (place.dpdk.origin, place.peer_program()) == (' native', str(here / 'dpdk-testpmd'))
    place.use_installed()
    assert place.dpdk_of(True) is place.dpdk_of(False) is None
    monkeypatch.setattr(bench, 'default_directory', lambda: str(here))
    run(monkeypatch, *words)
    assert two_benches['a'].dpdk.directory == str(here)
    run(monkeypatch, *words, '--dpdk', 'installed')
    assert two_benches['a'].dpdk is None
    with pytest.raises(Failure, match='two-a: it has no peer that --peer-dpdk could replace'):
        run(monkeypatch, *words, '--peer-dpdk', str(debian))
    place = two_benches['a']
    assert place.dpdk_of(True).directory == str(here)
    assert (place.dpdk_of(False).directory, place.dpdk_of(False).origin) == (str(debian), '')
    with pytest.raises(Failure, match='nothing to compile a driver with'):
        place.peer_dpdk.plugin()


class NoHugepages:
    reason = 'none here'

    def __init__(self, megabytes, directory):
        os.rmdir(directory)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass


def test_words_are_checked_without_a_build(two_benches, monkeypatch, capsys):
    monkeypatch.setattr(bench, 'check_built', lambda: pytest.fail('it looked for a build'))
    run(monkeypatch, '--check', '--build', '/nowhere', '--case', 'one-a', '--pairs', '3', '--doc')
    with pytest.raises(Failure, match='^no case one-c; near to it: .*; --list .make bench-list. '):
        run(monkeypatch, '--check', '--build', '/nowhere', '--case', 'one-c')
    assert capsys.readouterr().out == ''


def test_make_bench_names_a_wrong_case_before_it_builds(tmp_path):
    done = subprocess.run(['make', '-s', '-C', results_module.build.ROOT, 'bench', 'CASE=loopbak-64',
                           f'BUILD={tmp_path}/none'], capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if not re.match(r'make(\[\d+\])?: ', line)]
    assert done.returncode == 2 and len(lines) == 1 and done.stdout == ''
    assert lines[0].startswith('bench: no case loopbak-64; near to it: ') and '--list' in lines[0]
    assert not (tmp_path / 'none').exists()


def test_a_build_that_ended_half_way_is_named(built, monkeypatch):
    for part in ('drivers/net/sluice/librte_net_sluice.so', 'app/sluice-vswitch/sluice-vswitch',
                 'test/bench/traffic/sluice-traffic', 'test/bench/pair', 'test/bench/limit',
                 'test/bench/turn', 'test/bench/probe'):
        with pytest.raises(Failure, match='^/.* is not there: run make, .*--build$') as caught:
            run(monkeypatch, '--build', str(built), '--dpdk', 'installed')
        assert '\n' not in str(caught.value)
        path = built / part
        path.parent.mkdir(parents=True, exist_ok=True)
        program(path.parent, '').rename(path)
    monkeypatch.setattr(results_module.build, 'testpmd', lambda: str(path))
    results_module.check_built()


@pytest.mark.parametrize('words, said', [
    (['nonesuch'], 'no bench nonesuch; there are: .*loopback'),
    (['loopback', '--pairs', '0'], '--pairs: at least 1'),
    (['loopback', '--peer-dpdk', '/nowhere'], '/nowhere has no dpdk-testpmd: .*build-dpdk'),
    (['loopback', '--dpdk', '/nowhere'], '/nowhere has no dpdk-testpmd: .*build-dpdk'),
    (['limit', '--case', 'loopback-64-256'], 'no case loopback-64-256; '),
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


@pytest.mark.parametrize('words, said', [
    (['--git', 'https://example.org/dpdk', '/nowhere'], '--git .*: give URL@TAG, for example '),
    (['--source', '/nowhere', '/nowhere/dpdk'], '--source /nowhere: no source tree of DPDK'),
    ([definition.HERE], '.* is in the source tree: name a directory outside of it'),
])
def test_build_dpdk_refuses_what_it_cannot_build(words, said):
    done = subprocess.run([os.path.join(definition.HERE, 'peers/build-dpdk'), *words],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert re.match('build-dpdk: ' + said, done.stderr)
