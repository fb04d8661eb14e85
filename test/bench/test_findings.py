# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The experiments' frame with experiments and a machine that are made up: nothing is measured."""

import json
import math
import xml.etree.ElementTree as ElementTree
from contextlib import contextmanager

import curve as curves
import experiment as experiments
import findings
import outcome
import pairs as paired
import pytest
import report
import results as results_module
from experiment import Column, Compare, Curve, Experiment, Part, Sample
from results import Failure, table
from samples import Samples
from test_runner import DISTURBED, FAR, NEAR, NoHugepages, Script

# The gap that the terminal, the rows and the document show of a made-up rule: drops a trial.
DROPS = {'A': 10.0, 'B': 20.0, 'C': 40.0}


class Bench:
    """Writes down what it is asked, and in which order."""

    def __init__(self, log, figures=lambda variant, point, seed: {'drops': DROPS[variant]}):
        self.log, self.figures = log, figures

    def measure(self, variant, point, seed):
        self.log.append((point, variant, seed))
        return self.figures(variant, point, seed)


def made_up(log=None, figures=None, parts=None, **more):
    bench = Bench([] if log is None else log, *([figures] if figures else []))

    @contextmanager
    def start(place, part):
        del place, part
        yield bench
    default = {'columns': [Column('drops', 'drops', '{:.1f}')],
               'comparisons': [Compare('A / C', 'drops', 'A', 'C', 'frames', 0.5, better='less')],
               'curves': [Curve('curve', 'Made up', 'drops', 'x', 'drops')], 'rounds': 4}
    part = Part('part', 'A part', ['A', 'B', 'C'], [1, 2.5], start, **{**default, **more})
    return Experiment('made-up', 'An experiment', 'It was found.', 'It is repeated.', 'Not this.',
                      [part] if parts is None else [part, *parts])


def sample(variant, value, number=0, point=1, before=NEAR, after=NEAR, part='part'):
    return Sample(part, point, variant, number, 7, paired.Trial({'drops': value}, before, after))


def one_row(samples, **compare):
    found, missing = outcome.rows(made_up(comparisons=[Compare(
        **{'case': 'A / C', 'figure': 'drops', 'ours': 'A', 'peer': 'C', 'unit': 'frames',
           'points': [1], **compare})]), samples)
    assert len(found) + len(missing) == 1
    return found[0] if found else missing[0]


def several(ours, peer, first=0, **more):
    return [s for i, (a, c) in enumerate(zip(ours, peer), first)
            for s in (sample('A', a, i, **more), sample('C', c, i, **more))]


# --- the order of trials, seeds -----------------------------------------------------------------


def run_part(made, probe=lambda: NEAR, **more):
    found = []
    experiments.run_part(made, made.parts[0], None, probe, found=found.append, **more)
    return found


def test_variants_go_forth_and_back_at_each_point():
    log = []
    found = run_part(made_up(log), rounds=3)
    order = [(p, v) for p in (1, 2.5) for v in 'ABC']
    back = [(p, v) for p in (1, 2.5) for v in 'CBA']
    assert [entry[:2] for entry in log] == order + back + order
    assert [(s.point, s.variant, s.seed) for s in found] == log
    assert [s.round for s in found] == [0] * 6 + [1] * 6 + [2] * 6
    assert all(s.trial.rate == {'drops': DROPS[s.variant]} for s in found)


def test_a_run_that_goes_on_keeps_the_order():
    log = []
    run_part(made_up(log), rounds=1, first=1)
    assert [entry[1] for entry in log] == list('CBACBA')


def test_a_probe_before_and_after_each_trial():
    log = []
    probe = Script('probe', [NEAR, FAR, DISTURBED, NEAR], log)
    made = made_up(figures=lambda variant, point, seed: log.append(variant) or {'drops': 1.0})
    found = run_part(made, probe=probe, rounds=1, points=[1])
    assert log == [word for v in 'ABC' for word in ('probe', v, 'probe')]
    assert [s.trial[1:] for s in found] == [(NEAR, FAR), (DISTURBED, NEAR), (NEAR, NEAR)]


def test_seeds_belong_to_a_round_and_a_point():
    def seeds(**more):
        log = []
        run_part(made_up(log), rounds=2, **more)
        return [[seed for _, _, seed in log[i:i + 3]] for i in range(0, 12, 3)]
    groups = seeds()
    assert all(len(set(group)) == 1 for group in groups)
    assert len({group[0] for group in groups}) == 4
    assert all(0 < group[0] < 2 ** 31 for group in groups)
    assert seeds() == groups
    assert not {g[0] for g in seeds(seed=2)} & {g[0] for g in groups}


