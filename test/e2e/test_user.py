# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""An ordinary user, no hugepages, no privileges: driver and switch work all the same."""

import pytest

from harness import build, frames, matrix, pcap

A, B = '02:51:00:00:00:0a', '02:51:00:00:00:0b'
CASE = matrix.DEFAULT_CASE


@pytest.mark.check
def test_everything_as_an_ordinary_user(user_rig):
    rig = user_rig
    if not build.readable_by_others(build.plugin()):
        pytest.skip(f'{build.plugin()} cannot be read by other users')
    to_b = frames.stream(B, A, 1, 64, [60, 1514])
    to_a = frames.stream(A, B, 2, 64, [60, 1514])
    sinks = [rig.path('a.pcap'), rig.path('b.pcap')]
    switch = rig.switch([matrix.switch_port(p, rig.path(p), CASE) for p in ('pa', 'pb')])
    guest = rig.testpmd('guest', plugin=True, fwd='io', vdevs=[
        matrix.sluice_vdev(0, rig.path('pa'), CASE),
        rig.pcap_vdev(0, [rig.capture('in-a.pcap', to_b)], [sinks[0]]),
        matrix.sluice_vdev(1, rig.path('pb'), CASE),
        rig.pcap_vdev(1, [rig.capture('in-b.pcap', to_a)], [sinks[1]])])
    matrix.assert_through_switch(switch, guest, CASE, {'pa': 0, 'pb': 2})
    for process in (switch, guest):
        with open(f'/proc/{process.pid}/status', encoding='ascii') as f:
            status = dict(line.split(':', 1) for line in f)
        assert status['Uid'].split()[0] != '0', 'still root'
    guest.start()
    for sink in (1, 3):
        guest.wait_stat(sink, 'opackets', 64)
    guest.stop()
    switch.assert_ledger()
    switch.quit()
    assert guest.quit() == 0
    frames.assert_same(pcap.read(sinks[0]), to_a, 'at a')
    frames.assert_same(pcap.read(sinks[1]), to_b, 'at b')
