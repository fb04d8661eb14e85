# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Each end of our vhost-user library alone, under the sanitizers, with the stock other end."""

import os
import re

import pytest

from harness import build, features
from harness.proc import Proc
from harness.testpmd import vhost_features

BACKEND = {'VERSION_1': True, 'MRG_RXBUF': True, 'IN_ORDER': True, 'INDIRECT_DESC': True}
FRAMES = 1000

pytestmark = pytest.mark.stock


def tool(rig, name, *args):
    path = os.path.join(build.build_dir(), 'test/unit/vhost_user', name)
    if not os.path.exists(path):
        pytest.skip(f'{path} is not there')

    def make(run, unique, **options):
        del run, options['ready']
        return Proc([path, *args], unique, cpu=0, **options)
    return rig.add(make, name)


def up(backend, pairs, since=0):
    """Wait for the frontend to be up; check what it took."""
    found = backend.expect(rf'^up features (0x[0-9a-f]+) protocol (0x[0-9a-f]+) pairs {pairs}$',
                           20, since)
    features.assert_features(int(found[1], 16), {**BACKEND, 'MQ': pairs > 1}, 'our backend')
    print(f'protocol features {found[2]}')


def backend_end(backend):
    """End our backend; frames it sent back."""
    backend.popen.stdin.close()
    assert backend.wait(10) == 0
    found = re.search(r'^back (\d+) lost (\d+)$', backend.output(), re.M)
    assert int(found[2]) == 0, 'frames were lost between rings that are long enough'
    return int(found[1])


@pytest.mark.check
def test_our_frontend_with_stock_net_vhost(rig):
    """First with nobody forwarding, then every frame comes back as macswap makes it."""
    sock = rig.path('s')
    host = rig.testpmd('vhost', cpu=1, fwd='macswap', vdevs=[f'net_vhost0,iface={sock},queues=1'])
    print(f'net_vhost: {host.burst_mode("rx")} / {host.burst_mode("tx")}')
    quiet = tool(rig, 'interop_frontend', sock)
    assert quiet.wait(30) == 0, quiet.output()
    host.start()
    ours = tool(rig, 'interop_frontend', sock, str(FRAMES))
    assert ours.wait(60) == 0, ours.output()
    features.assert_features(vhost_features(host), BACKEND, 'net_vhost')
    # Three connections, three times stopped and started on each.
    host.wait_stat(0, 'ipackets', 9 * FRAMES)
    counts = host.stop()[0]
    assert (counts['rx'], counts['tx']) == (9 * FRAMES, 9 * FRAMES)
    assert host.quit() == 0


@pytest.mark.check
@pytest.mark.parametrize('queues', [1, 2])
@pytest.mark.parametrize('client', [False, True], ids=['listening', 'connecting'])
def test_our_backend_with_stock_net_virtio_user(rig, queues, client):
    """Frames circulate through both; the frontend stops, is killed, comes back."""
    sock = rig.path('s')
    backend = tool(rig, 'interop_backend', sock, *(['client'] if client else []))
    backend.expect('^ready$')
    for _ in range(3):
        at = backend.mark()
        guest = rig.testpmd(
            'user', cpu=1, fwd='macswap', queues=queues, topology='loop',
            vdevs=[f'net_virtio_user0,path={sock},queues={queues},server={int(client)}'])
        up(backend, queues, at)
        print(f'net_virtio_user: {guest.burst_mode("rx")} / {guest.burst_mode("tx")}')
        guest.start(tx_first=1)
        guest.wait_moves(0, 'ipackets', 2000)
        guest.stop()
        guest.restart_port(0)
        guest.start(tx_first=1)
        guest.wait_moves(0, 'ipackets', 2000)
        guest.kill9()
        backend.expect('^down the frontend closed the connection$', 10, at)
        if client and os.path.exists(sock):
            os.unlink(sock)  # stock virtio_user does not replace its own stale socket
    assert backend_end(backend) >= 3 * 2 * 2000