# --- comparisons --------------------------------------------------------------------------------


def test_pairs_are_of_one_round_and_point():
    row = one_row([sample('C', 30, 2), *several([10, 20, 60], [20, 40, 60]), sample('A', 9, 4),
                   *several([1], [1000], point=2.5)])
    # The C of round 2 that came first is replaced by the later one, what has no peer is left out.
    assert (row['ours'], row['peer'], row['ratio'], row['pairs']) == (20, 40, 0.5, 3)
    assert row['spread'] == [0.5, 1.0]
    assert row['case'] == 'A / C 1' and row['peer_name'] == 'C'


def test_each_point_has_its_row_and_pooled_ones_share_one():
    samples = several([1, 1, 1], [2, 2, 2]) + several([1, 1, 1], [4, 4, 4], point=2.5)
    compare = Compare('A / C', 'drops', 'A', 'C', 'frames', how='total')
    found, missing = outcome.rows(made_up(comparisons=[compare]), samples)
    assert [(r['case'], r['ratio'], r['pairs']) for r in found] == [('A / C 1', 0.5, 3),
                                                                    ('A / C 2.5', 0.25, 3)]
    assert missing == []
    row = one_row(samples, how='total', pool=True, points=None)
    assert (row['case'], row['pairs'], row['ratio']) == ('A / C', 6, round(1 / 3, 4))


def test_total_is_the_ratio_of_the_sums():
    row = one_row(several([1, 0, 0, 7], [2, 0, 0, 14]), how='total')
    assert (row['ours'], row['peer'], row['ratio'], row['pairs']) == (2, 4, 0.5, 4)
    assert row['spread'][0] <= 0.5 <= row['spread'][1]
    assert one_row(several([1, 0, 9, 7], [2, 0, 0, 14]), how='total') == one_row(
        several([1, 0, 9, 7], [2, 0, 0, 14]), how='total')


@pytest.mark.parametrize('how', ['median', 'total'])
def test_a_peer_of_zero(how):
    row = one_row(several([0, 0, 0], [0, 0, 0]), how=how, target=1.0, better='less')
    assert (row['ratio'], row['spread'], outcome.verdict(row)) == (1.0, [1.0, 1.0], 'met')
    row = one_row(several([3, 3, 3], [0, 0, 0]), how=how, target=1.0, better='less')
    assert (row['ratio'], row['spread'], row['ours'], row['peer']) == (None, [None, None], 3, 0)
    assert outcome.verdict(row) == 'missed: the peer has 0'
    json.dumps(row, allow_nan=False)
    assert len(table([row]).splitlines()) == 2
    row = one_row(several([3, 3, 3], [0, 0, 0]), how=how, target=1.0, better='less', floor=3)
    assert (row['ratio'], row['ours'], row['peer']) == (1.0, 3, 0)


def test_zeros_among_pairs_are_no_obstacle():
    row = one_row(several([0, 5, 2], [0, 0, 4]))
    assert (row['ratio'], row['spread']) == (1.0, [0.5, None])
    row = one_row(several([0, 0, 0], [4, 4, 4]), target=0.127, better='less')
    assert (row['ratio'], outcome.verdict(row)) == (0.0, 'met')


@pytest.mark.parametrize('better, target, spread, expected', [
    ('less', 0.5, [0.4, 0.6], 'met'), ('less', 0.6, [0.4, 0.6], 'met'),
    ('less', 0.45, [0.4, 0.6], 'missed by 0.05, within the spread'),
    ('less', 0.3, [0.4, 0.6], 'missed by 0.2'),
    ('more', 0.5, [0.4, 0.6], 'met'), ('more', 0.4, [0.4, 0.6], 'met'),
    ('more', 0.55, [0.4, 0.6], 'missed by 0.05, within the spread'),
    ('more', 0.7, [0.4, 0.6], 'missed by 0.2'),
    ('more', None, [0.4, 0.6], ''),
])
def test_verdict(better, target, spread, expected):
    assert outcome.verdict({'target': target, 'ratio': 0.5, 'spread': spread,
                            'better': better}) == expected


def test_states_are_never_mixed():
    samples = several([1, 1, 1], [2, 2, 2])
    samples += several([9, 9, 9], [1, 1, 1], 3, before=FAR, after=FAR)
    samples += several([50], [1], 6, after=FAR) + several([50], [1], 7, after=DISTURBED)
    found, _ = outcome.rows(made_up(comparisons=[
        Compare('A / C', 'drops', 'A', 'C', 'frames', points=[1])]), samples)
    assert [(r['state'], r['ratio'], r['pairs'], r['dropped']) for r in found] == [
        ('near clean', 0.5, 3, 2), ('far clean', 9.0, 3, 2)]
    row = one_row(samples, any_state=True)
    assert (row['state'], row['pairs'], row['dropped']) == ('any', 7, 1)


