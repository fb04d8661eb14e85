# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A guest's kernel and the host's, through the switch: virtio_net at one end, a tap at the other.

The switch offers no checksum or segmentation offload, so each kernel sums up what it sends, and
cuts it itself; a capture at the tap shows whether anything on the way got it wrong. DPDK's net_tap
takes no frame above 1522 bytes, so for an MTU of 9000 the host's kernel is behind a veth pair, one
end of which the switch opens by net_pcap.
"""

import re

import pytest

from harness.switch import losses
from machine import netns, talk
from machine.qemu import Nic, boot, vhost_user
from machine.talk import GuestEnd, HostEnd

MAC = '02:51:00:00:02:01'
HOST, GUEST = '10.9.0.1', '10.9.0.2'
TAP, VETH, WIRE = 'sltap', 'slveth', 'slwire'
VLAN = 100
# So that the indices of a ring pass their end, at 65536, with frames of 1514 bytes.
MEGABYTES = {1500: 100, 9000: 40}
# Virtio's, by number.
CSUM, GUEST_CSUM, MRG_RXBUF, MQ, VERSION_1 = 0, 1, 15, 22, 32
SEGMENTATION = range(6, 15)


class Ends:
    """The two kernels, and the switch between them."""

    def __init__(self, rig):
        self.host = netns.Namespace(rig)
        self.host.run(f'ip link add {VETH} mtu 9000 type veth peer name {WIRE} mtu 9000')
        # The address is one interface's at a time: the other one does not answer for it.
        self.host.run('tee /proc/sys/net/ipv4/conf/all/arp_ignore', text='1')
        for interface in (VETH, WIRE):
            self.host.run(f'ip link set {interface} up')
        # A veth leaves sums to whoever reads them at the other end: here nobody.
        self.host.run(f'ethtool -K {VETH} tx off')
        self.switch = rig.switch([f'g,path={rig.path("s")},queues=2', 'tap,dev=net_tap0',
                                  'jumbo,dev=net_pcap0,mtu=9000'], wrap=self.host.wrap,
                                 # By iface= it would hear what it says itself.
                                 vdevs=[f'net_tap0,iface={TAP}',
                                        f'net_pcap0,rx_iface_in={WIRE},tx_iface={WIRE}'])
        self.guest = boot(rig, [Nic(vhost_user(rig.path('s')), mac=MAC, queues=2)], cpus=2,
                          files=talk.FILES)
        self.host.run(f'ip link set {TAP} up')
        self.guest.run(f'ip addr add {GUEST}/24 dev eth0 && ip link set eth0 up')
        self.switch.wait_up('g')
        self.ends = {'host': HostEnd(self.host, HOST), 'guest': GuestEnd(self.guest, GUEST)}
        self.interface = None
        self.set_mtu(1500)

    def pair(self, sender):
        """The two ends, that of this name first."""
        return self.ends[sender], self.ends['host' if sender == 'guest' else 'guest']

    def set_mtu(self, mtu):
        """Both ends; the host's address moves to the interface that takes it."""
        interface = TAP if mtu <= 1500 else VETH
        if interface != self.interface:
            if self.interface:
                self.host.run(f'ip addr del {HOST}/24 dev {self.interface}')
            self.host.run(f'ip addr add {HOST}/24 dev {interface}')
            self.interface = interface
            self.guest.run('ip neigh flush dev eth0')
        self.guest.run(f'ip link set eth0 mtu {mtu}')
        self.before = self.losses()

    def losses(self):
        return {port: losses(self.switch.settled(port)) for port in self.switch.port_names()}

    def capture(self):
        return netns.Capture(self.host, self.interface)

    def assert_lost(self, *reasons):
        """The ledger adds up, and since the MTU was set nothing was lost for another reason. A
        frame for everybody also goes where nobody is: to the interface of the other MTU."""
        self.switch.assert_ledger()
        for port, counts in self.losses().items():
            for reason, count in counts.items():
                assert count == self.before[port].get(reason, 0) or (
                    reason.partition('_')[2] in reasons), (port, self.before[port], counts)


def assert_all_good(capture, *protocols):
    counts = capture.checksums()
    print('checksums:', counts)
    for protocol, count in counts.items():
        assert 'bad' not in count, counts
    for protocol in protocols:
        assert counts[protocol]['good'] > 0, counts


@pytest.fixture(scope='module')
def ends(module_rig):
    reason = netns.why_not()
    if reason:
        pytest.skip(reason)
    return Ends(module_rig)


@pytest.fixture
def mtu(request, ends):
    ends.set_mtu(request.param)
    return request.param


