# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Our driver in a guest at devices that are not ours: the stock net_vhost on the host, and QEMU's
own model, with the test itself at the other end of a socket or of a tap."""

import struct

import pytest

from harness import features, frames, pcap
from harness.covering import name_of, pairwise
from harness.matrix import MAX_PKT_LEN
from machine import netns
from machine.line import StreamLine, TapLine
from machine.pmd import DEVARGS, SIZES, Ports, wanted_features
from machine.qemu import Nic, boot, vhost_user

MAC_A, MAC_B = '02:51:00:00:00:0a', '02:51:00:00:00:0b'
VHOST, LINES, TAP = 0, (1, 2), 3  # devices of the guest
DEVICE_MACS = ('02:51:00:00:01:01', '02:51:00:00:01:02', '02:51:00:00:01:03', '02:51:00:00:01:04')
VHOST_RING = 1024
PLAIN = {'mrg_rxbuf': True, 'indirect': True, 'event_idx': False, 'in_order': False, 'ring': 256,
         'queues': 1, 'sizes': 'small'}
PARAMETERS = {
    'mrg_rxbuf': [True, False],
    'indirect': [True, False],
    'event_idx': [False, True],
    'in_order': [False, True],
    'ring': [256, VHOST_RING],
    'queues': [1, 2],
    'sizes': ['small', 'jumbo'],
}


def cases(parameters):
    """The guest's mbufs are of the usual size, so a jumbo frame needs several. To change device
    arguments costs most."""
    return sorted(pairwise(parameters, lambda c: c['mrg_rxbuf'] or c['sizes'] == 'small'),
                  key=lambda case: [case[key] for key in DEVARGS])


VHOST_CASES = cases(PARAMETERS)
# One queue pair, as a socket has. QEMU's own devices have transmit rings of 256 entries at most.
LINE_CASES = cases({**PARAMETERS, 'ring': [64, 1024], 'queues': [1]})
TX_RING = 256
ROUNDS = 4


class Bench:
    """A guest with all the devices; of the testpmds in it there is one at a time."""

    def __init__(self, rig):
        self.rig = rig
        self.no_tap = netns.why_not()
        self._captures = [rig.capture(f'in{i}.pcap', []) for i in range(2)]
        self._sinks = [rig.path(f'out{i}.pcap') for i in range(2)]
        self.host = rig.testpmd('vhost', cpu=0, fwd='io', ring=VHOST_RING, queues=2,
                                max_pkt_len=MAX_PKT_LEN, vdevs=[
                                    f'net_vhost0,iface={rig.path("s")},queues=2,client=0',
                                    rig.pcap_vdev(0, self._captures, self._sinks)])
        self.lines = [StreamLine(rig.path(f'line{i}')) for i, _ in enumerate(LINES)]
        behind = [(vhost_user(rig.path('s')), {'queues': 2, 'ring': VHOST_RING}),
                  *((line.behind, {'ring': 1024, 'tx_queue_size': TX_RING})
                    for line in self.lines)]
        wrap = []
        if not self.no_tap:
            space = netns.Namespace(rig)
            self.tap = TapLine(space, 'sltap')
            # Of the sockets' devices single rings are reset, this one forgets all that it was told.
            behind.append((self.tap.behind, {'queues': 2, 'queue_reset': 'off'}))
            wrap = space.wrap
        self.machine = boot(rig, [Nic(what, mac=DEVICE_MACS[i], in_order='on', **options)
                                  for i, (what, options) in enumerate(behind)],
                            hugepages=80, wrap=wrap)
        for line in self.lines + ([] if self.no_tap else [self.tap]):
            line.open()
        self._ports = self._devices = None

    def ports(self, devices, case, **options):
        """Our driver at these devices."""
        if self._devices != devices:
            if self._ports:
                assert self._ports.testpmd.quit() == 0
            self._devices, self._ports = devices, Ports(self.machine, devices, case, mem=128,
                                                        ring=min(case['ring'], TX_RING),
                                                        queues=case['queues'], **options)
        self._ports.configure(case)
        return self._ports

    def give_host(self, content):
        """What the host's captures hold, one a queue."""
        for path, sent in zip(self._captures, content):
            pcap.write(path, sent)
        self.host.cmds('stop', 'clear port stats all')
        self.host.restart_port(1)

    def host_got(self, queue):
        return pcap.read(self._sinks[queue])


