# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A closed loop between two ports of a switch: nothing may be lost in it, so whatever it loses
is somebody's fault.

One testpmd, two of our devices, `mac` forwarding: what arrives at one port leaves by the other,
addressed back. The frames in flight are fewer than a ring, and their number never changes.
"""

from . import matrix
from .switch import losses
from .testpmd import Testpmd

MACS = ('02:51:00:00:00:01', '02:51:00:00:00:02')
WINDOW_BURSTS = 2  # of 32 frames, on each side


def vdevs(paths, first=0, **more):
    tail = ''.join(f',{k}={v}' for k, v in more.items())
    return [f'net_sluice_user{first + i},path={path},mac={MACS[i]}{tail}'
            for i, path in enumerate(paths)]


class Loop:
    def __init__(self, rig, switch, paths, ports=('pa', 'pb'), **options):
        self.switch, self.ports = switch, ports
        self.testpmd: Testpmd = rig.testpmd('loop', cpu=1, plugin=True, fwd='mac',
                                            vdevs=vdevs(paths), **options)
        matrix.assert_through_switch(switch, self.testpmd, matrix.DEFAULT_CASE,
                                     dict(zip(ports, (0, 1))))
        self.testpmd.cmds(f'set eth-peer 0 {MACS[1]}', f'set eth-peer 1 {MACS[0]}')

    def start(self):
        self.testpmd.start(WINDOW_BURSTS)
        self.assert_moves()
        self.switch.wait_learned(dict(zip(MACS, self.ports)))
        self.before = {p: losses(self.switch.settled(p)) for p in self.ports}

    def assert_moves(self, by=2000):
        for port in (0, 1):
            self.testpmd.wait_moves(port, 'ipackets', by)

    def assert_undisturbed(self):
        """It still goes round, and neither port lost a frame since it was started."""
        self.assert_moves()
        now = {p: losses(self.switch.settled(p)) for p in self.ports}
        assert now == self.before, f'neighbours lost frames: {self.before} -> {now}'

    def stop(self):
        """End it; the frames that went round are all there."""
        self.testpmd.stop()
        for port in (0, 1):
            stats = self.testpmd.stats(port)
            assert stats['oerrors'] == 0 and stats['ierrors'] == 0
