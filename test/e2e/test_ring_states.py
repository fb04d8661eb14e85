# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Rings that are started and disabled, stopped and started again: what becomes of the frames."""

import re

import pytest

from harness import frames
from harness import vhost_user as vu
from harness.guest import RX, TX, Guest
from harness.proc import wait_until
from harness.switch import losses

A, B = '02:51:00:00:00:0a', '02:51:00:00:00:0b'

pytestmark = pytest.mark.check


def hello(guest, mac, other):
    guest.send(frames.frame(frames.BROADCAST, mac, 0, 0, 60))
    other.wait_received(1)


def test_started_but_disabled(rig):
    """Transmitted frames are taken and discarded, the receive ring is not filled."""
    switch = rig.switch([f'{p},path={rig.path(p)}' for p in ('pa', 'pb')])
    a = Guest(rig.path('pa'))
    b = Guest(rig.path('pb'), features=vu.F_VERSION_1 | vu.F_PROTOCOL_FEATURES)
    switch.wait_up('pa')
    # Not enabled yet.
    for i in range(3):
        b.send(frames.frame(frames.BROADCAST, B, 1, i, 60), i)
    wait_until(lambda: b.used(TX) == 3, 10, 'taken')
    assert losses(switch.settled('pb')) == {'drop_disabled': 3}
    a.send(frames.frame(B, A, 1, 0, 60))
    switch.wait_counter('pa', 'drop_no_receiver', 1)

    b.enable(RX)
    b.enable(TX)
    hello(b, B, a)
    switch.wait_learned({B: 'pb'})
    frame = frames.frame(B, A, 2, 0, 200)
    a.send(frame)
    assert b.wait_received(1) == [frame]

    # Known, and disabled again: its frames are not flooded, they are lost to it.
    b.enable(RX, False)
    used = b.used(RX)
    for i in range(4):
        a.send(frames.frame(B, A, 3, i, 60), i)
    switch.wait_counter('pb', 'todrop_link_down', 4)
    assert b.used(RX) == used
    b.enable(RX)
    frame = frames.frame(B, A, 4, 0, 200)
    a.send(frame)
    assert b.wait_received(1) == [frame]
    switch.assert_ledger()
    assert losses(switch.settled('pa')) == {'drop_no_receiver': 1, 'drop_link_down': 4}
    switch.quit()


def test_the_base_is_what_comes_next(rig):
    """Stopped and asked twice; nothing is taken meanwhile; the start goes on where it was."""
    switch = rig.switch([f'{p},path={rig.path(p)}' for p in ('pa', 'pb')])
    a, b = Guest(rig.path('pa')), Guest(rig.path('pb'))
    switch.wait_up('pa')
    switch.wait_up('pb')
    sent = [frames.frame(frames.BROADCAST, A, 1, i, 100) for i in range(5)]
    for i, frame in enumerate(sent[:3]):
        a.send(frame, i)
    assert b.wait_received(3) == sent[:3]
    assert a.stop(TX) == 3
    assert a.stop(TX) == 3
    switch.expect(r'port pa: down')
    for i, frame in enumerate(sent[3:]):
        a.send(frame, i)
    assert a.stop(RX) == 0
    assert switch.settled('pa')['rx_packets'] == 3
    a.start(TX, 3)
    a.start(RX, 0)
    assert b.wait_received(2) == sent[3:]
    switch.wait_up('pa', 2)
    switch.assert_ledger()
    switch.quit()


def test_up_for_a_moment_only(rig):
    """Gone before it was told to be up: both is told, with what it was."""
    switch = rig.switch([f'pa,path={rig.path("pa")}'])
    for times in range(1, 4):
        with Guest(rig.path('pa')) as guest:
            guest.send(frames.frame(frames.BROADCAST, A, 1, 0, 60))
            wait_until(lambda g=guest: g.used(TX) == 1, 10, 'taken')
        wait_until(lambda n=times: switch.output().count('port pa: down') == n, 10, 'down is told')
    told = re.findall(r'port pa: (up, features .* protocol \S+),', switch.output())
    assert told == 3 * ['up, features 0x100000000 [VERSION_1] protocol 0x0']
    switch.quit()
