# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Ports that are ethdevs: frames copied into mbufs and out of them, and the kernel behind a tap."""

import hashlib
import os

import pytest

from harness import frames, netns, pcap
from harness.gate import Gate
from harness.guest import Guest
from harness.proc import SLOWEST
from harness.switch import losses

A, B = '02:51:00:00:00:0a', '02:51:00:00:00:0b'

pytestmark = pytest.mark.check


def test_jumbo_frames_into_mbufs(rig):
    """net_pcap takes no chains: what fits one mbuf passes, and an mbuf is as large as mtu= says."""
    sizes = [60, 2000, 4000, 1514, 3000]
    for mtu, passing in ((None, [s for s in sizes if s <= 2048]), (9000, sizes)):
        sink = rig.path(f'out{mtu}.pcap')
        up = 'up,dev=net_pcap0' + (f',mtu={mtu}' if mtu else '')
        switch = rig.switch([f'g,path={rig.path("s")}', up], vdevs=[rig.pcap_vdev(0, [], [sink])])
        with Guest(rig.path('s')) as guest:
            switch.wait_up('g')
            sent = [frames.frame(B, A, 1, i, size) for i, size in enumerate(sizes)]
            for i, frame in enumerate(sent):
                guest.send(frame, i)
            switch.wait_counter('up', 'tx_packets', len(passing))
            ledger = switch.assert_ledger()
        lost = len(sizes) - len(passing)
        assert losses(ledger['g']) == ({'drop_too_big': lost} if lost else {})
        assert ledger['up']['bytes_copied'] == ledger['up']['tx_bytes'] == sum(passing)
        switch.quit()
        frames.assert_same(pcap.read(sink), [f for f in sent if len(f) in passing], 'capture')


def test_mtu_of_the_receiver(rig):
    """An Ethernet header and one tag more than mtu=, not a byte beyond."""
    switch = rig.switch([f'pa,path={rig.path("a")}', f'pb,path={rig.path("b")},mtu=1000'])
    with Guest(rig.path('a')) as a, Guest(rig.path('b')) as b:
        switch.wait_up('pa')
        switch.wait_up('pb')
        for i, size in enumerate((1018, 1019, 60)):
            a.send(frames.frame(B, A, 1, i, size), i)
        assert [len(f) for f in b.wait_received(2)] == [1018, 60]
        switch.assert_ledger()
        assert losses(switch.settled('pa')) == {'drop_too_big': 1}
        assert losses(switch.settled('pb')) == {'todrop_too_big': 1}
    switch.quit()


def test_chains_between_ethdevs(rig):
    """A frame that came in a chain of mbufs: whole into a guest, not to a device that takes none."""
    content = frames.stream(frames.BROADCAST, A, 1, 16, [60, 3000])
    small = [f for f in content if len(f) == 60]
    gate, sink = Gate(rig), rig.path('out1.pcap')
    switch = rig.switch([f'g,path={rig.path("s")}', 'up0,dev=net_pcap0', 'up1,dev=net_pcap1'],
                        vdevs=[rig.pcap_vdev(0, [rig.capture('in.pcap', content)], []),
                               rig.pcap_vdev(1, [], [sink])], env=gate.env)
    with Guest(rig.path('s'), buffers=32) as guest:
        switch.wait_up('g')
        gate.open()
        assert guest.wait_received(len(content)) == content
        switch.wait_counter('up1', 'tx_packets', len(small))
        ledger = switch.assert_ledger()
    assert losses(ledger['up0']) == {'drop_too_big': len(content) - len(small)}
    switch.quit()
    frames.assert_same(pcap.read(sink), small, 'capture')


@pytest.mark.parametrize('lcores', [None, '0@0,1@0,2@0'], ids=['worker', 'two-workers'])
def test_flood_between_ethdevs(rig, lcores):
    """One mbuf to several ethdevs and a guest at once: each gets all of it."""
    content = frames.stream(frames.BROADCAST, A, 1, 64, [60, 1514, 300])
    sinks = [rig.path(f'out{i}.pcap') for i in range(3)]
    gate = Gate(rig)
    switch = rig.switch([f'g,path={rig.path("s")}'] + [f'up{i},dev=net_pcap{i}' for i in range(3)],
                        vdevs=[rig.pcap_vdev(0, [rig.capture('in.pcap', content)], [sinks[0]]),
                               rig.pcap_vdev(1, [], [sinks[1]]), rig.pcap_vdev(2, [], [sinks[2]])],
                        lcores=lcores, env=gate.env)
    with Guest(rig.path('s'), buffers=48) as guest:
        switch.wait_up('g')
        gate.open()
        for port in ('up1', 'up2'):
            switch.wait_counter(port, 'tx_packets', len(content))
        # No buffer goes back before all have been delivered, or not.
        ledger = switch.assert_ledger()
        got = guest.wait_received(48)
    assert got == content[:len(got)]
    assert ledger['up0']['replicas'] == 2 * len(content)
    assert set(losses(ledger['up0'])) <= {'drop_no_buffers'}
    switch.quit()
    for sink in sinks[1:]:
        frames.assert_same(pcap.read(sink), content, sink)


SERVER = '''
import hashlib, socket, sys
s = socket.socket()
s.bind(('10.9.0.2', 5000))
s.listen(1)
print('listening', flush=True)
c, h = s.accept()[0], hashlib.sha256()
while True:
    data = c.recv(65536)
    if not data:
        break
    h.update(data)
print(h.hexdigest())
'''
CLIENT = '''
import socket, sys
s = socket.create_connection(('10.9.0.2', 5000), 20)
s.sendall(open(sys.argv[1], 'rb').read())
s.close()
'''


@netns.needed
def test_tcp_between_two_taps(rig):
    """The kernel at both ends: address resolution, a handshake, four megabytes, byte for byte."""
    content = os.urandom(4 << 20)
    with open(rig.path('data'), 'wb') as f:
        f.write(content)
    switch = rig.switch(['ta,dev=net_tap0', 'tb,dev=net_tap1', f'g,path={rig.path("s")}'],
                        vdevs=['net_tap0,iface=sltapA', 'net_tap1,iface=sltapB'])
    net = netns.Namespaces(['sltapA', 'sltapB'])
    try:
        server = net.python(1, SERVER)
        assert server.stdout.readline() == 'listening\n'
        client = net.python(0, CLIENT, rig.path('data'))
        assert client.wait(40 * SLOWEST) == 0
        said = server.communicate(timeout=40 * SLOWEST)[0].strip()
    finally:
        net.close()
    assert said == hashlib.sha256(content).hexdigest()
    switch.assert_ledger()
    switch.quit()
