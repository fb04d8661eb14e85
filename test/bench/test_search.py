# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The search for the highest rate, with machines that are made up."""

import pytest
from search import Search, in_step


class Machine:
    """Carries rates up to `limit`; every n-th trial fails whatever the rate, because it stalls."""

    def __init__(self, limit, stalls_every=None):
        self.limit, self.stalls_every, self.asked = limit, stalls_every, []

    def __call__(self, rate):
        self.asked.append(rate)
        if self.stalls_every and len(self.asked) % self.stalls_every == 0:
            return None
        return rate if rate <= self.limit else None


@pytest.mark.parametrize('limit', [1.1, 3, 17, 40, 63.9])
@pytest.mark.parametrize('stalls_every', [None, 2, 3])
def test_the_limit_is_found(limit, stalls_every):
    machine = Machine(limit, stalls_every)
    search = Search(machine, 1, 64)
    in_step([search], 8)
    assert limit / 64 ** (2 / 2 ** 8) <= search.found <= limit
    assert search.trials == len(machine.asked) <= 8 * 3


def test_a_rate_that_passes_is_not_tried_again():
    machine = Machine(100)
    search = Search(machine, 1, 64)
    in_step([search], 6)
    assert len(machine.asked) == 6
    assert machine.asked == sorted(machine.asked)


def test_nothing_passes():
    search = Search(lambda rate: None, 1, 64, repeat=2)
    in_step([search], 5)
    assert search.found == 0 and search.trials == 10


def test_what_was_offered_counts_not_what_was_asked():
    search = Search(lambda rate: 0.97 * rate, 1, 64)
    in_step([search], 6)
    assert search.found == pytest.approx(0.97 * search.low)


def test_searches_go_in_step():
    log = []
    searches = [Search(lambda rate, name=name: log.append(name) or rate, 1, 64)
                for name in 'ab']
    in_step(searches, 4)
    assert ''.join(log) == 'abbaabba'