def test_too_few_pairs_are_named():
    assert one_row(several([1, 1], [2, 2])) == 'part: A / C 1'


def test_what_was_not_measured_is_not_missed():
    assert outcome.rows(made_up(), several([1, 1, 1], [2, 2, 2]))[1] == []


def test_a_figure_that_only_some_have():
    samples = several([1, 1, 1], [2, 2, 2])
    del samples[1].trial.rate['drops']
    assert one_row(samples) == 'part: A / C 1'
    made = outcome.table(made_up().parts[0], samples, outcome.fastest(samples))
    assert made['lines'] == [['1', 'A', '1.0', '3', 'near clean'],
                             ['1', 'C', '2.0', '3', 'near clean']]


def test_a_table_is_of_one_state():
    samples = [sample('A', v, i, before=s, after=s)
               for i, (v, s) in enumerate([(1, NEAR), (2, FAR), (4, FAR), (9, DISTURBED)])]
    made = made_up()
    lines = outcome.table(made.parts[0], samples, outcome.fastest(samples))['lines']
    assert lines == [['1', 'A', '3.0', '2', 'far clean']]
    made = made_up(any_state=True)
    lines = outcome.table(made.parts[0], samples, outcome.fastest(samples))['lines']
    assert lines == [['1', 'A', '2.0', '3', 'any']]


# --- curves -------------------------------------------------------------------------------------


def made_curve(samples, points=None, **more):
    made = made_up(curves=[Curve('curve', 'Made "up"', 'drops', 'x', 'y', **more)])
    if points:
        made = made_up()
        part = Part('part', 'A part', ['A', 'C'], points, None)
        return outcome.curve(part, Curve('curve', 'Made up', 'drops', 'x', 'y', **more), samples,
                             outcome.fastest(samples))
    return outcome.outcome(made, samples)[0]['curves'][0]


def test_a_curve_has_medians_and_quartiles():
    samples = [sample('A', v, i) for i, v in enumerate([1, 2, 3, 4, 10])]
    samples += [sample('A', v, i, point=2.5) for i, v in enumerate([5, 9])]
    found = made_curve(samples + [sample('A', 99, 9, after=FAR)])
    assert found['lines'] == [{'variant': 'A', 'points': [[1, 2, 3, 4], [2.5, 5, 7, 9]],
                               'model': []}]
    assert found['ticks'] is None


def test_points_without_a_number_stand_side_by_side():
    samples = [sample('A', 1, point=64), sample('A', 2, point='imix')]
    found = made_curve(samples, [64, 'imix'])
    assert [line[0] for line in found['lines'][0]['points']] == [0, 1]
    assert found['ticks'] == [['64', 0], ['imix', 1]]
    found = made_curve(samples, [64, 'imix'], at=lambda p: None if p == 'imix' else p)
    assert found['lines'] == [{'variant': 'A', 'points': [[64, 1, 1, 1]], 'model': []}]
    found = made_curve(samples, [64, 'imix'], model='drops', variants=['A'])
    assert found['lines'][0]['model'] == found['lines'][0]['points']


@pytest.mark.skipif(not curves.available(), reason='gnuplot is not installed: run make deps')
@pytest.mark.parametrize('more', [{}, {'log_x': True, 'log_y': True}, {'model': 'drops'}])
def test_gnuplot_draws_it(more):
    samples = [sample(v, DROPS[v] + i, i, point=p) for v in 'AC' for p in (1, 2.5)
               for i in range(4)] + [sample('B', 0)]
    drawn = curves.svg(made_curve(samples, **more))
    # Pictures are kept in the tree, and lint looks at them.
    assert 'SPDX-License' in drawn.split('\n')[1] and drawn.endswith('</svg>\n')
    assert not any(line != line.rstrip() for line in drawn.split('\n'))
    root = ElementTree.fromstring(drawn)
    text = ' '.join(''.join(e.itertext()) for e in root.iter('{http://www.w3.org/2000/svg}text'))
    assert 'Made "up"' in text and all(f' {v} ' in f' {text} ' for v in 'AC')


def test_without_gnuplot_it_says_what_to_do(monkeypatch):
    monkeypatch.setattr(curves.shutil, 'which', lambda name: None)
    with pytest.raises(Failure, match='apt-get install gnuplot-nox'):
        curves.svg(made_curve([sample('A', 1)]))


# --- samples on disk ----------------------------------------------------------------------------


