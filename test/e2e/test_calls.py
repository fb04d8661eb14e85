# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""When the switch calls a guest: at once, not when it is not wanted, and held back, but never for
good, when coalescing is on."""

import os
import signal
import time

import pytest

from harness import frames
from harness import vhost_user as vu
from harness.guest import RX, TX, Guest
from harness.proc import wait_until
from harness.switch import losses
from harness.traffic import Traffic

A, B = '02:51:00:00:00:0a', '02:51:00:00:00:0b'

pytestmark = pytest.mark.check


class Pair:
    def __init__(self, rig, options=(), protocol=0, keys=''):
        self.switch = rig.switch([f'{p},path={rig.path(p)}{keys}' for p in ('pa', 'pb')],
                                 options=options)
        self.a = Guest(rig.path('pa'), calls=True)
        self.b = Guest(rig.path('pb'), calls=True, protocol=protocol)
        for port in ('pa', 'pb'):
            self.switch.wait_up(port)
        # The extra call of a ring that has just come up.
        for guest in (self.a, self.b):
            for ring in (RX, TX):
                wait_until(lambda g=guest, r=ring: g.called(r), 10, 'the first call')
        self.settle()

    def settle(self):
        """No call that is still on its way belongs to what follows."""
        last = None

        def still():
            nonlocal last
            before, last = last, self.count('calls')
            return before == last
        wait_until(still, 10, 'calls come to rest', interval=0.1)
        for guest in (self.a, self.b):
            for ring in (RX, TX):
                guest.called(ring)

    def count(self, key):
        return self.switch.settled('pa')[key] + self.switch.settled('pb')[key]

    def send(self, count=1):
        for i in range(count):
            self.a.send(frames.frame(B, A, 1, i, 100), i)
        assert len(self.b.wait_received(count)) == count


def test_called_at_once(rig):
    pair = Pair(rig)
    pair.send()
    wait_until(lambda: pair.b.called(RX), 10, 'the receiver is called')
    wait_until(lambda: pair.a.called(TX), 10, 'the sender is called')
    assert pair.switch.settled('pb')['calls_deferred'] == 0
    pair.switch.assert_ledger()
    pair.switch.quit()


def send_while(pair, change):
    """Frames for a guest that changes something all the time: each of them comes, in order."""
    sent = []
    for i in range(100):
        change(i)
        for j in range(4):
            sent.append(frames.frame(B, A, 1, 4 * i + j, 100))
            pair.a.send(sent[-1], j)
        assert pair.b.wait_received(4) == sent[-4:]
    assert losses(pair.switch.settled('pa')) == {}


def test_nothing_is_lost_while_a_call_descriptor_changes(rig):
    pair = Pair(rig)
    send_while(pair, lambda i: pair.b.replace_call(RX))
    # And it is the last one that is called.
    pair.b.called(RX)
    pair.send()
    wait_until(lambda: pair.b.called(RX), 10, 'the receiver is called')
    pair.switch.assert_ledger()
    pair.switch.quit()


def test_nothing_is_lost_while_the_mtu_changes(rig):
    pair = Pair(rig, protocol=vu.PROTOCOL_F_MTU)
    send_while(pair, lambda i: pair.b.frontend.send(
        vu.message(vu.NET_SET_MTU, vu.u64(1400 + i))))
    pair.switch.assert_ledger()
    pair.switch.quit()


def test_not_called_when_not_wanted(rig):
    pair = Pair(rig)
    pair.b.want_no_calls(RX)
    pair.a.want_no_calls(TX)
    before = pair.count('calls')
    for _ in range(5):
        pair.send()
    pair.settle()
    assert pair.count('calls') == before
    assert pair.b.called(RX) == 0
    assert pair.count('calls_suppressed') >= 10
    pair.switch.quit()


def test_a_call_descriptor_that_is_a_pipe(rig):
    """One that is full would hold up a worker: it is never written to, frames pass all the same."""
    switch = rig.switch([f'{p},path={rig.path(p)}' for p in ('pa', 'pb')])
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    try:
        while True:
            os.write(write_end, bytes(4096))
    except BlockingIOError:
        os.set_blocking(write_end, True)
    guest = Guest(rig.path('pb'), call_fds=[write_end, write_end])
    sender = Guest(rig.path('pa'))
    switch.wait_up('pa')
    switch.wait_up('pb')
    switch.expect(r'port pb: .*SET_VRING_CALL.* refused')
    sent = [frames.frame(B, A, 1, i, 100) for i in range(8)]
    for i, frame in enumerate(sent):
        sender.send(frame, i)
    assert guest.wait_received(len(sent)) == sent
    assert switch.settled('pb')['calls'] == 0
    switch.assert_ledger()
    switch.quit()
    os.close(read_end)


def test_held_back_until_enough(rig):
    """Frames are seen at once; the call comes with the eighth."""
    pair = Pair(rig, ['--coalesce', 'static,frames=8,usecs=100000'])
    calls, begun = pair.switch.settled('pb')['calls'], time.monotonic()
    pair.send(8)
    wait_until(lambda: pair.b.called(RX), 10, 'the receiver is called')
    counters = pair.switch.settled('pb')
    # And one more each time that 100 ms went by.
    assert counters['calls'] - calls <= 2 + (time.monotonic() - begun) // 0.1
    pair.switch.assert_ledger()
    pair.switch.quit()


def test_held_back_for_a_time(rig):
    """One frame alone is called for when its time is over, without any other traffic."""
    pair = Pair(rig, ['--coalesce', 'static,frames=1000,usecs=50000'])
    pair.send()
    counters = pair.switch.settled('pb')
    assert counters['calls_deferred'] >= 1
    wait_until(lambda: pair.b.called(RX), 10, 'the receiver is called')
    wait_until(lambda: pair.a.called(TX), 10, 'the sender is called')
    pair.switch.assert_ledger()
    pair.switch.quit()


def test_a_port_has_its_own_way(rig):
    """The keys of a port go before what is said for all."""
    pair = Pair(rig, ['--coalesce', 'static,frames=1000,usecs=50000'], keys=',coalesce=off')
    assert pair.switch.settled('pb')['coalesce'] == 'off'
    for _ in range(5):
        pair.send()
    wait_until(lambda: pair.b.called(RX), 10, 'the receiver is called')
    assert pair.count('calls_deferred') == 0
    pair.switch.quit()


def test_adaptive_calls_for_each_frame_that_is_waited_for(rig):
    """Whoever sends the next frame when this one is called for gets as many calls as frames."""
    pair = Pair(rig, ['--coalesce', 'adaptive'])
    assert pair.switch.settled('pb')['coalesce'] == 'adaptive'
    calls = pair.switch.settled('pb')['calls']
    for _ in range(200):
        pair.send()
        wait_until(lambda: pair.b.called(RX), 10, 'the receiver is called', interval=0.001)
    assert pair.switch.settled('pb')['calls'] - calls == 200
    pair.switch.assert_ledger()
    pair.switch.quit()


def test_adaptive_holds_back_a_stream(rig):
    """A stream of single frames to a guest that sleeps: after a while calls are held back, and
    every frame arrives."""
    switch = rig.switch([f'pa,path={rig.path("pa")}', f'pb,path={rig.path("pb")},coalesce=adaptive'])
    traffic = rig.add(
        Traffic, 'traffic', plugin=True, vdevs=[
            f'net_sluice_user{i},path={rig.path(port)},mac={mac}'
            for i, (port, mac) in enumerate((('pa', A), ('pb', B)))],
        options='--tx net_sluice_user0 --rx net_sluice_user1 --announce --sleep --rate 50k '
                '--when-late shift --duration 600 --drain 1000')
    # Whenever the machine lets the guest sleep often enough.
    switch.wait_counter('pb', 'profile_changes', 1, timeout=60)
    switch.wait_counter('pb', 'calls_deferred', 1)
    traffic.signal(signal.SIGTERM)
    receiver = traffic.result()['receiver']
    assert receiver['lost'] == switch.settled('pb')['todrop_no_buffers']
    assert receiver['sleep']['missed'] == 0
    switch.assert_ledger()
    switch.quit()
