# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Loopback: a guest's testpmd in `mac` mode and a host that gives its frames back.

Ours: our driver and our switch, loopback=on. Peer: stock net_virtio_user and a testpmd with stock
net_vhost in `mac` mode. All four processes stay alive; of the side that rests nothing polls: its
testpmds are stopped, the switch (which has no such command) is held by SIGSTOP.
"""

import signal
import time

from harness.proc import ProcError, wait_until

MBUFS = 16384
BURSTS = 32  # start tx_first 32: the DPDK test suite's way to fill the loop
WARM_UP = 0.2
MEASURE = 0.8


class Side:
    """A guest whose received frames are counted."""

    def __init__(self, guest, size):
        self.guest, self.size = guest, size
        self.guest.cmds('set fwd mac', f'set txpkts {size}')

    def host_on(self):
        raise NotImplementedError

    def host_off(self):
        raise NotImplementedError

    def measure(self):
        """Frames received a microsecond, over an interval of a running loop."""
        self.host_on()
        self.guest.start(tx_first=BURSTS)
        time.sleep(WARM_UP)
        begin, first = self.count()
        time.sleep(MEASURE)
        end, last = self.count()
        self.guest.stop()
        self.host_off()
        packets = last['ipackets'] - first['ipackets']
        if packets == 0:
            raise ProcError(f'{self.guest.name}: nothing came back')
        # The two counters of one look are not of one moment.
        mean = (last['ibytes'] - first['ibytes']) / packets
        if abs(mean - self.size) > 0.01 * self.size:
            raise ProcError(f'{self.guest.name}: {mean:.1f} bytes a frame, {self.size} sent')
        return packets / (end - begin) / 1e6

    def count(self):
        """The counters, and the time in the middle of asking for them."""
        before = time.monotonic()
        stats = self.guest.stats(0)
        return (before + time.monotonic()) / 2, stats


class Ours(Side):
    def __init__(self, rig, size, ring, huge_dir):
        sock = rig.path('ours')
        self.switch = rig.switch([f'loop,path={sock},loopback=on'], cpu=0, huge_dir=huge_dir)
        guest = rig.testpmd('ours', cpu=1, plugin=True, flush=True, ring=ring, mbufs=MBUFS,
                            huge_dir=huge_dir,
                            vdevs=[f'net_sluice_user0,path={sock},queue_size={ring}'])
        self.switch.wait_up('loop')
        super().__init__(guest, size)
        self.modes = f'{guest.burst_mode("rx")}; {guest.burst_mode("tx")}'
        self.host_off()

    def host_on(self):
        self.switch.signal(signal.SIGCONT)

    def host_off(self):
        self.switch.signal(signal.SIGSTOP)
        wait_until(self._stopped, 5, 'the switch is held')

    def _stopped(self):
        with open(f'/proc/{self.switch.pid}/stat', encoding='ascii') as f:
            return f.read().rsplit(')', 1)[1].split()[0] == 'T'


class Stock(Side):
    def __init__(self, rig, size, ring, huge_dir, in_order):
        sock = rig.path('stock')
        self.host = rig.testpmd('vhost', cpu=0, flush=True, fwd='mac', ring=ring, mbufs=MBUFS,
                                huge_dir=huge_dir,
                                vdevs=[f'net_vhost0,iface={sock},queues=1,client=0'])
        guest = rig.testpmd('virtio', cpu=1, flush=True, ring=ring, mbufs=MBUFS,
                            huge_dir=huge_dir,
                            vdevs=[f'net_virtio_user0,path={sock},queue_size={ring},'
                                   f'mrg_rxbuf=1,in_order={int(in_order)},'
                                   'mac=02:51:00:00:00:05'])
        self.host.wait_link(True)
        super().__init__(guest, size)

    def host_on(self):
        self.host.start()

    def host_off(self):
        self.host.stop()