@pytest.fixture
def built(tmp_path, monkeypatch):
    monkeypatch.setenv('SLUICE_BUILD', str(tmp_path))
    return tmp_path


def test_samples_are_read_as_they_were_written(built):
    samples = Samples('made-up')
    written = several([1.5, 2], [3, 4], after=FAR) + [sample('B', 5, point='imix')]
    for s in written:
        samples.add(s)
    assert Samples('made-up', append=True).samples == written
    assert Samples('made-up', append=True).next_round('part') == 2
    assert Samples('made-up', append=True).next_round('other') == 0
    assert Samples('made-up').samples == []


def test_builds_are_not_mixed_within_a_part(built, monkeypatch):
    samples = Samples('made-up')
    samples.add(sample('A', 1))
    kept = sample('A', 1, part='other')
    samples.add(kept)
    monkeypatch.setattr(results_module, 'fingerprint', lambda: 'another')
    samples = Samples('made-up', append=True)
    assert len(samples.samples) == 2 and samples.next_round('part') == 0
    new = sample('A', 2)
    samples.add(new)
    assert samples.samples == [kept, new]
    assert Samples('made-up', append=True).samples == [kept, new]
    assert 'another' in samples.builds() and len(samples.builds()) == 2


# --- from end to end ----------------------------------------------------------------------------


@pytest.fixture
def stage(built, monkeypatch):
    """Make `experiments` those that there are; returns a function that runs the command line."""
    there = {}
    monkeypatch.setattr(experiments, 'names', lambda: list(there))
    monkeypatch.setattr(experiments, 'load', there.__getitem__)
    monkeypatch.setattr(findings, 'check_built', lambda: None)
    monkeypatch.setattr(findings, 'Probe', lambda: lambda: NEAR)
    monkeypatch.setattr(findings, 'Hugepages', NoHugepages)
    monkeypatch.setattr(report.build, 'ROOT', str(built))
    monkeypatch.setattr(report.write, '__defaults__', (str(built),))

    def run(*words):
        monkeypatch.setattr('sys.argv', ['findings.py', *words, '--build', str(built)])
        return findings.main()
    run.there = there
    return run


def written(built, name='made-up'):
    return json.loads((built / f'bench/{name}.json').read_text(encoding='ascii'))


needs_gnuplot = pytest.mark.skipif(not curves.available(),
                                   reason='gnuplot is not installed: run make deps')


@needs_gnuplot
def test_findings_from_end_to_end(stage, built, capsys):
    stage.there['made-up'] = made_up()
    stage('made-up')
    out = capsys.readouterr().out
    assert 'seed 1' in out and 'A (seed ' in out and 'A / C 2.5' in out
    made = written(built)
    assert list(made) == ['bench', 'about', 'rows', 'tables', 'curves']
    row = made['rows'][0]
    assert (row['case'], row['ratio'], row['pairs'], row['state'], row['target']) == (
        'A / C 1', 0.25, 4, 'near clean', 0.5)
    assert (built / 'bench/made-up-curve.svg').read_text(encoding='utf-8').startswith('<?xml')
    stage('made-up', '--append', '--rounds', '1', '--point', '2.5')
    assert [r['pairs'] for r in written(built)['rows']] == [4, 5]


@needs_gnuplot
def test_the_document(stage, built):
    other = made_up()
    stage.there.update({'made-up': made_up(), 'other': Experiment(
        'other', 'Never run', 'Found.', 'Repeated.', 'Nothing.', other.parts)})
    with pytest.raises(Failure, match='has no results: run make bench-findings'):
        stage('--doc')
    stage('made-up')
    stage('--doc')
    text = (built / 'doc/findings.md').read_text(encoding='utf-8')
    for words in ('## An experiment', 'It was found.', 'It is repeated.', 'Not this.', 'near clean',
                  '| A / C 1 | A: 10 | C: 40 | frames | 0.250 (0.250..0.250) | less | 0.500 | met |',
                  '![Made up](findings/made-up-curve.svg)', '## Never run',
                  'Not measured yet: `make bench-other`', 'kernel', 'seed 1'):
        assert words in text
    assert (built / 'doc/findings/made-up-curve.svg').exists()
    kept = json.loads((built / 'doc/findings/made-up.json').read_text(encoding='ascii'))
    assert kept['rows'] and sorted(kept) == ['about', 'bench', 'rows']
    (built / 'doc/findings/gone.svg').write_text('', encoding='ascii')
    stage('made-up', '--doc')
    assert not (built / 'doc/findings/gone.svg').exists()
    assert (built / 'doc/findings.md').read_text(encoding='utf-8') == text


