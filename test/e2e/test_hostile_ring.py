# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Guests that write nonsense into their rings. A bad chain costs itself, a bad ring costs its port
until the guest resets it; the next good frame, and the neighbours, are as before."""

import pytest

from harness import frames
from harness.guest import (DESC_INDIRECT, DESC_NEXT, DESC_WRITE, ENTRIES, HEADER_LEN, PAGE, RX, TX,
                           Guest)
from harness.proc import wait_until
from harness.switch import losses

A, B, BAD = '02:51:00:00:00:0a', '02:51:00:00:00:0b', '02:51:00:00:00:bd'
SLOT = 40  # the entry that the bad chain begins at

pytestmark = pytest.mark.check


class Trio:
    def __init__(self, rig):
        self.rig = rig
        self.switch = rig.switch([f'{p},path={rig.path(p)}' for p in ('pa', 'pb', 'bad')])
        self.a, self.b = Guest(rig.path('pa')), Guest(rig.path('pb'))
        self.bad = Guest(rig.path('bad'))
        for port in ('pa', 'pb', 'bad'):
            self.switch.wait_up(port)
        for guest, mac in ((self.a, A), (self.b, B), (self.bad, BAD)):
            guest.send(frames.frame(frames.BROADCAST, mac, 0, 0, 60))
        self.a.wait_received(2)
        self.b.wait_received(2)
        self.bad.wait_received(2)
        self.switch.wait_learned({A: 'pa', B: 'pb', BAD: 'bad'})
        self.serial = 0

    def passes(self, sender, mac):
        """A frame of the sender's comes to b, whole."""
        self.serial += 1
        frame = frames.frame(B, mac, 1, self.serial, 200)
        sender.send(frame, self.serial % 8)
        assert self.b.wait_received(1) == [frame]

    def end(self):
        self.passes(self.a, A)
        ledger = self.switch.assert_ledger()
        for port in ('pa', 'pb'):
            assert not losses(ledger[port]), f'{port} lost frames: {losses(ledger[port])}'
        self.switch.quit()
        return ledger


def chain(*descriptors):
    """Descriptors from SLOT on: (address, length, flags, next)."""
    def write(guest):
        for i, d in enumerate(descriptors):
            guest.write_desc(TX, SLOT + i, *d)
    return write


BAD_CHAINS = {
    'address outside': chain((1 << 40, 100, 0, 0)),
    'address 2^64-1': chain(((1 << 64) - 1, 100, 0, 0)),
    'length wraps': chain(((1 << 64) - 64, 4096, 0, 0)),
    'length past the region': chain((0, 0xffffffff, 0, 0)),
    'empty at an address outside': chain((1 << 40, 0, 0, 0)),
    'for the device to write': chain((0, 100, DESC_WRITE, 0)),
    'second one to write': chain((0, 100, DESC_NEXT, SLOT + 1), (0, 100, DESC_WRITE, 0)),
    'next out of range': chain((0, 100, DESC_NEXT, ENTRIES)),
    'next 65535': chain((0, 100, DESC_NEXT, 65535)),
    'itself for ever': chain((0, 1, DESC_NEXT, SLOT)),
    'a loop of two': chain((0, 1, DESC_NEXT, SLOT + 1), (0, 1, DESC_NEXT, SLOT)),
    'indirect, not negotiated': chain((0, 16, DESC_INDIRECT, 0)),
    'sum above 4 GiB': chain(*[(0, 0x7fffffff, DESC_NEXT, SLOT + i + 1) for i in range(8)],
                             (0, 16, 0, 0)),
}

RUNTS = {
    'nothing at all': chain((0, 0, 0, 0)),
    'half a header': chain((0, 6, 0, 0)),
    'a header alone': chain((0, 12, 0, 0)),
    'a byte less than an Ethernet header': chain((0, 25, 0, 0)),
}


def test_bad_chains(rig):
    """Each is completed and counted, and the good frame behind it passes."""
    trio = Trio(rig)
    for count, (what, write) in enumerate(BAD_CHAINS.items(), 1):
        print(what)
        used = trio.bad.used(TX)
        write(trio.bad)
        trio.bad.offer(TX, SLOT)
        wait_until(lambda: trio.bad.used(TX) == (used + 1) & 0xffff, 10, f'{what}: completed')
        assert losses(trio.switch.settled('bad')) == {'drop_bad_chain': count}
        trio.passes(trio.bad, BAD)
    trio.end()


def test_runts(rig):
    trio = Trio(rig)
    for count, (what, write) in enumerate(RUNTS.items(), 1):
        print(what)
        write(trio.bad)
        trio.bad.offer(TX, SLOT)
        trio.switch.wait_counter('bad', 'drop_runt', count)
        trio.passes(trio.bad, BAD)
    assert losses(trio.switch.settled('bad')) == {'drop_runt': len(RUNTS)}
    trio.end()


RING_FAULTS = {
    'index leap': lambda g: g.offer(TX, 0, by=ENTRIES + 1),
    'index back': lambda g: g.offer(TX, 0, by=-5),
    'head out of range': lambda g: g.offer(TX, ENTRIES),
    'head 65535': lambda g: g.offer(TX, 65535),
}


