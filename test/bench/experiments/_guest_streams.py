# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Streams into a guest's kernel: one guest, a network device for each setting of coalescing, each
at a port of one switch and in a network namespace of its own; the host's kernel sends by a tap."""

import os
import re
import statistics
import sys
import time

from definition import HERE
from harness.proc import ProcError
from results import Failure
from rigs import GUEST_CPU, HOST_CPU

sys.path.append(os.path.join(HERE, '../e2e/guest'))

# pylint: disable=wrong-import-position
from machine import initramfs, netns, talk  # noqa: E402
from machine.qemu import Nic, boot, vhost_user  # noqa: E402

RING = 1024  # in one of 256, what is lost hides everything else
TAP, HOST = 'sltap', '10.9.0.1'
PORT = 5000
WARM_UP_MS, MEASURE_MS = 300, 900
PINGS, PING_EVERY = 60, 0.01


def cpu_seconds(pid):
    """CPU time of a process, by the clock that clock_getcpuclockid(3) names."""
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


class Guest:
    """`settings`: what a port of the switch is told, by the name of a variant."""

    def __init__(self, place, settings):
        rig = place.rig
        reason = netns.why_not()
        if reason:
            raise Failure(reason)
        try:
            initramfs.fetch()
            initramfs.archives(talk.FILES)
        except initramfs.Missing as missing:
            raise Failure(str(missing)) from None
        self.host = netns.Namespace(rig)
        self.ports = {variant: f'g{i}' for i, variant in enumerate(settings)}
        self.addresses = {variant: f'10.9.0.{i + 10}' for i, variant in enumerate(settings)}
        self.switch = rig.switch(
            [f'{self.ports[v]},path={rig.path(self.ports[v])},{keys}'
             for v, keys in settings.items()] + ['tap,dev=net_tap0'], cpu=HOST_CPU,
            wrap=self.host.wrap, vdevs=[f'net_tap0,iface={TAP}'], options=['--idle', 'sleep'])
        macs = [f'02:51:00:00:05:{i:02x}' for i, _ in enumerate(settings)]
        self.machine = boot(
            rig, [Nic(vhost_user(rig.path(self.ports[v])), mac=mac, ring=RING)
                  for v, mac in zip(settings, macs)], files=talk.FILES, cpu=GUEST_CPU)
        self.host.run(f'ip addr add {HOST}/24 dev {TAP}')
        self.host.run(f'ip link set {TAP} up')
        for i, (variant, mac) in enumerate(zip(settings, macs)):
            self._join(i, variant, mac)

    def _join(self, index, variant, mac):
        """Give a device its namespace. Nobody has to ask for addresses: that would be a flood."""
        port, address = self.ports[variant], self.addresses[variant]
        ip = initramfs.program('ip')
        here = re.search(r'link/ether (\S+)', self.host.run(f'ip link show {TAP}'))[1]
        self.machine.run(
            f'{ip} netns add {port} && {ip} link set {self.machine.interface(index)} netns {port} '
            f'name eth0 && {ip} -n {port} addr add {address}/24 dev eth0')
        self.machine.run(
            f'{ip} -n {port} link set eth0 up && '
            f'{ip} -n {port} neigh replace {HOST} lladdr {here} dev eth0 nud permanent')
        self.host.run(f'ip neigh replace {address} lladdr {mac} dev {TAP} nud permanent')
        self.switch.wait_up(port)
        self.machine.run(
            f'({ip} netns exec {port} peer stream-serve {PORT} {WARM_UP_MS} >/run/{port} 2>&1 &); '
            f'until grep -q listening /run/{port}; do usleep 10000; done')

    def stream(self, variant, size, every_us=0):
        """Messages of a size, as fast as it goes or one each so many microseconds."""
        port = self.ports[variant]
        before, cpu = self.switch.counters(port), cpu_seconds(self.machine.pid)
        said = self.host.run(
            f'taskset -c {HOST_CPU} {talk.PEER} stream-send {self.addresses[variant]} {PORT} '
            f'{size} {WARM_UP_MS + MEASURE_MS} {every_us or ""}')
        cpu = cpu_seconds(self.machine.pid) - cpu
        after = self.switch.counters(port)
        match = re.match(r'(\d+) messages, arrived: \d+ bytes, (\d+) of them in (\d+) ns', said)
        if not match:
            raise ProcError(f'{talk.PEER} said: {said}')
        messages, received, ns = map(int, match.groups())
        packets = after['tx_packets'] - before['tx_packets']
        figures = {
            'mbps': received * 8e3 / ns,
            'cpu_us_message': cpu * 1e6 / messages,
            'packets': packets,
            'lost': after['todrop_no_buffers'] - before['todrop_no_buffers'],
            'calls_packet': (after['calls'] - before['calls']) / packets,
        }
        if after.get('rx_profiles'):
            figures['profile'] = after['rx_profiles'][0]
        return figures

    def ping(self, variant):
        """One packet at a time on a link that is idle otherwise; the median of the round trips."""
        said = self.host.run(f'taskset -c {HOST_CPU} busybox ping -c {PINGS} -i {PING_EVERY} '
                             f'{self.addresses[variant]}')
        times = [float(ms) for ms in re.findall(r' time=([\d.]+) ms', said)]
        # Of answers that come all at once, after a stall, its socket holds only a few.
        if len(times) < 0.5 * PINGS:
            raise ProcError(f'{len(times)} of {PINGS} pings were answered:\n{said[-500:]}')
        return {'ping_us': statistics.median(times) * 1e3}
