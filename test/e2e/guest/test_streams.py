# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The guest of the experiment `coalesce`: streams and pings arrive on each of its devices."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../bench'))

# pylint: disable=wrong-import-position
import definition  # noqa: E402
import experiment  # noqa: E402
from results import Failure  # noqa: E402


def test_streams_arrive():
    part, = (part for part in experiment.load('coalesce').parts if part.name == 'guest')
    with definition.Place() as place:
        try:
            with part.start(place, part) as bench:
                found = {(variant, point): bench.measure(variant, point, 1)
                         for variant in ('off', 'adaptive')
                         for point in (1400, '500, one each 200 us', 'ping')}
        except Failure as failure:
            pytest.skip(str(failure))
    for (variant, point), figures in found.items():
        if point == 'ping':
            assert figures['ping_us'] > 0
            continue
        assert figures['mbps'] > 0 and figures['packets'] > 0
        assert ('profile' in figures) == (variant == 'adaptive')