@pytest.mark.parametrize('what', RING_FAULTS, ids=lambda w: w.replace(' ', '-'))
def test_a_broken_ring(rig, what):
    """Told once; left alone; a new connection starts afresh."""
    trio = Trio(rig)
    RING_FAULTS[what](trio.bad)
    trio.switch.expect(r'port bad: ring 1 is broken')
    trio.passes(trio.a, A)
    trio.bad.close()
    trio.bad = Guest(rig.path('bad'))
    trio.switch.wait_up('bad', 2)
    trio.passes(trio.bad, BAD)
    assert trio.switch.output().count('is broken') == 1
    trio.end()


def test_a_broken_receive_ring(rig):
    """Frames for it are counted as lost to it; the sender's other frames pass."""
    trio = Trio(rig)
    trio.bad.offer(RX, 0, by=ENTRIES + 1)
    # Buffers that were seen before are good still.
    had, sent = trio.switch.settled('bad')['tx_packets'], trio.bad.buffers + 5
    for i in range(sent):
        trio.a.send(frames.frame(BAD, A, 2, i, 100), i % 8)
        wait_until(lambda i=i: trio.a.used(TX) == trio.a.avail[TX], 10, 'taken')
    trio.switch.expect(r'port bad: ring 0 is broken')
    trio.passes(trio.a, A)
    ledger = trio.switch.assert_ledger()
    lost = ledger['bad']['todrop_broken']
    assert lost >= 5 and ledger['bad']['tx_packets'] - had + lost == sent
    assert losses(ledger['pa']) == {'drop_broken': lost}
    assert losses(ledger['pb']) == {}
    trio.switch.quit()


def test_receive_buffers_that_are_none(rig):
    """Bad receive buffers are used up one by one, completed with nothing; good ones work."""
    trio = Trio(rig)
    # Use up the good ones first.
    for i in range(trio.bad.buffers):
        trio.a.send(frames.frame(BAD, A, 3, i, 100), i % 8)
    trio.bad.avail[RX] &= 0xffff
    wait_until(lambda: trio.switch.counters('bad')['tx_packets'] >= trio.bad.buffers, 10,
               'the good buffers are used')
    for i, (addr, length, flags) in enumerate([(1 << 40, 2048, DESC_WRITE), (0, 2048, 0),
                                               (0, 4, DESC_WRITE), (0, 0, DESC_WRITE)]):
        trio.bad.write_desc(RX, SLOT + i, addr, length, flags)
        trio.bad.offer(RX, SLOT + i)
    at = 2 * 4096
    trio.bad.write_desc(RX, SLOT + 9, at, 4096, DESC_WRITE)
    trio.bad.offer(RX, SLOT + 9)
    used = trio.bad.used(RX)
    frame = frames.frame(BAD, A, 3, 99, 100)
    trio.a.send(frame, 9)
    wait_until(lambda: trio.bad.used(RX) == used + 5, 10, 'all five are used')
    assert trio.bad.memory[at + 12:at + 12 + 100] == frame
    trio.switch.assert_ledger()
    trio.switch.quit()


LONGEST = 65535
BUFFER = 64 << 20


def test_a_frame_as_long_as_memory(rig):
    """One descriptor may be 4 GiB long, and a guest may have a buffer for it: what is longer than
    any frame is dropped and not copied, so that the worker is not away for so long."""
    ports = [f'{p},path={rig.path(p)}' for p in ('pa', 'pb')]
    switch = rig.switch([*ports, f'loop,path={rig.path("loop")},loopback=on'])
    large = {'buffers': 0, 'pages': 3 * BUFFER // PAGE}
    a, b = Guest(rig.path('pa'), **large), Guest(rig.path('pb'), **large)
    loop = Guest(rig.path('loop'), **large)
    for port in ('pa', 'pb', 'loop'):
        switch.wait_up(port)
    head = frames.frame(frames.BROADCAST, A, 1, 0, 100)
    for sender, receiver, name in ((a, b, 'pa'), (loop, loop, 'loop')):
        room = receiver.tx_base + BUFFER
        for i in range(2):
            receiver.post(RX, [(room + i * BUFFER, BUFFER, True)])
        at = sender.tx_base
        sender.memory[at + HEADER_LEN:at + HEADER_LEN + len(head)] = head
        for length in (BUFFER, LONGEST + 1, LONGEST):
            used = sender.used(TX)
            sender.post(TX, [(at, length if length == BUFFER else length + HEADER_LEN, False)])
            wait_until(lambda g=sender, u=used: g.used(TX) != u, 10, f'{length} is taken')
        assert losses(switch.settled(name))['drop_too_big'] == 2
        assert receiver.used(RX) == 1
        end = room + HEADER_LEN + LONGEST
        assert receiver.memory[room + HEADER_LEN:end] == head + bytes(LONGEST - len(head))
    ledger = switch.assert_ledger()
    assert ledger['pb']['tx_bytes'] == ledger['loop']['tx_bytes'] == LONGEST
    switch.quit()