@pytest.fixture(scope='module')
def bench(module_rig):
    return Bench(module_rig)


# --- stock net_vhost ------------------------------------------------------------------------


@pytest.mark.parametrize('case', VHOST_CASES, ids=name_of)
def test_net_vhost(bench, case):
    """capture -> stock net_vhost -> our driver, macswap -> stock net_vhost -> capture."""
    count = case['ring'] // 8 // case['queues']
    content = [frames.stream(MAC_A, MAC_B, queue, count if queue < case['queues'] else 0,
                             SIZES[case['sizes']]) for queue in range(2)]
    ports = bench.ports([VHOST], case, fwd='macswap', topology='loop')
    host, guest = bench.host, ports.testpmd
    bench.give_host(content)
    since = host.mark()
    ports.start()
    ports.assert_agreed(case, MQ=True)
    found = host.expect(r'negotiated Virtio features: (0x[0-9a-f]+)', 10, since)
    features.assert_features(int(found[1], 16), wanted_features(case, MQ=True), 'stock net_vhost')
    for ring in range(2 * case['queues']):
        host.expect(rf'set queue enable: 1 to qp idx: {ring}\b', 10, since)
    host.wait_link(True)

    guest.cmd('clear port stats all')
    guest.start()
    host.start()
    total = sum(map(len, content))
    host.wait_stat(1, 'opackets', total)
    host.stop()
    assert guest.stop()[0] == {'rx': total, 'rx_dropped': 0, 'tx': total, 'tx_dropped': 0}
    for queue, sent in enumerate(content):
        frames.assert_same(bench.host_got(queue), [frames.swapped(f) for f in sent],
                           f'queue {queue}')
    ports.assert_counted({0: sum(content, [])})
    print(f'{total} frames there and back')


# --- QEMU's own device model ----------------------------------------------------------------


@pytest.mark.parametrize('case', LINE_CASES, ids=name_of)
def test_socket_netdev(bench, case):
    """In at one device and out at the other, both ways at once."""
    ports = bench.ports(list(LINES), case, fwd='io', tx_ring=TX_RING)
    ports.start()
    ports.assert_agreed(case)
    ports.testpmd.cmd('clear port stats all')
    ports.testpmd.start()
    count = min(case['ring'], TX_RING) // 8
    for number in range(ROUNDS):
        sent = [frames.stream(dst, src, number, count, SIZES[case['sizes']])
                for dst, src in ((MAC_B, MAC_A), (MAC_A, MAC_B))]
        for line, content in zip(bench.lines, sent):
            line.send(content)
        for port, content in enumerate(reversed(sent)):
            frames.assert_same(bench.lines[port].take(count), content,
                               f'round {number}, out of port {port}')
    total = ROUNDS * count
    counts = ports.testpmd.stop()
    for port, _ in enumerate(LINES):
        assert counts[port] == {'rx': total, 'rx_dropped': 0, 'tx': total, 'tx_dropped': 0}
    ports.assert_counted({port: ROUNDS * sent[0] for port, _ in enumerate(LINES)})
    print(f'{total} frames each way')


@pytest.fixture
def tap(bench):
    if bench.no_tap:
        pytest.skip(bench.no_tap)
    return bench.tap


def at_tap(bench, **case):
    """Our driver at the device with the tap; every frame comes back, if it arrives."""
    ports = bench.ports([TAP], {**PLAIN, **case}, fwd='macswap', topology='loop')
    ports.start()
    bench.tap.wait_carrier()
    ports.testpmd.start()
    return ports.testpmd


