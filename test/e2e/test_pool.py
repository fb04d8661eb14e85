# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Buffers that run out: a pool run dry, and a receiver that does not drain."""

import pytest

from harness import features, matrix
from harness.loop import Loop
from harness.proc import wait_until
from harness.switch import losses
from harness.testpmd import sluice_features

A, B, SINK = '02:51:00:00:00:0a', '02:51:00:00:00:0b', '02:51:00:00:00:0d'
CASE = matrix.DEFAULT_CASE
# testpmd makes no pool of fewer than 1025.
DRY = dict(CASE, ring=1024)
POOL = DRY['ring'] + 64


@pytest.mark.check
@pytest.mark.parametrize('refill', ['budget', 'half', 'eager'])
def test_a_pool_run_dry_and_filled_again(rig, refill):
    """testpmd's noisy forwarder holds every mbuf of the pool in its buffer for 100 ms, gives them
    back, and so on: reception must come back each time, by empty polls alone."""
    sock = rig.path('s')
    host = rig.testpmd('vhost', cpu=0, fwd='io', vdevs=[
        f'net_vhost0,iface={sock},queues=1,client=0', rig.stream_source(0, A, B, 1)])
    guest = rig.testpmd('sluice', cpu=1, plugin=True, fwd='noisy', topology='loop', ring=1024,
                        mbufs=POOL, mbcache=0,
                        vdevs=[matrix.sluice_vdev(0, sock, DRY, refill=refill)],
                        extra=['--noisy-tx-sw-buffer-size=2048',
                               '--noisy-tx-sw-buffer-flushtime=100'])
    guest.wait_link(True)
    features.assert_features(sluice_features(guest, 'net_sluice_user0'),
                             matrix.wanted_features(DRY), 'our driver')
    mode = guest.burst_mode('rx')
    print(mode)
    assert mode == features.sluice_rx_mode(in_order=True, mrg_rxbuf=True, event_idx=False,
                                           refill=refill)
    guest.start()
    host.start()
    for _ in range(5):  # five times round: dry, then filled again
        before = guest.stats(0)['rx_nombuf']
        wait_until(lambda: guest.stats(0)['rx_nombuf'] > before, 20, 'the pool runs dry')
        guest.wait_moves(0, 'ipackets', POOL + 1)
    # The stream ends, the host goes on draining: the forwarder flushes its buffer a last time, and
    # what it transmitted comes back without any traffic.
    host.stop()
    host.cmds('set portlist 0', 'set fwd rxonly')
    host.start()
    wait_until(lambda: guest.mbufs_free() >= POOL - DRY['ring'], 20,
               lambda: f'{guest.mbufs_free()} mbufs free with the ring full')
    guest.stop()
    guest.cmd('port stop 0')
    assert guest.mbufs_free() == POOL
    xstats = guest.xstats(0)
    assert xstats['rx_q0_no_mbuf'] > 0
    host.stop()
    host.cmds('set portlist 0,1', 'set fwd io')
    guest.cmds('set fwd macswap', 'port start 0')
    guest.start()
    host.start()
    guest.wait_moves(0, 'ipackets', 10 * POOL)


@pytest.mark.check
def test_a_receiver_that_does_not_drain(rig):
    """Its losses are in the ledger to the last frame; its neighbours have none."""
    switch = rig.switch([matrix.switch_port(p, rig.path(p), CASE)
                         for p in ('pa', 'pb', 'psource', 'psink')])
    asleep = rig.testpmd('asleep', cpu=0, plugin=True, fwd='txonly', vdevs=[
        matrix.sluice_vdev(0, rig.path('psink'), CASE, mac=SINK)])
    features.assert_features(switch.wait_up('psink'), matrix.wanted_features(CASE), 'psink')
    matrix.assert_sluice_modes(asleep, CASE)
    asleep.start()  # to be learned, then never again
    switch.wait_counter('psink', 'rx_packets', 1)
    asleep.stop()
    loop = Loop(rig, switch, [rig.path('pa'), rig.path('pb')])
    loop.start()
    switch.wait_learned({SINK: 'psink'})
    before = switch.settled('psink')
    to_sink = before['tx_packets'] + sum(v for k, v in before.items() if k.startswith('todrop_'))

    source = rig.testpmd('source', cpu=1, plugin=True, fwd='io', vdevs=[
        matrix.sluice_vdev(0, rig.path('psource'), CASE), rig.stream_source(0, SINK, A, 1)])
    features.assert_features(switch.wait_up('psource'), matrix.wanted_features(CASE), 'psource')
    matrix.assert_sluice_modes(source, CASE)
    source.start()
    switch.wait_counter('psource', 'rx_packets', 20000)
    loop.assert_undisturbed()
    source.stop()
    loop.stop()

    ledger = switch.assert_ledger()
    sink = ledger['psink']
    sent = source.stats(0)['opackets']
    assert ledger['psource']['rx_packets'] == sent
    got = sink['tx_packets'] + sum(v for k, v in sink.items() if k.startswith('todrop_'))
    assert got - to_sink == sent, 'frames for the sleeper are unaccounted for'
    assert [k for k in losses(sink) if k.startswith('todrop_')] == ['todrop_no_buffers']
    assert sink['tx_packets'] <= before['tx_packets'] + CASE['ring']

    # It wakes, and traffic for it flows at once.
    asleep.cmd('set fwd rxonly')
    asleep.start()
    source.start()
    asleep.wait_moves(0, 'ipackets')
    source.stop()
    asleep.stop()
    switch.assert_ledger()
    switch.quit()
