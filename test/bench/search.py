# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Binary searches for the highest rate at which a trial passes, several of them in step.

A trial that fails is repeated: one that passes shows that the rate can be carried, one that fails
may only show that a CPU stood still (ETSI GS NFV-TST 009: binary search with loss verification).
"""

import math


class Search:
    """`trial(rate)` returns the rate that was really offered, or None if it does not pass."""

    def __init__(self, trial, low, high, repeat=3):
        self.trial, self.low, self.high, self.repeat = trial, low, high, repeat
        self.most = high
        self.found = 0.0   # the highest rate that was offered and carried
        self.trials = 0

    def step(self):
        """Halve what is left, in factors."""
        middle = math.sqrt(self.low * self.high)
        for _ in range(self.repeat):
            self.trials += 1
            offered = self.trial(middle)
            if offered is not None:
                self.found = max(self.found, offered)
                self.low = middle
                return
        self.high = middle


def in_step(searches, steps):
    """A B, B A, ..: what the machine does meets all of them."""
    for number in range(steps):
        for search in searches if number % 2 == 0 else searches[::-1]:
            search.step()
