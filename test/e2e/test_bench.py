# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The benchmarks' processes: both sides of a case start, carry frames and end. No rate matters."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '..', 'bench'))

# pylint: disable=wrong-import-position
import compare_latency  # noqa: E402
import definition  # noqa: E402
import experiment  # noqa: E402
from harness import build  # noqa: E402


@pytest.mark.parametrize('bench, case, ours, peer', [
    ('loopback', 'loopback-inorder-64-256', 'net_sluice_user - sluice-vswitch, DPDK',
     'net_virtio_user - net_vhost (mac), in order, DPDK'),
    ('loopback', 'loopback-memif-64-256', 'net_sluice_user - sluice-vswitch, DPDK',
     'net_memif - net_memif (mac), DPDK'),
    ('oneway', 'oneway-tohost-1518-256', 'net_sluice_user - sluice-vswitch (net_null0), DPDK',
     'net_virtio_user - net_vhost (rxonly), DPDK'),
    ('oneway', 'oneway-toguest-1518-256', 'net_sluice_user - sluice-vswitch (net_null0), DPDK',
     'net_virtio_user - net_vhost (io), DPDK'),
    ('switching', 'vm2vm-65535-256', 'net_sluice_user - sluice-vswitch, DPDK',
     'net_virtio_user - net_vhost (io), DPDK'),
    ('growth', 'growth-vm2vm-ports-64', 'ports 64', 'ports 2'),
])
def test_both_sides_carry_frames(turn, bench, case, ours, peer):
    del turn
    with definition.Place() as place:
        sides = definition.load(bench).cases[case].sides(place)
        for side, name in zip(sides, (ours, peer)):
            assert side.name.startswith(name)
            for _ in range(2):  # held and let go again
                assert side() > 0
    assert not os.path.exists(place.rig.dir)
    assert all(not process.alive for process in place.rig.processes)


def test_latency_of_two_builds(turn):
    """Both are this one: what comes back has a latency."""
    del turn
    options = compare_latency.command_line().parse_args([build.build_dir()])
    with definition.Place() as place:
        for side in compare_latency.sides(place, options):
            assert side() > 0
    assert all(not process.alive for process in place.rig.processes)


def test_coalesce_carries_packets(turn):
    """The experiment's packets arrive, and none of them without the call that it needs."""
    del turn
    part, = (part for part in experiment.load('coalesce').parts if part.name == 'packets-sweep')
    with definition.Place() as place:
        with part.start(place, part) as bench:
            found = {variant: bench.measure(variant, '1 kpps', 1)
                     for variant in ('256 frames, 256 us', 'adaptive')}
    for figures in found.values():
        assert figures['missed'] == 0 and figures['received_kpps'] > 0
    assert 'profile' in found['adaptive']
    assert all(not process.alive for process in place.rig.processes)