def udp(flow, sequence):
    """A test frame in a datagram: the kernel spreads flows over the queues of a tap."""
    inner = frames.frame(MAC_A, MAC_B, flow, sequence, 100)
    head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 28 + len(inner), 0, 0, 64, 17, 0,
                       bytes((10, 9, 0, 1)), bytes((10, 9, 0, 2)))
    return (frames.mac_bytes(DEVICE_MACS[TAP]) + frames.mac_bytes(MAC_B) + b'\x08\x00' + head
            + struct.pack('!HHHH', 1024 + flow, 7, 8 + len(inner), 0) + inner)


FLOWS, PER_FLOW = 32, 6


@pytest.mark.parametrize('queues', [2, 1, 2], ids=['two', 'then-one', 'then-two'])
def test_queue_pairs_of_a_tap(bench, tap, queues):
    """The device spreads over as many queues as the driver told it to use."""
    guest = at_tap(bench, queues=queues)
    before = guest.xstats()
    sent = [udp(flow, sequence) for sequence in range(PER_FLOW) for flow in range(FLOWS)]
    tap.send(sent)
    got = tap.take(len(sent))
    assert len(got) == len(sent)
    for flow in range(FLOWS):
        frames.assert_same([f for f in got if f[34:36] == struct.pack('!H', 1024 + flow)],
                           [frames.swapped(udp(flow, i)) for i in range(PER_FLOW)], f'flow {flow}')
    counts = guest.stop()[0]
    assert (counts['rx'], counts['tx'], counts['tx_dropped']) == (len(sent), len(sent), 0)
    after = guest.xstats()
    for direction in ('rx', 'tx'):
        names = [f'{direction}_q{queue}_good_packets' for queue in range(queues)]
        each = [after[name] - before[name] for name in names]
        print(f'{direction}: frames by queue {each}')
        assert sum(each) == len(sent) and all(each)
        assert f'{direction}_q{queues}_good_packets' not in after


OWN, OTHER, FOREIGN = DEVICE_MACS[TAP], '02:51:00:00:01:44', '02:51:00:00:00:99'
MULTICAST = '01:00:5e:00:00:01'


def test_filters_of_a_tap(bench, tap):
    """What the device lets pass is what the driver told it; the broadcast comes last, and always."""
    guest = at_tap(bench)
    sequence = 0

    def arriving():
        nonlocal sequence
        sequence += 1
        to = (OWN, OTHER, FOREIGN, MULTICAST, frames.BROADCAST)
        sent = [frames.frame(dst, MAC_B, 1, sequence, 60 + i) for i, dst in enumerate(to)]
        tap.send(sent)
        got = []
        while frames.swapped(sent[-1]) not in got:
            got += tap.take(1)
        want = [dst for dst, frame in zip(to, sent) if frames.swapped(frame) in got]
        frames.assert_same(got, [frames.swapped(sent[to.index(dst)]) for dst in want], f'{want}')
        return set(want) - {frames.BROADCAST}

    assert arriving() == {OWN, OTHER, FOREIGN, MULTICAST}  # testpmd begins promiscuous
    guest.cmd('set promisc 0 off')
    assert arriving() == {OWN}
    guest.cmd('set allmulti 0 on')
    assert arriving() == {OWN, MULTICAST}
    guest.cmd(f'mac_addr set 0 {OTHER}')
    assert arriving() == {OTHER, MULTICAST}
    guest.cmd('set allmulti 0 off')
    guest.cmd('stop')
    guest.restart_port()
    guest.start()
    assert arriving() == {OTHER}  # told again after a restart
    guest.cmd('set promisc 0 on')
    assert arriving() == {OWN, OTHER, FOREIGN, MULTICAST}
    guest.cmd(f'mac_addr set 0 {OWN}')
    total = guest.stop()[0]
    assert total['tx_dropped'] == 0


def test_link_of_a_tap(bench, tap):
    """The device's link is the port's."""
    guest = at_tap(bench)
    for up in (False, True):
        bench.machine.qmp.ask('set_link', name='nic3', up=up)
        guest.wait_link(up)
    frame = frames.frame(OWN, MAC_B, 1, 1, 60)
    tap.send([frame])
    assert tap.take(1) == [frames.swapped(frame)]
    guest.cmd('stop')
