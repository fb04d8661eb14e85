# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Steady traffic of guests by hand, in a thread of its own, while a test does things to others.

A few frames of each flow are on their way at any time. One that does not arrive makes way for the
next after a while; should it come later, it has come.
"""

import select
import threading
import time

from . import frames
from .guest import RX, TX
from .proc import wait_until

WINDOW = 8
# Seconds. Who is away for longer than the first finds a window more each time, and after ten times
# as long more than a ring of 64 buffers holds.
PATIENCE = 1
LAST_PATIENCE = 30  # for what is on its way when no more is sent, and may only be late
LITTLE_PATIENCE = 0.02  # where nobody takes the frames: sent so much faster
SIZES = (60, 61, 600, 1514)


class Flow:
    """Numbered frames from `source` to an address; they arrive at `sink`. Without one somebody
    sends them back, with their addresses swapped."""

    def __init__(self, number, source, src, dst, sink=None):
        self.number, self.src, self.dst = number, src, dst
        self.source, self.sink = source, sink or source
        self.reflected = sink is None
        self.first = self.next = 0  # sequence numbers: where counting began, of the next frame
        self.renewed = 0  # of the first that its last source sent
        self.came = set()
        self.again = 0  # came that had come before
        self.on_their_way = {}  # sequence: when we give up waiting for it
        self.patience = PATIENCE

    @property
    def sent(self):
        return self.next - self.first

    @property
    def lost(self):
        return self.sent - len(self.came)

    def missing(self):
        """Numbers that have not come."""
        return [sequence for sequence in range(self.first, self.next) if sequence not in self.came]

    def forget(self):
        """Count from here on, in a pause. What was sent before must not come any more."""
        self.first = self.next
        self.came.clear()
        self.again = 0

    def send(self):
        guest = self.source
        while len(self.on_their_way) < WINDOW and \
                (guest.avail[TX] - guest.used(TX)) & 0xffff < 2 * WINDOW:
            guest.send(frames.frame(self.dst, self.src, self.number, self.next,
                                    SIZES[self.next % len(SIZES)]), self.next % (2 * WINDOW))
            self.on_their_way[self.next] = time.monotonic() + self.patience
            self.next += 1
        if guest.kicks:
            guest.kick()

    def arrived(self, data):
        dst, src, _, sequence = frames.parse(data)
        if (src, dst) != ((self.dst, self.src) if self.reflected else (self.src, self.dst)):
            return  # of ours, but flooded, and sent back by somebody else
        assert self.first <= sequence < self.next
        self.again += sequence in self.came
        self.came.add(sequence)
        self.on_their_way.pop(sequence, None)

    def wait_for_the_last(self):
        """A flow keeps its order: what was overtaken is lost, and not waited for."""
        newest = max(self.came, default=-1)
        for sequence in self.on_their_way:
            if sequence > newest:
                self.on_their_way[sequence] += LAST_PATIENCE

    def give_up(self, now):
        for sequence in [s for s, until in self.on_their_way.items() if now > until]:
            del self.on_their_way[sequence]


class Steady:
    def __init__(self, flows):
        self.flows = flows
        self.failure = None
        self._sending, self._ended = True, False
        self._replaced = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _take(self):
        for sink in {flow.sink for flow in self.flows}:
            if sink.calls:
                sink.called(RX)
            for data in sink.received():
                # What others flood comes here, too.
                number = frames.stream_of(data)
                for flow in self.flows:
                    if flow.sink is sink and flow.number == number:
                        flow.arrived(data)

    def _turn(self):
        with self._lock:
            while self._replaced:
                self._replaced.pop().close()
            self._take()
            for flow in self.flows:
                flow.give_up(time.monotonic())
                if self._sending:
                    flow.send()
            calls = [flow.sink.calls[RX] for flow in self.flows]
        select.select(calls, [], [], 0.02)

    def _run(self):
        try:
            while not self._ended:
                self._turn()
        except BaseException as failure:  # told by whoever waits next
            self.failure = failure

    def _assert_runs(self):
        if self.failure:
            raise AssertionError('steady traffic came to its end') from self.failure

    def pause(self):
        """Send no more, and wait until nothing is on its way."""
        with self._lock:
            self._sending = False
            for flow in self.flows:
                flow.wait_for_the_last()

        def quiet():
            self._assert_runs()
            with self._lock:
                return not any(flow.on_their_way for flow in self.flows)
        wait_until(quiet, 60, 'frames on their way arrive or are given up')

    def go_on(self):
        self._sending = True

    def wait_moves(self, flow, by=50, timeout=60):
        """Frames of a flow arrive, of those that are sent from now on."""
        at = flow.next

        def moved():
            self._assert_runs()
            with self._lock:
                return sum(sequence >= at for sequence in flow.came) >= by
        wait_until(moved, timeout, lambda: f'flow {flow.number}: {len(flow.came)} of {flow.sent}')

    def oldest(self, flow):
        """The first of a flow that has not come, or will be sent next."""
        with self._lock:
            return next(iter(flow.missing()), flow.next)

    def replace(self, old, new):
        """A guest by hand takes the place of another, which is closed when nobody waits for it."""
        with self._lock:
            self._replaced.append(old)
            for flow in self.flows:
                if flow.source is old:
                    flow.source, flow.renewed = new, flow.next
                flow.sink = new if flow.sink is old else flow.sink

    def close(self):
        self._ended = True
        self._thread.join(10)
