# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Stops, starts and sudden deaths under load: traffic comes back by itself, mbufs stay level."""

import os

import pytest

from harness import features, matrix
from harness.loop import Loop
from harness.testpmd import sluice_features

A, B = '02:51:00:00:00:0a', '02:51:00:00:00:0b'
CASE = matrix.DEFAULT_CASE
TIMES = 5  # what one death leaks shows after any number of them: the ends are exact


def remove_stale(sock, listens):
    """The stock pieces do not replace the socket of one that was killed."""
    if listens and os.path.exists(sock):
        os.unlink(sock)


def stock_host(rig, sock, *, client):
    """Stock net_vhost under an endless stream; what comes back is dropped."""
    remove_stale(sock, not client)
    host = rig.testpmd('vhost', cpu=0, fwd='io', vdevs=[
        f'net_vhost0,iface={sock},queues=1,client={int(client)}',
        rig.stream_source(0, A, B, 1, sizes=[60, 600, 1514])])
    host.start()
    return host


def our_guest(rig, sock, *, server=0, **options):
    return rig.testpmd('sluice', cpu=1, plugin=True, fwd='macswap', topology='loop',
                       vdevs=[matrix.sluice_vdev(0, sock, CASE, server=server)], **options)


def assert_asked_for(guest):
    features.assert_features(sluice_features(guest, 'net_sluice_user0'),
                             matrix.wanted_features(CASE), 'our driver')
    matrix.assert_sluice_modes(guest, CASE)


@pytest.mark.check
def test_port_stop_and_start_fifty_times_under_load(rig):
    """The other side keeps sending; each time the port runs again and no mbuf is missing."""
    sock = rig.path('s')
    stock_host(rig, sock, client=False)
    guest = our_guest(rig, sock)
    assert_asked_for(guest)
    guest.cmd('port stop 0')
    free = guest.mbufs_free()
    guest.cmd('port start 0')
    for _ in range(50):
        guest.start()
        guest.wait_moves(0, 'ipackets', 200)
        guest.wait_moves(0, 'opackets', 200)
        guest.stop()
        guest.restart_port(0)
    guest.cmd('port stop 0')
    assert guest.mbufs_free() == free
    assert guest.quit() == 0


def test_port_stop_and_start_fifty_times_through_our_switch(rig):
    switch = rig.switch([matrix.switch_port('pa', rig.path('a'), CASE),
                         matrix.switch_port('pb', rig.path('b'), CASE)])
    guest = rig.testpmd('sluice', cpu=1, plugin=True, fwd='io', vdevs=[
        matrix.sluice_vdev(0, rig.path('a'), CASE), rig.stream_source(0, B, A, 1),
        matrix.sluice_vdev(1, rig.path('b'), CASE), rig.stream_source(1, A, B, 2)])
    matrix.assert_through_switch(switch, guest, CASE, {'pa': 0, 'pb': 2})
    for _ in range(50):
        guest.start()
        guest.wait_moves(0)
        guest.wait_moves(2)
        guest.stop()
        guest.restart_port(0)
    switch.assert_ledger()
    switch.quit()


@pytest.mark.parametrize('server', [0, 1], ids=['client', 'server'])
def test_the_stock_backend_dies(rig, server):
    """kill -9 of net_vhost, again and again: our driver finds its successor, as client and as server."""
    sock = rig.path('s')
    host = stock_host(rig, sock, client=bool(server)) if not server else None
    guest = our_guest(rig, sock, server=server)
    host = host or stock_host(rig, sock, client=True)
    guest.wait_link(True)
    assert_asked_for(guest)
    guest.start()
    level = None
    for _ in range(TIMES):
        guest.wait_moves(0, 'ipackets')
        guest.wait_moves(0, 'opackets')
        host.kill9()
        guest.wait_link(False)
        free = guest.mbufs_free()
        level = level or free
        # Transmitted ones that died with the backend have come back; receive buffers are level.
        assert abs(free - level) <= 2 * CASE['ring'], f'{level - free} mbufs gone since the first'
        host = stock_host(rig, sock, client=bool(server))
        guest.wait_link(True)
    guest.wait_moves(0, 'ipackets')
    guest.stop()
    assert_asked_for(guest)
    guest.cmd('port stop 0')
    assert guest.mbufs_free() == 8192, 'mbufs leaked over the reconnects'


