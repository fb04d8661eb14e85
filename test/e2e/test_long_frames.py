# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Frames longer than an mbuf, merged and as chains of receive buffers: every byte of them."""

import signal

import pytest

from harness import matrix
from harness.traffic import Traffic

PORT = 'net_sluice_user0'
BUFFER = 2048
# (MTU, sizes, descriptors of a chain): borders of buffers, and the longest frame.
SHAPES = [
    (9000, f'64,{BUFFER - 1},{BUFFER},{BUFFER + 1},{2 * BUFFER + 12},{2 * BUFFER + 13},9014', 5),
    (65517, f'1514,{BUFFER + 1},9014,65535,64', 32),
]
RING, FRAMES = 256, 7000


def assert_whole(receiver):
    for what in ('lost', 'reordered', 'duplicates', 'bad_length', 'bad_content', 'foreign'):
        assert receiver[what] == 0, what


@pytest.mark.parametrize('mtu,sizes,chain', SHAPES, ids=lambda v: str(v) if v == 9000 else '')
@pytest.mark.parametrize('mrg_rxbuf,loopback', [(0, 'on'), (1, 'on'), (1, 'mbuf')])
def test_long_frames_through_the_switch(rig, mrg_rxbuf, loopback, mtu, sizes, chain):
    """There and back in a closed loop that no ring is too small for: nothing is lost."""
    case = {**matrix.DEFAULT_CASE, 'mrg_rxbuf': bool(mrg_rxbuf)}
    switch = rig.switch([matrix.switch_port('p', rig.path('p'), case, loopback=loopback,
                                             mtu=mtu)])
    window = RING // chain - 1
    result = rig.add(Traffic, 'traffic', plugin=True, options=(
        f'--tx {PORT} --rx {PORT} --window {window} --burst {window} --count {FRAMES} --flows 3 '
        f'--size {sizes} --mtu {mtu} --mbuf-size {BUFFER} --verify --drain 1000'),
        vdevs=[f'{PORT},path={rig.path("p")},queue_size={RING},mrg_rxbuf={mrg_rxbuf}']).result()
    sender, receiver = result['sender'], result['receiver']
    assert sender['sent'] == receiver['received'] == FRAMES
    assert receiver['received_bytes'] == sender['sent_bytes']
    assert_whole(receiver)
    counters = switch.assert_ledger()['p']
    assert counters['rx_packets'] == counters['tx_packets'] == FRAMES
    copies = 2 if loopback == 'mbuf' else 1
    assert counters['bytes_copied'] == copies * counters['bytes_delivered']
    switch.quit()


@pytest.mark.parametrize('mtu,sizes,chain', SHAPES, ids=lambda v: str(v) if v == 9000 else '')
@pytest.mark.parametrize('mrg_rxbuf', [0, 1])
def test_long_frames_from_stock_net_vhost(rig, mrg_rxbuf, mtu, sizes, chain):
    """The sender tries again until a frame is taken. It sends more than are waited for, since what
    is in the ring when it ends is lost with it."""
    del chain
    sender = rig.add(Traffic, 'sender', cpu=0, vdevs=[f'net_vhost0,iface={rig.path("s")},client=0'],
                     options=f'--tx net_vhost0 --rate max --count {FRAMES} --flows 3 '
                     f'--size {sizes} --verify')
    sender.expect('vhost-user server: socket created', 20)
    count = FRAMES - RING
    receiver = rig.add(Traffic, 'receiver', cpu=1, plugin=True, options=(
        f'--rx {PORT} --count {count} --duration 60 --drain 0 --flows 3 --size {sizes} --verify '
        f'--mtu {mtu} --mbuf-size {BUFFER}'),
        vdevs=[f'{PORT},path={rig.path("s")},queue_size={RING},mrg_rxbuf={mrg_rxbuf}'])
    received = receiver.result()['receiver']
    sender.signal(signal.SIGTERM)
    sender.result()
    assert received['received'] >= count
    assert_whole(received)
