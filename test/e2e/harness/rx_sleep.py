# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""rx_sleep: an application that sleeps on receive interrupts; and who sends to it, a frame at a
time."""

import contextlib
import json
import os
import random
import re
import select
import signal
import time

from . import build, frames
from .guest import RX, TX, Guest
from .proc import SLOWEST, Proc, wait_until
from .telemetry import Telemetry, socket_path


def program():
    return os.path.join(build.build_dir(), 'test/e2e/rx_sleep')


def parse(text):
    """The line of JSON in what it printed."""
    found = re.findall(r'^\{"program": "rx_sleep".*\}$', text, re.M)
    assert len(found) == 1, f'rx_sleep printed no result:\n{text[-2000:]}'
    return json.loads(found[0])


class RxSleep(Proc):
    def __init__(self, runtime_dir, name, *, vdev=None, options=(), cpu=1, mem=64, log_path=None,
                 user=None, ready=True, eal=()):
        self.runtime_dir = runtime_dir
        self._telemetry = None
        option, env = build.plugin_option()
        argv = [program(), '--lcores', f'0@{cpu}', '--no-pci', '--no-huge', '-m', str(mem),
                '--file-prefix=' + name, '-d', option, *(['--vdev', vdev] if vdev else []), *eal,
                '--', *options]
        super().__init__(argv, name, env={'RUNTIME_DIRECTORY': runtime_dir, **env}, cpu=cpu,
                         user=user, log_path=log_path)
        if ready:
            self.wait_ready()

    def wait_ready(self):
        self.expect(r'^rx_sleep: ready$', 30)

    def _ask(self, command):
        if self._telemetry is None:
            self._telemetry = Telemetry(socket_path(self.runtime_dir, self.name))
        return self._telemetry.ask(command)

    def xstats(self):
        return self._ask('/ethdev/xstats,0')

    def wait_link(self, up):
        wait_until(lambda: (self._ask('/ethdev/link_status,0')['status'] == 'UP') == up, 20,
                   f'{self.name}: link {"up" if up else "down"}')

    def wait_asleep(self, received=0):
        """It has armed its queues and does not arm them again, until something happens.
        `received`: not before it has so many frames."""
        wait_until(lambda: self.xstats()['rx_q0_good_packets'] >= received, 20,
                   lambda: f'{self.name}: of {received} frames: {self.xstats()}')
        last = None

        def still():
            nonlocal last
            before, last = last, self.xstats()['rx_q0_intr_armed']
            return before == last
        wait_until(still, 20, f'{self.name}: asleep', interval=0.1)

    def result(self, timeout=20):
        """End it, unless it has its frames; what it saw."""
        if self._telemetry:
            self._telemetry.close()
            self._telemetry = None
        self.signal(signal.SIGTERM)
        code = self.wait(timeout)
        assert code == 0, f'{self.name}: exit {code}; its output:\n{self.output()[-2000:]}'
        seen = parse(self.output())
        print(f'{self.name}: {seen}')
        return seen


class Sender:
    """A guest by hand that sends a frame, waits until it comes back, and lets a random time pass:
    so each frame finds the other side at another moment of its falling asleep. While it waits it
    sleeps, too; and it stays away from the CPU of the other side, for that to go on meanwhile."""

    def __init__(self, path, dst, macs, seed, cpu=0):
        self.guest = Guest(path, calls=True)
        self.guest.want_no_calls(TX)
        self.dst, self.macs, self.cpu = dst, macs, cpu
        self.random = random.Random(seed)
        self.poll = select.poll()
        self.poll.register(self.guest.calls[RX], select.POLLIN)
        self.sequence = 0

    def _wait_echo(self, frame, timeout):
        deadline = time.monotonic() + timeout
        while True:
            got = self.guest.received()
            if got:
                assert got == [frames.swapped(frame)], f'frame {self.sequence} came back wrong'
                return
            assert time.monotonic() < deadline, \
                f'frame {self.sequence} did not come back within {timeout} s'
            self.poll.poll(int(timeout * 1000))
            self.guest.called(RX)

    @contextlib.contextmanager
    def _on_its_cpu(self):
        cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.cpu})
        try:
            yield
        finally:
            os.sched_setaffinity(0, cpus)

    def send(self, count, longest_us=300, timeout=10 * SLOWEST):
        with self._on_its_cpu():
            self._send(count, longest_us, timeout)

    def stream(self, count, gap_us):
        """Frames that nobody sends back, so far apart or, after a delay, one right after another."""
        guest, pages = self.guest, 16
        with self._on_its_cpu():
            due = time.perf_counter()
            for _ in range(count):
                while time.perf_counter() < due or \
                        guest.avail[TX] - guest.used(TX) & 0xffff >= pages:
                    pass
                guest.send(frames.frame(self.dst, self.macs[0], 1, self.sequence, 60),
                           self.sequence % pages)
                self.sequence += 1
                due += gap_us * 1e-6

    def _send(self, count, longest_us, timeout):
        for _ in range(count):
            frame = frames.frame(self.dst, self.random.choice(self.macs), 1, self.sequence,
                                 self.random.choice([60, 600, 1514]))
            until = time.perf_counter() + self.random.uniform(0, longest_us * 1e-6)
            while time.perf_counter() < until:
                pass
            self.guest.send(frame, self.sequence % 16)
            self._wait_echo(frame, timeout)
            self.sequence += 1

    def close(self):
        self.guest.close()
