# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A guest shares the descriptors it is called by with the switch: it makes them block again and
fills them, so that the next call would wait for good. It loses its port, the others nothing."""

import os
import threading

import pytest

from harness import frames
from harness import vhost_user as vu
from harness.guest import RX, TX, Guest
from harness.proc import wait_until
from harness.switch import losses

A, B, BAD = '02:51:00:00:00:0a', '02:51:00:00:00:0b', '02:51:00:00:00:bd'
FULL = (1 << 64) - 2
DOWN = r'port bad: down: its call descriptor blocks'

pytestmark = pytest.mark.check


class Trio:
    def __init__(self, rig, lcores=None):
        self.rig = rig
        self.switch = rig.switch([f'{p},path={rig.path(p)}' for p in ('pa', 'pb', 'bad')],
                                 lcores=lcores)
        self.a, self.b = Guest(rig.path('pa')), Guest(rig.path('pb'))
        self.bad = Guest(rig.path('bad'), calls=True)
        for port in ('pa', 'pb', 'bad'):
            self.switch.wait_up(port)
        for guest, mac in ((self.a, A), (self.b, B), (self.bad, BAD)):
            guest.send(frames.frame(frames.BROADCAST, mac, 0, 0, 60))
        for guest in (self.a, self.b, self.bad):
            guest.wait_received(2)
        self.switch.wait_learned({A: 'pa', B: 'pb', BAD: 'bad'})
        # No call is on its way: a look at the counters is in a later turn.
        self.switch.assert_ledger()
        wait_until(lambda: self.bad.called(TX), 10, 'the call for its own frame')
        self.serial = 0

    def block(self, ring):
        """The next write to it waits until somebody reads, and nobody will."""
        fd = self.bad.calls[ring]
        self.bad.called(ring)
        os.eventfd_write(fd, FULL)
        os.set_blocking(fd, True)

    def exchange(self, count):
        for _ in range(count):
            self.serial += 1
            frame = frames.frame(B, A, 1, self.serial, 200)
            self.a.send(frame, self.serial % 8)
            assert self.b.wait_received(1) == [frame]

    def others_go_on(self):
        self.exchange(20)
        self.switch.expect(DOWN)
        assert self.bad.frontend.closed()
        self.exchange(5)
        self.bad.close()
        with Guest(self.rig.path('bad'), calls=True) as again:
            self.switch.wait_up('bad', 2)
            frame = frames.frame(B, BAD, 2, 0, 100)
            again.send(frame)
            assert self.b.wait_received(1) == [frame]
            wait_until(lambda: again.called(TX), 10, 'the new one is called')
        ledger = self.switch.assert_ledger()
        assert not losses(ledger['pb']) and not losses(ledger['pa'])
        self.switch.quit()


def test_the_receiver_blocks(rig):
    """The neighbour's frame for it arrives; the worker is got out of the call behind it."""
    trio = Trio(rig)
    trio.block(RX)
    trio.a.send(frames.frame(BAD, A, 3, 0, 100))
    trio.others_go_on()


def test_the_sender_blocks(rig):
    trio = Trio(rig)
    trio.block(TX)
    trio.bad.send(frames.frame(A, BAD, 3, 0, 100))
    assert trio.a.wait_received(1)
    trio.others_go_on()


def test_while_the_control_thread_waits_for_the_worker(rig):
    """The worker is caught when others come and go: their messages are answered."""
    trio = Trio(rig, lcores='0@0,1@0,2@0')
    trio.block(RX)
    trio.a.send(frames.frame(BAD, A, 3, 0, 100))
    for _ in range(3):
        trio.b.close()
        trio.b = Guest(trio.rig.path('pb'))
        frame = frames.frame(A, B, 4, 0, 60)
        trio.b.send(frame)
        assert frame in trio.a.wait_received(1)
        trio.switch.wait_learned({B: 'pb'})
    trio.others_go_on()


def test_the_switch_ends_while_a_call_waits(rig):
    trio = Trio(rig)
    trio.block(RX)
    trio.a.send(frames.frame(BAD, A, 3, 0, 100))
    trio.switch.quit()


def test_the_control_thread_calls(rig):
    """It makes a call after each change: the descriptor is made to block again in between."""
    trio = Trio(rig)
    trio.block(RX)
    stop = threading.Event()

    def hammer():
        while not stop.is_set():
            os.set_blocking(trio.bad.calls[RX], True)
    thread = threading.Thread(target=hammer)
    thread.start()
    try:
        for _ in range(50):
            # The same again is a change as well: the rings are taken away and given back.
            trio.bad.frontend.send(vu.message(vu.SET_VRING_CALL, vu.u64(RX)),
                                   [trio.bad.calls[RX]])
            trio.exchange(1)
            if trio.bad.frontend.closed():
                break
    except OSError:
        pass  # it was dropped in the middle
    finally:
        stop.set()
        thread.join()
    trio.others_go_on()
