# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A guest in QEMU (TCG) and a stock net_vhost testpmd on the host, both in `mac` mode: our driver
and stock net_virtio, each at a device of its own, in the same testpmd of the same boot.

QEMU translates the guest's instructions, so a rate says nothing of a guest under KVM; how the two
drivers compare still says what each has its CPU do.
"""

import os
import sys
import time
from functools import partial

from definition import HERE, Bench, Case
from harness.proc import ProcError
from results import Failure
from rigs import BURSTS, GUEST_CPU, HOST_CPU, MBUFS

sys.path.append(os.path.join(HERE, '../e2e/guest'))

# pylint: disable=wrong-import-position
from machine import initramfs  # noqa: E402
from machine.qemu import Nic, boot, vhost_user  # noqa: E402

DRIVERS = ('net_sluice', 'net_virtio')  # by port, in the guest and on the host
WARM_UP = 0.3
MEASURE = 1.0


class Pair:
    """The guest and the host."""

    def __init__(self, place, size, ring):
        rig, self.size = place.rig, size
        try:
            initramfs.fetch()
            initramfs.archives({})
        except initramfs.Missing as missing:
            raise Failure(str(missing)) from None
        socks = [rig.path(name) for name in DRIVERS]
        options = {'fwd': 'mac', 'ring': ring, 'topology': 'loop'}
        self.host = rig.testpmd('vhost', cpu=HOST_CPU, flush=True, mbufs=MBUFS, **options,
                                huge_dir=place.huge_dir,
                                vdevs=[f'net_vhost{i},iface={sock},queues=1,client=0'
                                       for i, sock in enumerate(socks)])
        machine = boot(rig, [Nic(vhost_user(sock), mac=f'02:51:00:00:01:0{i + 1}', ring=ring)
                             for i, sock in enumerate(socks)], hugepages=96, cpu=GUEST_CPU)
        for i, _ in enumerate(DRIVERS):
            machine.bind(i, 'uio_pci_generic')
        self.guest = machine.testpmd([machine.bdf(0), machine.bdf(1) + ',sluice=0'], mem=128,
                                     **options)
        for port, driver in enumerate(DRIVERS):
            if f'Driver name: {driver}\n' not in self.guest.cmd(f'show port info {port}'):
                raise ProcError(f'{self.guest.name}: port {port} is not of {driver}')
            self.host.wait_link(True, port)
        self.guest.cmd(f'set txpkts {size}')
        self.version = self.host.telemetry.ask('/info')['version']


class Side:
    """Frames that go round between one port of the guest and one of the host."""

    def __init__(self, pair, port):
        self._pair, self._port = pair, port
        self.name = f'{DRIVERS[port]} in a guest - net_vhost (mac), {pair.version}'
        mode = [pair.guest.burst_mode(direction, port) for direction in ('rx', 'tx')]
        self.modes = [text for text in mode if text]

    def __call__(self):
        """Frames that the guest received in a millisecond."""
        host, guest = self._pair.host, self._pair.guest
        for testpmd in (host, guest):
            testpmd.cmd(f'set portlist {self._port}')
        host.start()
        guest.start(tx_first=BURSTS)
        time.sleep(WARM_UP)
        begin, first = self._count()
        time.sleep(MEASURE)
        end, last = self._count()
        received = guest.stop()[self._port]['rx']
        host.stop()
        packets, size = last[0] - first[0], last[1] - first[1]
        if packets == 0 or received < packets:
            raise ProcError(f'{guest.name}: port {self._port} received {received} frames, the host '
                            f'sent {packets} of them while it was measured')
        # The two counters of one look are not of one moment.
        if abs(size / packets - self._pair.size) > 0.01 * self._pair.size:
            raise ProcError(f'{guest.name}: {size / packets:.1f} bytes a frame')
        return packets / (end - begin) / 1e3

    def _count(self):
        """The time in the middle of asking, and what the host has put into the guest's ring: it
        stays until the guest takes it, and the ring is short against what goes through."""
        before = time.monotonic()
        stats = self._pair.host.stats(self._port)
        return (before + time.monotonic()) / 2, (stats['opackets'], stats['obytes'])


def sides(place, size, ring):
    pair = Pair(place, size, ring)
    return [Side(pair, port) for port, _ in enumerate(DRIVERS)]


CASES = {f'guest-{size}-{ring}': Case('kpps', 1.0, partial(sides, size=size, ring=ring))
         for size in (64, 1518) for ring in (256, 1024)}

BENCH = Bench('guest', 'our driver in a guest against stock net_virtio in the same one, with stock '
              'net_vhost on the host', CASES,
              default=[name for name in CASES if name.endswith('-256')], huge_mb=640)
