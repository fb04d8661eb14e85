# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A guest's testpmd with two devices at our driver, and the switch between them.

Numbered frames go from a capture in the guest through a device, the switch and the other device
into a capture in the guest, both ways at once; sent and received are compared byte for byte.
"""

from itertools import combinations

import pytest

from harness import features, frames, pcap
from harness.covering import name_of, pairs_of, pairwise
from harness.proc import wait_until
from harness.switch import losses
from machine.disk import Disk
from machine.pmd import DEVARGS, SIZES, Ports, wanted_features
from machine.qemu import Nic, boot, vhost_user

MACS = ('02:51:00:00:00:0a', '02:51:00:00:00:0b')
DEVICE_MACS = ('02:51:00:00:01:01', '02:51:00:00:01:02')
PORTS = ('g0', 'g1')
RING, QUEUES = 1024, 2  # of the devices; testpmd may use less
BURST, WINDOW_BURSTS, LAPS = 32, 2, 140000
CAPTURES = '/tmp/captures'
PARAMETERS = {
    'mrg_rxbuf': [True, False],
    'indirect': [True, False],
    'event_idx': [False, True],
    'in_order': [False, True],
    'ring': [256, 1024],
    'queues': [1, 2],
    'sizes': ['small', 'jumbo'],
}


def allowed(case):
    """The guest's mbufs are of the usual size, so a jumbo frame needs several."""
    return case['mrg_rxbuf'] or case['sizes'] == 'small'


# A net_pcap port that was told to use fewer queues has no more from then on.
CASES = sorted(pairwise(PARAMETERS, allowed),
               key=lambda case: [-case['queues'], *(case[key] for key in DEVARGS)])


class Bench:
    def __init__(self, rig):
        disk = Disk(rig)
        self.switch = rig.switch([f'{port},path={rig.path(port)},queues={QUEUES},mtu=9000'
                                  for port in PORTS])
        self.machine = boot(rig, [Nic(vhost_user(rig.path(port)), mac=mac, queues=QUEUES, ring=RING,
                                      in_order='on') for port, mac in zip(PORTS, DEVICE_MACS)],
                            hugepages=112, files=disk.files, extra=disk.arguments)
        disk.use(self.machine)
        self.disk = disk
        self.put([[[] for _ in range(QUEUES)] for _ in PORTS])
        self.ports = Ports(self.machine, range(len(PORTS)), CASES[0], mem=160, mbufs=12288,
                           ring=RING, queues=QUEUES, fwd='io',
                           eal=[word for i, _ in enumerate(PORTS)
                                for word in ('--vdev', self.pcap_vdev(i))])
        self.testpmd = self.ports.testpmd

    # --- captures ---------------------------------------------------------------------------

    @staticmethod
    def name(direction, port, queue):
        return f'{direction}-{PORTS[port]}-{queue}.pcap'

    def pcap_vdev(self, port):
        files = [f'{way}_pcap={CAPTURES}/{self.name(way, port, queue)}'
                 for way in ('rx', 'tx') for queue in range(QUEUES)]
        return f'net_pcap{port},' + ','.join(files)

    def put(self, content):
        """content[port][queue]: frames that testpmd finds when its ports start."""
        self.disk.put(CAPTURES, {self.name('rx', port, queue): pcap.encode(sent)
                                 for port, queues in enumerate(content)
                                 for queue, sent in enumerate(queues)})

    def get(self, port, queues):
        """All frames that came out at a port."""
        names = [self.name('tx', port, queue) for queue in range(queues)]
        return [frame for name, raw in zip(names, self.disk.get(CAPTURES, names))
                for frame in pcap.decode(raw, name)]

    # --- one case ---------------------------------------------------------------------------

    def start_ports(self, case, content):
        """Both ends are up and have agreed on what the case asks for."""
        self.ports.configure(case)
        self.put(content)
        since = self.switch.mark()
        self.ports.start()
        for port in PORTS:
            up = self.switch.expect(rf'^port {port}: up, features (0x[0-9a-f]+)', 20, since)
            features.assert_features(int(up[1], 16), wanted_features(case, MQ=True),
                                     f'switch port {port}')
            wait_until(lambda p=port: self.switch.counters(p)['queue_pairs'] == case['queues'], 20,
                       f'{port} has {case["queues"]} queue pairs')
        self.ports.assert_agreed(case, MQ=True)

    def counters(self):
        return {port: self.switch.settled(port) for port in PORTS}


