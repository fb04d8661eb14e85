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
BURSTS = 32  # start tx_first 32: the DPDK test suite's way to fill the loop
WARM_UP = 0.05
MEASURE = 0.25
HOST_CPU, GUEST_CPU = 0, 1
MACS = ('02:51:00:00:00:01', '02:51:00:00:00:02')
SPLIT = 'mrg_rxbuf=1,in_order=0'  # of net_virtio_user: the split ring, mergeable


def sums(counters, packets, octets):
    return sum(c[packets] for c in counters), sum(c[octets] for c in counters)


def hold(process):
    """Stop a process that polls; return when it is held."""
    process.signal(signal.SIGSTOP)

    def held():
        with open(f'/proc/{process.pid}/stat', encoding='ascii') as f:
            return f.read().rsplit(')', 1)[1].split()[0] == 'T'
    wait_until(held, 5, f'{process.name} is held')


class TestpmdGuests:
    """One testpmd with guests' ports, of the DPDK that the place has for this side."""

    segments = ()

    def __init__(self, place, name, devices, *, ours=False, ring, fwd, mbufs=MBUFS, **more):
        dpdk = place.dpdk_of(ours)
        self.testpmd = place.rig.testpmd(
            name, cpu=GUEST_CPU, flush=True, ring=ring, mbufs=mbufs, huge_dir=place.huge_dir,
            fwd=fwd, vdevs=devices, program=dpdk.testpmd if dpdk else None,
            plugin=dpdk.plugin() if ours and dpdk else ours, **more)
        self.ports = range(len(devices))
        self.origin = dpdk.origin if dpdk else ''

    def count(self):
        """Packets and bytes that they received."""
        return sums([self.testpmd.stats(port) for port in self.ports], 'ipackets', 'ibytes')


class Guests(TestpmdGuests):
    """One testpmd with a port for each socket, of our driver or of stock virtio-user.

    `segments`: of a frame that is longer than an mbuf, their lengths; `stock`: arguments of the
    stock driver; `more`: further options of the testpmd.
    """

    def __init__(self, place, socks, *, ours, ring, fwd, segments=(), stock=SPLIT, **more):
        if segments:  # at the prompt a word has 128 characters at most
            more['extra'] = ['--txpkts=' + ','.join(map(str, segments))]
        self.segments = segments
        driver = 'net_sluice_user' if ours else 'net_virtio_user'
        args = f'queue_size={ring}' + ('' if ours else ',' + stock)
        super().__init__(
            place, 'ours' if ours else 'virtio',
            [f'{driver}{i},path={sock},mac={MACS[i]},{args}' for i, sock in enumerate(socks)],
            ours=ours, ring=ring, fwd=fwd, **more)
        self.name = driver
        if len(socks) == 2:
            self.testpmd.cmds(*(f'set eth-peer {i} {MACS[1 - i]}' for i in self.ports))


class HeldHost:
    """A host of one `process` that polls all the time: it is held while the other side has its turn.
    """

    process = None

    def wait_guests(self):
        """Until all of them are connected."""
        raise NotImplementedError

    def ready(self):
        self.wait_guests()
        self.off()

    def on(self):
        self.process.signal(signal.SIGCONT)

    def off(self):
        hold(self.process)


class SwitchHost(HeldHost):
    """Our switch; with one port it gives the guest its own frames back, in the way that `loopback`
    says, or forwards between it and the DPDK device `vdev`. `more`: of each guest's port."""

    def __init__(self, place, socks, more='', *, loopback='on', vdev=None):
        self.name = 'sluice-vswitch'
        self.ports = [f'p{i}' for i in range(len(socks))]
        if vdev:
            self.name += f' ({vdev.partition(",")[0]})'
        elif len(socks) == 1:
            more = f',loopback={loopback}' + more
            self.name += '' if loopback == 'on' else f' (loopback={loopback})'
        ports = [f'{port},path={sock}{more}' for port, sock in zip(self.ports, socks)]
        if vdev:
            ports.append(f'device,dev={vdev.partition(",")[0]}')
        self.process = place.rig.switch(ports, cpu=HOST_CPU, huge_dir=place.huge_dir,
                                        vdevs=[vdev] if vdev else ())

    def wait_guests(self):
        for port in self.ports:
            self.process.wait_up(port)

    def count(self):
        """What the DPDK device was given."""
        return sums([self.process.counters('device')], 'tx_packets', 'tx_bytes')


class TestpmdHost:
    """A testpmd of the peer's DPDK; `ports`: how many of its devices are guests'."""

    def __init__(self, place, name, devices, *, ring, fwd, ports=None):
        dpdk = place.dpdk_of(False)
        self.testpmd = place.rig.testpmd(
            name, cpu=HOST_CPU, flush=True, fwd=fwd, ring=ring, mbufs=MBUFS, vdevs=devices,
            huge_dir=place.huge_dir, program=dpdk.testpmd if dpdk else None)
        self.ports = range(ports or len(devices))
        self.name = f'net_{name} ({fwd})'

    def ready(self):
        for port in self.ports:
            self.testpmd.wait_link(True, port)

    def on(self):
        self.testpmd.start()

    def off(self):
        self.testpmd.stop()

    def count(self):
        """Packets and bytes that came from guests."""
        return sums([self.testpmd.stats(port) for port in self.ports], 'ipackets', 'ibytes')


class VhostHost(TestpmdHost):
    """Stock net_vhost ports, and the DPDK devices `more`."""

    def __init__(self, place, socks, *, ring, fwd, more=()):
        super().__init__(
            place, 'vhost', [f'net_vhost{i},iface={sock},queues=1,client=0'
                             for i, sock in enumerate(socks)] + list(more),
            ring=ring, fwd=fwd, ports=len(socks))


class Side:
    """Frames of `size` between guests and host. Those that guests receive count; with `at`, what
    that one says. `tx_first`: they go round, the guests send some to begin with."""

    def __init__(self, guests, host, size, remark='', *, at=None, tx_first=BURSTS):
        self.guests, self.host, self.size = guests, host, size
        self.at, self.tx_first = at or guests, tx_first
        host.ready()
        testpmd = guests.testpmd
        if not guests.segments:
            testpmd.cmd(f'set txpkts {size}')
        version = testpmd.telemetry.ask('/info')['version']
        self.name = f'{guests.name} - {host.name}{remark}, {version}{guests.origin}'
        self.modes = [mode for mode in map(testpmd.burst_mode, ('rx', 'tx')) if mode]

    def __call__(self):
        """Frames received a microsecond, over an interval of a running loop."""
        testpmd = self.guests.testpmd
        self.host.on()
        testpmd.start(tx_first=self.tx_first)
        time.sleep(WARM_UP)
        begin, first = self.count()
        time.sleep(MEASURE)
        end, last = self.count()
        testpmd.stop()
        self.host.off()
        packets, size = last[0] - first[0], last[1] - first[1]
        if packets == 0:
            raise ProcError(f'{testpmd.name}: nothing came through')
        # The two counters of one look are not of one moment.
        if abs(size / packets - self.size) > 0.01 * self.size:
            raise ProcError(f'{testpmd.name}: {size / packets:.1f} bytes a frame, {self.size} sent')
        return packets / (end - begin) / 1e6

    def count(self):
        """The time in the middle of asking for the counters, and what they say."""
        before = time.monotonic()
        counted = self.at.count()
        return (before + time.monotonic()) / 2, counted