@pytest.mark.parametrize('server', [0, 1], ids=['client', 'server'])
def test_our_driver_dies_before_the_stock_backend(rig, server):
    sock = rig.path('s')
    host = stock_host(rig, sock, client=bool(server))
    host_free = None
    for _ in range(TIMES):
        guest = our_guest(rig, sock, server=server)
        guest.start()
        guest.wait_moves(0, 'ipackets')
        host.wait_moves(0, 'ipackets')
        guest.kill9()
        host.wait_link(False)
        free = host.mbufs_free()
        host_free = host_free or free
        assert abs(free - host_free) <= 512
    guest = our_guest(rig, sock, server=server)
    guest.wait_link(True)
    assert_asked_for(guest)


MODES = [('server', 0), ('client', 1)]


@pytest.mark.check
@pytest.mark.parametrize('mode,server', MODES, ids=['switch-listens', 'driver-listens'])
def test_our_switch_dies(rig, mode, server):
    """kill -9 of the switch, again and again, with a stream through two of its ports."""
    ports = [matrix.switch_port(p, rig.path(p), CASE, mode=mode) for p in ('pa', 'pb')]
    switch = rig.switch(ports) if mode == 'server' else None
    guest = rig.testpmd('sluice', cpu=1, plugin=True, fwd='io', vdevs=[
        matrix.sluice_vdev(0, rig.path('pa'), CASE, server=server), rig.stream_source(0, B, A, 1),
        matrix.sluice_vdev(1, rig.path('pb'), CASE, server=server), rig.stream_source(1, A, B, 2)])
    switch = switch or rig.switch(ports)
    matrix.assert_through_switch(switch, guest, CASE, {'pa': 0, 'pb': 2})
    guest.start()
    for _ in range(TIMES):
        guest.wait_moves(0)
        guest.wait_moves(2)
        switch.kill9()
        guest.wait_link(False, 0)
        guest.wait_link(False, 2)
        switch = rig.switch(ports)
        guest.wait_link(True, 0)
        guest.wait_link(True, 2)
    guest.wait_moves(0)
    guest.wait_moves(2)
    guest.stop()
    switch.assert_ledger()
    switch.quit()
    guest.cmds('port stop all')
    # The two endless sources keep their captures (64 frames each).
    assert guest.mbufs_free() >= 8192 - 2 * 64, 'mbufs leaked over the reconnects'


@pytest.mark.parametrize('mode,server', MODES, ids=['switch-listens', 'driver-listens'])
def test_the_stock_frontend_dies(rig, mode, server):
    """kill -9 of stock net_virtio_user, again and again; its neighbours on the switch lose nothing."""
    ports = [matrix.switch_port('pa', rig.path('a'), CASE),
             matrix.switch_port('pb', rig.path('b'), CASE),
             matrix.switch_port('px', rig.path('x'), CASE, mode=mode)]
    switch = rig.switch(ports)
    loop = Loop(rig, switch, [rig.path('a'), rig.path('b')])
    loop.start()
    for count in range(1, TIMES + 1):
        remove_stale(rig.path('x'), server)
        guest = rig.testpmd('virtio', cpu=1, fwd='txonly', vdevs=[
            matrix.virtio_vdev(0, rig.path('x'), CASE, server=server)])
        features.assert_features(switch.wait_up('px', count),
                                 matrix.wanted_features(CASE, event_idx=False), 'px')
        matrix.show_stock_modes(guest)
        guest.cmd(f'set eth-peer 0 {A}')
        guest.start()
        guest.wait_moves(0, 'opackets')
        guest.kill9()
        switch.expect(r'port px: down', since=switch.output().rfind('port px: up'))
    loop.assert_moves()
    loop.stop()
    switch.assert_ledger()
    switch.quit()


@pytest.mark.parametrize('mode,server', MODES, ids=['switch-listens', 'driver-listens'])
@pytest.mark.parametrize('killed', [False, True], ids=['quits', 'is-killed'])
def test_a_frontend_that_comes_and_goes(rig, mode, server, killed):
    """Clean exits, or deaths, of our driver: up and down are told, the ledger adds up."""
    switch = rig.switch([matrix.switch_port('pa', rig.path('a'), CASE, loopback='on', mode=mode)])
    for count in range(1, TIMES + 1):
        guest = rig.testpmd('sluice', cpu=1, plugin=True, fwd='io', topology='loop', vdevs=[
            matrix.sluice_vdev(0, rig.path('a'), CASE, server=server)])
        features.assert_features(switch.wait_up('pa', count), matrix.wanted_features(CASE), 'pa')
        matrix.assert_sluice_modes(guest, CASE)
        guest.start(tx_first=1)
        guest.wait_moves(0)
        if killed:
            guest.kill9()
        else:
            guest.stop()
            assert guest.quit() == 0
        switch.expect(r'port pa: down', since=switch.output().rfind('port pa: up'))
    switch.assert_ledger()
    switch.quit()
