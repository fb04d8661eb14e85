# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Two builds compared by their latency, with sides that are made up; nothing is measured here."""

import os

import compare_latency
import pytest
from compare_latency import built, report
from results import Failure
from test_runner import FAR, NEAR, NoHugepages, pair

LIMIT = 1.1


def test_a_report_keeps_states_apart():
    found = [pair(2.0, 2.0, NEAR)] * 4 + [pair(3.3, 3.0, FAR)] * 3 + [
        pair(9.0, 1.0, NEAR, NEAR, NEAR, FAR)]
    lines, good = report(found, LIMIT)
    assert good and len(lines) == 3
    assert lines[0].startswith('far clean') and 'ratio 1.100 (1.100..1.100), pairs 3' in lines[0]
    assert lines[1].startswith('near clean') and 'ratio 1.000 (1.000..1.000), pairs 4' in lines[1]
    assert lines[2] == 'dropped: 1 of 8 pairs'


def test_one_state_above_the_limit_is_one_too_many():
    assert not report([pair(2.0, 2.0, NEAR)] * 4 + [pair(3.4, 3.0, FAR)] * 3, LIMIT)[1]


def test_too_few_pairs_say_nothing():
    with pytest.raises(Failure, match='fewer than 3 of 4 pairs were in one state'):
        report([pair(1.0, 1.0, NEAR)] * 2 + [pair(1.0, 1.0, FAR)] * 2, LIMIT)


def test_another_build_for_a_while(monkeypatch):
    monkeypatch.setenv('SLUICE_BUILD', '/now')
    with pytest.raises(ZeroDivisionError), built('/before'):
        assert os.environ['SLUICE_BUILD'] == '/before'
        raise ZeroDivisionError
    assert os.environ['SLUICE_BUILD'] == '/now'


@pytest.fixture
def builds(tmp_path, monkeypatch):
    """Two build directories, and trials in which the part of BEFORE that is used costs 5 us."""
    trials = []

    class Made:
        def __init__(self, place, name, driver, switch, options):
            self.name, self.directories = name, (driver, switch)

        def __call__(self):
            trials.append(self.name)
            return 10.0 - 5.0 * sum(d.endswith('before') for d in self.directories)
    for name in ('now', 'before'):
        for path in ('drivers/net/sluice/librte_net_sluice.so',
                     'app/sluice-vswitch/sluice-vswitch'):
            file = tmp_path / name / path
            file.parent.mkdir(parents=True)
            file.touch()
    monkeypatch.setenv('SLUICE_BUILD', '')
    monkeypatch.setattr(compare_latency.build, 'testpmd', lambda: __file__)
    monkeypatch.setattr(compare_latency, 'Latency', Made)
    monkeypatch.setattr(compare_latency, 'Probe', lambda: lambda: NEAR)
    monkeypatch.setattr(compare_latency, 'Hugepages', NoHugepages)
    return tmp_path, trials


def run(monkeypatch, directory, *words):
    monkeypatch.setattr('sys.argv', ['compare_latency.py', '--build', str(directory / 'now'),
                                     *words])
    return compare_latency.main()


@pytest.mark.parametrize('only', ['driver', 'switch'])
def test_one_part_of_the_other_build(builds, monkeypatch, capsys, only):
    directory, trials = builds
    before = str(directory / 'before')
    with pytest.raises(Failure, match='a ratio is above 1.1'):
        run(monkeypatch, directory, before, '--only', only, '--pairs', '4')
    assert trials == ['now', 'before', 'before', 'now'] * 2
    assert 'p50   10.00 us, before    5.00 us, ratio 2.000' in capsys.readouterr().out
    run(monkeypatch, directory, before, '--only', only, '--pairs', '4', '--limit', '2')


def test_bad_command_lines_say_what_to_do(builds, monkeypatch):
    directory, _ = builds
    with pytest.raises(Failure, match='/nowhere/.* is not there: build it'):
        run(monkeypatch, directory, '/nowhere')
    with pytest.raises(Failure, match='--pairs 2: at least 3'):
        run(monkeypatch, directory, str(directory / 'before'), '--pairs', '2')