def fails(variant, point, seed):
    raise Failure(f'{variant} at {point} broke')


def test_all_go_on_after_one_that_fails(stage, built, capsys):
    log = []
    stage.there.update({
        'one': made_up(figures=fails, curves=[]), 'two': made_up(log, curves=[])})
    with pytest.raises(Failure, match='(?s)failed:.*one: part: A at 1 broke') as failure:
        stage('all')
    assert 'two' not in str(failure.value) and len(log) == 2 * 3 * 4
    assert 'one: part: A at 1 broke' in capsys.readouterr().err


def test_a_run_that_breaks_off_keeps_its_samples(stage, built):
    def figures(variant, point, seed):
        if variant == 'B' and point == 2.5:
            raise KeyboardInterrupt
        return {'drops': 1.0}
    stage.there['made-up'] = made_up(figures=figures)
    with pytest.raises(KeyboardInterrupt):
        stage('made-up')
    assert [(s.variant, s.point) for s in Samples('made-up', append=True).samples] == [
        ('A', 1), ('B', 1), ('C', 1), ('A', 2.5)]


def test_a_part_that_fails_leaves_the_others_their_turn(stage, built):
    last = Part('last', 'The last', ['A', 'C'], [1], made_up().parts[0].start, rounds=3,
                comparisons=[Compare('last', 'drops', 'A', 'C', 'frames')])
    stage.there['made-up'] = made_up(figures=fails, parts=[last], curves=[])
    with pytest.raises(Failure, match='^made-up: part: A at 1 broke$'):
        stage('made-up')
    # A part with one point has its cases named without it.
    assert [(r['case'], r['ratio']) for r in written(built)['rows']] == [('last', 0.25)]


def test_long_forms(stage, built):
    log = []
    last = Part('last', 'The last', ['A', 'C'], [7], made_up(log).parts[0].start, rounds=3,
                long_only=True)
    stage.there['made-up'] = made_up(parts=[last], long_rounds=6, curves=[])
    stage('made-up')
    assert log == [] and written(built)['rows'][0]['pairs'] == 4
    stage('made-up', '--long')
    assert len(log) == 6 and written(built)['rows'][0]['pairs'] == 6
    stage('made-up', '--long', '--part', 'last')
    assert len(log) == 12


@pytest.mark.parametrize('words, said', [
    ([], 'which.*made-up, or all'),
    (['none'], 'no experiment none; there are: made-up'),
    (['made-up', '--rounds', '0'], '--rounds: at least 1'),
    (['made-up', '--part', 'x'], 'made-up has no part x; it has: part last'),
    (['made-up', '--part', 'last'], 'last takes long: ask for it with --long'),
    (['made-up', '--point', '3'], 'no point 3; there are: 1 2.5'),
])
def test_bad_command_lines_say_what_to_do(stage, words, said):
    last = Part('last', 'The last', ['A'], [1], None, long_only=True)
    stage.there['made-up'] = made_up(parts=[last])
    with pytest.raises(Failure, match=said):
        stage(*words)


def test_a_dropped_pair_is_no_row_and_no_success(stage, monkeypatch):
    readings = iter([NEAR, FAR] * 1000)
    monkeypatch.setattr(findings, 'Probe', lambda: lambda: next(readings))
    stage.there['made-up'] = made_up(curves=[])
    with pytest.raises(Failure, match='fewer than 3 pairs in one state: part: A / C 1, part'):
        stage('made-up')
    stage('made-up', '--rounds', '2')  # asked for: too few to say anything


@pytest.mark.parametrize('name', experiments.names())
def test_each_experiment_is_defined_whole(name):
    made = experiments.load(name)
    assert made.name == name and made.title
    assert all(len(text.split()) > 20 for text in (made.finding, made.method, made.limits))
    assert len({part.name for part in made.parts}) == len(made.parts)
    drawn = [c.name for part in made.parts for c in part.curves]
    assert len(set(drawn)) == len(drawn)
    for part in made.parts:
        labels = [outcome.label(p) for p in part.points]
        assert len(set(labels)) == len(labels)
        assert json.loads(json.dumps(part.points)) == part.points
        assert callable(part.start) and part.rounds > 0 and part.columns
        for compare in part.comparisons:
            assert {compare.ours, compare.peer} <= set(part.variants)
            assert compare.better in ('more', 'less') and compare.how in ('median', 'total')
            assert set(compare.points or part.points) <= set(part.points)
        for c in part.curves:
            assert set(c.variants or part.variants) <= set(part.variants)
            assert not c.at or all(isinstance(c.at(p), (int, float, type(None)))
                                   and not math.isnan(c.at(p) or 0) for p in part.points)
