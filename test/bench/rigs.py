# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Sides that are processes: guests in a testpmd on one CPU, a host on the other.

All processes of a case stay alive. Of the side that rests nothing polls: its testpmds are stopped,
hosts without such a command are held by SIGSTOP.
"""

import os
import signal
import time

from harness.proc import ProcError, wait_until

MBUFS = 16384
BUFFER = 2048  # bytes of a frame in an mbuf
BURSTS = 32  # start tx_first 32: the DPDK test suite's way to fill the loop
WARM_UP = 0.1
MEASURE = 0.3
HOST_CPU, GUEST_CPU = 0, 1
MACS = ('02:51:00:00:00:01', '02:51:00:00:00:02')


def segments(size):
    """A frame in buffers that each mbuf has, as testpmd's `set txpkts` takes it."""
    whole, rest = divmod(size, BUFFER)
    return ','.join(map(str, [BUFFER] * whole + [rest] * (rest > 0)))


def hold(process):
    """Stop a process that polls; return when it is held."""
    process.signal(signal.SIGSTOP)

    def held():
        with open(f'/proc/{process.pid}/stat', encoding='ascii') as f:
            return f.read().rsplit(')', 1)[1].split()[0] == 'T'
    wait_until(held, 5, f'{process.name} is held')


class Guests:
    """One testpmd with a port for each socket, of our driver or of stock virtio-user.

    `more`: further options of the testpmd.
    """

    def __init__(self, place, socks, *, ours, ring, fwd, program=None, in_order=False, **more):
        args = f',queue_size={ring}'
        if ours:
            driver = 'net_sluice_user'
        else:
            driver = 'net_virtio_user'
            args += f',mrg_rxbuf=1,in_order={int(in_order)}'
        self.testpmd = place.rig.testpmd(
            'ours' if ours else 'virtio', cpu=GUEST_CPU, plugin=ours, flush=True, ring=ring,
            mbufs=MBUFS, huge_dir=place.huge_dir, fwd=fwd, program=program,
            vdevs=[f'{driver}{i},path={sock},mac={MACS[i]}{args}' for i, sock in enumerate(socks)],
            **more)
        self.ports = range(len(socks))
        self.name = driver
        self.origin = f' of {os.path.dirname(program)}' if program else ''
        if len(socks) == 2:
            self.testpmd.cmds(*(f'set eth-peer {i} {MACS[1 - i]}' for i in self.ports))


class SwitchHost:
    """Our switch; with one port it gives the guest its own frames back. `more`: of each port."""

    name = 'sluice-vswitch'

    def __init__(self, place, socks, more=''):
        loop = (',loopback=on' if len(socks) == 1 else '') + more
        self.ports = [f'p{i}' for i in range(len(socks))]
        self.process = place.rig.switch(
            [f'{port},path={sock}{loop}' for port, sock in zip(self.ports, socks)], cpu=HOST_CPU,
            huge_dir=place.huge_dir)

    def ready(self):
        for port in self.ports:
            self.process.wait_up(port)
        self.off()

    def on(self):
        self.process.signal(signal.SIGCONT)

    def off(self):
        hold(self.process)


class VhostHost:
    """A testpmd with stock net_vhost ports."""

    def __init__(self, place, socks, *, ring, fwd, program=None):
        self.testpmd = place.rig.testpmd(
            'vhost', cpu=HOST_CPU, flush=True, fwd=fwd, ring=ring, mbufs=MBUFS, program=program,
            huge_dir=place.huge_dir,
            vdevs=[f'net_vhost{i},iface={sock},queues=1,client=0' for i, sock in enumerate(socks)])
        self.ports = range(len(socks))
        self.name = f'net_vhost ({fwd})'

    def ready(self):
        for port in self.ports:
            self.testpmd.wait_link(True, port)

    def on(self):
        self.testpmd.start()

    def off(self):
        self.testpmd.stop()


class Side:
    """Frames of `size` that go round between guests and host; those that guests receive count."""

    def __init__(self, guests, host, size, remark=''):
        self.guests, self.host, self.size = guests, host, size
        host.ready()
        testpmd = guests.testpmd
        testpmd.cmd(f'set txpkts {segments(size)}')
        version = testpmd.telemetry.ask('/info')['version']
        self.name = f'{guests.name} - {host.name}{remark}, {version}{guests.origin}'
        self.modes = [mode for mode in map(testpmd.burst_mode, ('rx', 'tx')) if mode]

    def __call__(self):
        """Frames received a microsecond, over an interval of a running loop."""
        testpmd = self.guests.testpmd
        self.host.on()
        testpmd.start(tx_first=BURSTS)
        time.sleep(WARM_UP)
        begin, first = self.count()
        time.sleep(MEASURE)
        end, last = self.count()
        testpmd.stop()
        self.host.off()
        packets, size = last[0] - first[0], last[1] - first[1]
        if packets == 0:
            raise ProcError(f'{testpmd.name}: nothing came back')
        # The two counters of one look are not of one moment.
        if abs(size / packets - self.size) > 0.01 * self.size:
            raise ProcError(f'{testpmd.name}: {size / packets:.1f} bytes a frame, {self.size} sent')
        return packets / (end - begin) / 1e6

    def count(self):
        """The time in the middle of asking for the counters, and their sums."""
        before = time.monotonic()
        stats = [self.guests.testpmd.stats(port) for port in self.guests.ports]
        return (before + time.monotonic()) / 2, tuple(sum(s[key] for s in stats)
                                                      for key in ('ipackets', 'ibytes'))