def streams(case):
    """Each direction and queue has one. All of a direction fit into one ring, since the switch may
    hash them to the same queue, also when each frame takes a chain or merged buffers."""
    count = case['ring'] // 8 // case['queues']
    return [[frames.stream(MACS[1 - port], MACS[port], queue, count, SIZES[case['sizes']])
             for queue in range(case['queues'])] for port, _ in enumerate(PORTS)]


@pytest.fixture(scope='module')
def bench(module_rig):
    return Bench(module_rig)


@pytest.mark.parametrize('case', CASES, ids=name_of)
def test_two_way_stream(bench, case):
    content = streams(case)
    bench.start_ports(case, content)
    testpmd = bench.testpmd
    # Each device with its captures.
    testpmd.cmds('clear port stats all', 'set fwd io', 'set portlist 0,2,1,3')
    before = bench.counters()
    testpmd.start()
    total = sum(map(len, content[0]))
    for sink in (2, 3):
        testpmd.wait_stat(sink, 'opackets', total)
    counts = testpmd.stop()
    for port, _ in enumerate(PORTS):
        got = bench.get(port, case['queues'])
        # The switch spreads flows over the queues; order is kept within one, and a stream is one.
        for number, sent in enumerate(content[1 - port]):
            frames.assert_same([f for f in got if frames.parse(f)[2] == number], sent,
                               f'to {PORTS[port]}, stream {number}')
        assert len(got) == total
        assert counts[port] == {'rx': total, 'rx_dropped': 0, 'tx': total, 'tx_dropped': 0}
    bench.ports.assert_counted({port: sum(sent, []) for port, sent in enumerate(content)})
    ledger = bench.switch.assert_ledger()
    size = sum(len(frame) for sent in content[0] for frame in sent)
    for port in PORTS:
        moved = {key: ledger[port][key] - before[port][key]
                 for key in ('rx_packets', 'tx_packets', 'rx_bytes', 'tx_bytes')}
        assert moved == {'rx_packets': total, 'tx_packets': total, 'rx_bytes': size,
                         'tx_bytes': size}
        assert not losses(ledger[port])
    print(f'{total} frames of {size} bytes each way')


@pytest.mark.parametrize('case', [case for case in CASES if case['queues'] == 1 and
                                  not (case['indirect'] or case['sizes'] == 'jumbo')], ids=name_of)
def test_closed_loop(bench, case):
    """A fixed number of frames goes round, each index passes its end twice, none is lost."""
    bench.start_ports(case, [[[]]] * len(PORTS))
    testpmd = bench.testpmd
    before = bench.counters()
    testpmd.cmds('clear port stats all', 'set fwd mac', 'set portlist 0,1',
                 *(f'set eth-peer {port} {DEVICE_MACS[1 - port]}' for port, _ in enumerate(PORTS)))
    testpmd.start(tx_first=WINDOW_BURSTS)
    for port, _ in enumerate(PORTS):
        testpmd.wait_stat(port, 'ipackets', LAPS)
    counts = testpmd.stop()
    ledger = bench.switch.assert_ledger()
    for port, name in enumerate(PORTS):
        assert (counts[port]['rx_dropped'], counts[port]['tx_dropped']) == (0, 0)
        assert not losses(ledger[name])
        moved = ledger[name]['rx_packets'] - before[name]['rx_packets']
        assert moved == counts[port]['tx'] >= LAPS
        # What has not come back waits in the ring.
        left = ledger[name]['tx_packets'] - before[name]['tx_packets'] - counts[port]['rx']
        assert 0 <= left <= 2 * WINDOW_BURSTS * BURST
        print(f'{name}: {moved} frames, {left} on their way')


def test_array_covers_every_pair():
    got = set().union(*(pairs_of(case, list(PARAMETERS)) for case in CASES))
    for a, b in combinations(PARAMETERS, 2):
        for x in PARAMETERS[a]:
            for y in PARAMETERS[b]:
                if {(a, x), (b, y)} != {('mrg_rxbuf', False), ('sizes', 'jumbo')}:
                    assert ((a, x), (b, y)) in got
