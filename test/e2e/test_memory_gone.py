# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A guest truncates the file behind its memory: the switch faults where it touches it. The guest
loses its port, the others lose nothing, and a new guest is welcome."""

import pytest

from harness import frames
from harness.guest import PAGE, Guest
from harness.switch import losses

A, B, BAD = '02:51:00:00:00:0a', '02:51:00:00:00:0b', '02:51:00:00:00:bd'

pytestmark = pytest.mark.check


class Trio:
    """Two good guests that know each other, and a bad one; all without pollers of their own."""

    def __init__(self, rig, lcores=None):
        self.rig = rig
        self.switch = rig.switch([f'{p},path={rig.path(p)}' for p in ('pa', 'pb', 'bad')],
                                 lcores=lcores)
        self.a, self.b = Guest(rig.path('pa')), Guest(rig.path('pb'))
        self.bad = Guest(rig.path('bad'))
        for port in ('pa', 'pb', 'bad'):
            self.switch.wait_up(port)
        self.serial = 0

    def exchange(self):
        """A frame from a to b alone, whole."""
        self.b.received()
        self.serial += 1
        frame = frames.frame(B, A, 1, self.serial, 600)
        self.a.send(frame)
        assert self.b.wait_received(1) == [frame]

    def introduce(self):
        """Everybody is learned."""
        for guest, mac in ((self.a, A), (self.b, B), (self.bad, BAD)):
            guest.send(frames.frame(frames.BROADCAST, mac, 0, 0, 60))
        self.a.wait_received(2)
        self.b.wait_received(2)
        self.switch.wait_learned({A: 'pa', B: 'pb', BAD: 'bad'})

    def bad_is_gone_others_are_not(self):
        self.switch.expect(r'port bad: down: .*SIGBUS')
        assert self.bad.frontend.closed()
        for _ in range(10):
            self.exchange()
        ledger = self.switch.assert_ledger()
        # It comes back with new memory.
        self.bad.close()
        with Guest(self.rig.path('bad')) as again:
            self.switch.wait_up('bad', 2)
            frame = frames.frame(frames.BROADCAST, BAD, 2, 0, 100)
            again.send(frame)
            assert frame in self.b.wait_received(1)
        self.switch.assert_ledger()
        self.switch.quit()
        return ledger


def test_all_of_it(rig):
    trio = Trio(rig)
    trio.introduce()
    trio.bad.truncate(0)
    ledger = trio.bad_is_gone_others_are_not()
    assert not losses(ledger['pa']) and not losses(ledger['pb'])


def test_the_buffers_it_receives_into(rig):
    """The fault is in the copy to it, in the middle of a flood: the others get every frame."""
    trio = Trio(rig)
    trio.introduce()
    trio.bad.truncate(2 * PAGE)
    sent = [frames.frame(frames.BROADCAST, A, 3, i, 300) for i in range(8)]
    for i, frame in enumerate(sent):
        trio.a.send(frame, i)
    assert trio.b.wait_received(len(sent)) == sent
    ledger = trio.bad_is_gone_others_are_not()
    assert not losses(ledger['pb'])
    assert set(losses(ledger['bad'])) <= {'todrop_broken', 'todrop_link_down'}
    lost = sum(losses(ledger['bad']).values())
    assert lost == sum(losses(ledger['pa']).values()) > 0


def test_the_frame_it_sends(rig):
    """The fault is in the copy from it, behind the bytes that were looked at, with the lock of a
    neighbour's queue held: the neighbour goes on."""
    trio = Trio(rig)
    trio.introduce()
    trio.bad.truncate(trio.bad.tx_base + PAGE)
    frame = frames.frame(B, BAD, 4, 0, 1000)
    whole = frames.frame(B, BAD, 4, 1, 64)
    head = bytes(12) + frame[:200]
    at = trio.bad.tx_base
    trio.bad.memory[at:at + len(head)] = head
    trio.bad.memory[at + 2048:at + 2048 + 12 + 64] = bytes(12) + whole
    # One whole frame, and one whose end lies behind the end of the file.
    trio.bad.post(1, [(at + 2048, 12 + 64, False)])
    trio.bad.post(1, [(at, len(head), False), (at + PAGE, len(frame) - 200, False)])
    trio.switch.expect(r'port bad: down: .*SIGBUS')
    assert trio.b.received() == [whole], 'what was whole is not lost'
    ledger = trio.bad_is_gone_others_are_not()
    assert losses(ledger['bad']) == {'drop_broken': 1}
    assert losses(ledger['pb']) == {'todrop_broken': 1}


def test_with_two_workers(rig):
    """Both workers deliver into the memory that goes."""
    trio = Trio(rig, lcores='0@0,1@0,2@0')
    trio.introduce()
    trio.bad.truncate(2 * PAGE)
    for i in range(8):
        trio.a.send(frames.frame(frames.BROADCAST, A, 5, i, 300), i)
        trio.b.send(frames.frame(frames.BROADCAST, B, 5, i, 300), i)
    assert len(trio.b.wait_received(8)) == 8
    assert len(trio.a.wait_received(8)) == 8
    ledger = trio.bad_is_gone_others_are_not()
    for port in ('pa', 'pb'):
        assert not [k for k in losses(ledger[port]) if k.startswith('todrop')]
