# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The harness itself, on the stock pair: when this fails, the other tests say nothing."""

import pytest

from harness import features, frames, matrix, pcap
from harness.proc import ProcError
from harness.testpmd import vhost_features

CASE = {'mrg_rxbuf': True, 'indirect': True, 'in_order': False, 'event_idx': False,
        'ring': 256, 'queues': 1, 'huge': False, 'size': 1500}
MAC_A, MAC_B = '02:51:00:00:00:0a', '02:51:00:00:00:0b'


def pair(rig, case, pages=None):
    """A capture through stock net_vhost and stock net_virtio_user and back."""
    content = frames.stream(MAC_A, MAC_B, 0, 32, case['size'])
    source, sink = rig.capture('in.pcap', content), rig.path('out.pcap')
    sock = rig.path('s')
    host = rig.testpmd('vhost', cpu=0, huge_dir=pages, fwd='io',
                       vdevs=[f'net_vhost0,iface={sock},queues=1,client=0',
                              rig.pcap_vdev(0, [source], [sink])],
                       **matrix.port_options(case))
    guest = rig.testpmd('virtio', cpu=1, huge_dir=pages, fwd='macswap', topology='loop',
                        vdevs=[matrix.virtio_vdev(0, sock, case)],
                        **matrix.port_options(case, scatter=[0]))
    guest.wait_link(True)
    host.wait_link(True)
    free = guest.mbufs_free()
    features.assert_features(vhost_features(host), {'MRG_RXBUF': case['mrg_rxbuf'],
                                                    'EVENT_IDX': False}, 'stock net_vhost')
    matrix.show_stock_modes(guest)
    guest.start()
    host.start()
    host.wait_stat(1, 'opackets', 32)
    host.stop()
    assert guest.stop()[0]['rx'] == 32
    frames.assert_same(pcap.read(sink), [frames.swapped(f) for f in content], 'stock pair')
    assert guest.xstats(0)['rx_good_packets'] == 32
    # Stock gives transmitted mbufs back late; a jumbo frame is five of them.
    assert free - guest.mbufs_free() <= 32 * 5
    assert guest.quit() == 0 and host.quit() == 0


@pytest.mark.check
@pytest.mark.stock
def test_capture_through_the_stock_pair(rig):
    pair(rig, CASE)


@pytest.mark.stock
def test_jumbo_frames_merge_in_the_stock_pair(rig):
    pair(rig, dict(CASE, size=9000))


@pytest.mark.stock
def test_jumbo_frames_fit_large_buffers_in_the_stock_pair(rig):
    pair(rig, dict(CASE, size=9000, mrg_rxbuf=False, in_order=True))


@pytest.mark.stock
def test_stock_pair_on_hugepages(rig, huge_dir):
    pair(rig, CASE, huge_dir)


@pytest.mark.stock
def test_stock_pair_as_an_ordinary_user(user_rig):
    pair(user_rig, CASE)


@pytest.mark.check
@pytest.mark.stock
def test_endless_stream_and_kill(rig):
    """An endless source keeps sending over the death of the receiver; the harness sees both."""
    sock = rig.path('s')
    host = rig.testpmd('vhost', cpu=0, fwd='io', vdevs=[
        f'net_vhost0,iface={sock},queues=1,client=0', rig.stream_source(0, MAC_A, MAC_B, 1)])
    host.start()
    for _ in range(2):
        at = host.mark()
        guest = rig.testpmd('virtio', cpu=1, fwd='rxonly',
                            vdevs=[matrix.virtio_vdev(0, sock, CASE)])
        guest.start()
        guest.wait_moves(0, 'ipackets')
        assert guest.kill9() == -9
        host.expect('vhost peer closed', since=at)
    with pytest.raises(ProcError):
        guest.cmd('show port stats all')


@pytest.mark.check
@pytest.mark.stock
def test_frames_know_when_they_are_damaged():
    good = frames.frame(MAC_A, MAC_B, 3, 9, 60)
    assert frames.parse(good) == (MAC_A, MAC_B, 3, 9) and len(good) == 60
    assert frames.parse(frames.swapped(good))[:2] == (MAC_B, MAC_A)
    with pytest.raises(AssertionError, match='damaged'):
        frames.parse(good[:40] + bytes([good[40] ^ 1]) + good[41:])