both_mtus = pytest.mark.parametrize('mtu', [1500, 9000], indirect=True)
both_ways = pytest.mark.parametrize('sender', ['guest', 'host'])


def test_no_offload_is_offered(ends):
    """What cannot be finished for every receiver is not promised: the kernel does it itself."""
    guest = ends.guest
    bits = guest.run(f'cat /sys/bus/pci/devices/{guest.bdf(0)}/virtio*/features').strip()
    for bit in (CSUM, GUEST_CSUM, *SEGMENTATION):
        assert bits[bit] == '0', f'feature {bit} in {bits}'
    for bit in (MRG_RXBUF, MQ, VERSION_1):
        assert bits[bit] == '1', f'feature {bit} in {bits}'
    said = guest.run('ethtool -k eth0')
    for name in ('tx-checksumming', 'scatter-gather', 'tcp-segmentation-offload'):
        assert re.search(rf'^{name}: off', said, re.M), said


@both_mtus
@both_ways
def test_ping(ends, mtu, sender):
    with ends.capture() as capture:
        for size in (8, 56, mtu - 28, 3 * mtu):
            talk.ping(*ends.pair(sender), 10, size)
    assert_all_good(capture, 'ip', 'icmp')
    ends.assert_lost()


@both_mtus
@both_ways
def test_tcp(ends, mtu, sender):
    """Every byte, in its place; frames that the switch drops for a full ring come again."""
    with ends.capture() as capture:
        print(f'{sender}, mtu {mtu}: {talk.tcp(*ends.pair(sender), MEGABYTES[mtu])}')
    assert_all_good(capture, 'ip', 'tcp')
    assert capture.longest == mtu + 14
    ends.assert_lost('no_buffers', 'tx_full')


@both_mtus
@both_ways
def test_udp(ends, mtu, sender):
    with ends.capture() as capture:
        talk.udp(*ends.pair(sender), 50, (8, 18, 64, 511, mtu - 28, mtu - 27, 20000))
    assert_all_good(capture, 'ip', 'udp')
    ends.assert_lost()


def test_vlan(ends):
    """Tagged at both ends: the switch passes tags through, full-sized frames four bytes longer."""
    ends.set_mtu(1500)
    prefix = f'10.9.{VLAN}'
    status, text = ends.host.status(f'ip link add link {TAP} name tagged type vlan id {VLAN}')
    if 'Unknown device type' in text:
        pytest.skip('the kernel of the host has no VLANs (8021q); see test_kernel_pair.py')
    assert status == 0, text
    ends.host.run(f'ip addr add {prefix}.1/24 dev tagged')
    ends.host.run('ip link set tagged up')
    ends.guest.run(f'ip link add link eth0 name tagged type vlan id {VLAN} && '
                   f'ip addr add {prefix}.2/24 dev tagged && ip link set tagged up')
    with ends.capture() as capture:
        for sender in ('guest', 'host'):
            here, there = ends.pair(sender)
            there = there.at(f'{prefix}.{there.address[-1]}')
            talk.ping(here, there, 10, 1472)
            talk.udp(here, there, 50, (18, 1472))
            talk.tcp(here, there, 8)
    assert_all_good(capture, 'ip', 'icmp', 'udp', 'tcp')
    tagged = [int(row[1]) for row in capture.fields('vlan.id', 'frame.len', only='ip')
              if row[0] == str(VLAN)]
    assert len(tagged) == len(capture.fields('frame.len', only='ip'))
    assert max(tagged) == 1518


@both_ways
def test_a_bad_checksum_is_seen(ends, sender):
    """One is sent wrong on purpose: nobody on the way mends it, and tshark says so."""
    with ends.capture() as capture:
        here, there = ends.pair(sender)
        here.run(f'peer udp-bad {here.address} {there.address} 5002')
        talk.ping(here, there, 3, 56)
    assert capture.checksums()['udp'] == {'bad': 1}


def test_queue_pairs(ends):
    """Two pairs, then one, then two again, with the same guest; both carry when there are two."""
    host, guest = ends.pair('host')
    for pairs in (1, 2):
        guest.run(f'ethtool -L eth0 combined {pairs}')
        before = talk.receive_queues(ends.guest)
        server = talk.serve(guest, 'udp-serve 5001')
        # A flow each, by its random source port: in 2^23 runs all are of one queue.
        for _ in range(24):
            host.run(f'peer udp-send {GUEST} 5001 20 100')
        guest.stop(server)
        after = talk.receive_queues(ends.guest)
        used = {queue for queue, count in after.items() if count > before.get(queue, 0)}
        assert used == set(range(pairs)), (before, after)
    ends.switch.assert_ledger()
