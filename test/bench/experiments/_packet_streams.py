# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Packets into a receiver that sleeps on its interrupts: one switch with a port for each setting of
coalescing; sluice-traffic sends and receives by two threads of one CPU, both of which sleep."""

import signal
import time

from harness.traffic import Traffic
from rigs import GUEST_CPU, HOST_CPU, hold

WARM_UP, MEASURE = 0.2, 0.8
DRAIN_MS = 20  # after a longer pause adaptive coalescing begins anew
SENDER = 'tx'
MACS = ('02:51:00:00:06:01', '02:51:00:00:06:02')


class Packets:
    """`settings`: what a port of the switch is told, by the name of a variant."""

    def __init__(self, place, settings):
        self._place = place
        self.ports = {variant: f'p{i}' for i, variant in enumerate(settings)}
        self.switch = place.rig.switch(
            [f'{SENDER},path={place.rig.path(SENDER)},coalesce=off']
            + [f'{port},path={place.rig.path(port)},{settings[v]}'
               for v, port in self.ports.items()], cpu=HOST_CPU, huge_dir=place.huge_dir)
        hold(self.switch)

    def stream(self, variant, rate, shape):
        """So many packets a second, `shape` as sluice-traffic has it."""
        self.switch.signal(signal.SIGCONT)
        try:
            return self._stream(variant, rate, shape)
        finally:
            hold(self.switch)

    def _stream(self, variant, rate, shape):
        port = self.ports[variant]
        vdevs = [f'net_sluice_user{i},path={self._place.rig.path(name)},mac={mac}'
                 for i, (name, mac) in enumerate(zip((SENDER, port), MACS))]
        cpu = GUEST_CPU
        traffic = self._place.rig.add(
            Traffic, 'traffic', lcores=f'0@{cpu},1@{cpu},2@{cpu}', plugin=True, vdevs=vdevs,
            huge_dir=self._place.huge_dir,
            options=f'--tx net_sluice_user0 --rx net_sluice_user1 --announce --size 60 --sleep '
                    f'--rx-descs 1024 --rate {rate} --shape {shape} --warmup {WARM_UP} '
                    f'--duration {MEASURE} --drain {DRAIN_MS}')
        traffic.expect('^sluice-traffic: running$', 20)
        begun, before = time.monotonic(), self.switch.counters(port)
        time.sleep(max(0, 0.8 * MEASURE - (time.monotonic() - begun)))
        during = self.switch.counters(port)
        result = traffic.result()
        self._place.rig.processes.remove(traffic)
        receiver = result['receiver']
        loop, = (loop for loop in result['stalls'] if loop['receives'])
        received = receiver['received']
        packets = during['tx_packets'] - before['tx_packets']
        figures = {
            'packets_cpu_s': received / loop['cpu_s'],
            'wakes_packet': receiver['sleep']['wakes'] / received,
            'calls_packet': (during['calls'] - before['calls']) / packets,
            'p50_us': receiver['latency_ns']['p50'] / 1e3,
            'p99_us': receiver['latency_ns']['p99'] / 1e3,
            'received_kpps': received / MEASURE / 1e3,
            'lost': receiver['lost'],
            'missed': receiver['sleep']['missed'],
        }
        if during.get('rx_profiles'):
            figures['profile'] = during['rx_profiles'][0]
        return figures
