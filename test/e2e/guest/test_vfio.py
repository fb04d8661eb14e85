# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Devices at vfio-pci, behind QEMU's intel-iommu: QEMU's own device, which goes through the IOMMU,
and devices on our switch, which do not. Their interrupts: of a link, and of frames."""

import re

import pytest

from harness import features, frames
from harness.proc import wait_until
from harness.rx_sleep import Sender
from harness.testpmd import last_features
from machine import rx_sleep
from machine.line import StreamLine
from machine.qemu import Nic, boot, vhost_user

OWN, SWITCH, UNPLUG = range(3)  # devices, by their index
MACS = [f'02:51:00:00:03:{index:02x}' for index in range(3)]
HOST = '02:51:00:00:01:01'
SIZES = (60, 61, 300, 1000, 1514)
COUNT = 5000  # test_rx_interrupts.py has more
SEED = 20261130


class Bench:
    def __init__(self, rig):
        self.rig = rig
        self.switch = rig.switch([f'g,path={rig.path("g")},queues=2', f'h,path={rig.path("h")}'])
        self.lines = {device: StreamLine(rig.path(f'line{device}'))
                      for device in (OWN, UNPLUG)}
        through_iommu = {'disable-legacy': 'on', 'iommu_platform': 'on'}
        self.guest = boot(rig, [
            Nic(self.lines[OWN].behind, mac=MACS[OWN], **through_iommu),
            Nic(vhost_user(rig.path('g')), mac=MACS[SWITCH], queues=2),
            Nic(self.lines[UNPLUG].behind, mac=MACS[UNPLUG], hotplug=True),
        ], iommu=True, hugepages=96, files=rx_sleep.FILES)
        for line in self.lines.values():
            line.open()
        for index, _ in enumerate(MACS):
            self.guest.bind(index, 'vfio-pci')

    def round_trip(self, device, number, count):
        """Frames to a device of QEMU's own, a few at a time, come back as they went."""
        sent = frames.stream(MACS[device], HOST, number, count, SIZES)
        for first in range(0, count, 8):
            part = sent[first:first + 8]
            self.lines[device].send(part)
            frames.assert_same(self.lines[device].take(len(part)),
                               [frames.swapped(f) for f in part], 'frames that came back')
        return sum(map(len, sent))

    def interrupts(self, index):
        """How often each MSI-X vector of a device was raised, as the guest's kernel counts."""
        said = self.guest.run('cat /proc/interrupts')
        return {int(vector): int(count) for count, vector in re.findall(
            rf'^ *\d+: +(\d+) .*vfio-msix\[(\d+)\]\({self.guest.bdf(index)}\)', said, re.M)}

    def sender(self, mac):
        """A guest by hand that sends to a device, from several addresses, a frame at a time."""
        sender = Sender(self.rig.path('h'), mac, [HOST[:-2] + f'{i:02x}' for i in range(16)], SEED)
        self.switch.wait_up('h')
        return sender


@pytest.fixture(scope='module')
def bench(module_rig):
    it = Bench(module_rig)
    yield it
    for line in it.lines.values():
        line.close()


def test_virtual_addresses_through_the_iommu(bench):
    """QEMU's own device, with ACCESS_PLATFORM: every frame comes back as it went. The device that
    would go past the IOMMU is refused in one line, and stands in nobody's way."""
    guest = bench.guest
    testpmd = guest.testpmd([guest.bdf(SWITCH), guest.bdf(OWN)], fwd='macswap', topology='loop')
    testpmd.expect("Selected IOVA mode 'VA'", 1)
    lines = [line for line in testpmd.output().splitlines() if guest.bdf(SWITCH) in line
             and 'EAL: ' not in line]
    assert lines == [f'{guest.bdf(SWITCH)}: it does not go through an IOMMU (no ACCESS_PLATFORM) '
                     "and DPDK's addresses are virtual: run with --iova-mode=pa"]
    assert 'Error' not in testpmd.output()
    bits = last_features(testpmd, rf'{guest.bdf(OWN)}: negotiated features (0x[0-9a-f]+)')
    features.assert_features(bits, {'ACCESS_PLATFORM': True, 'VERSION_1': True}, 'our driver')

    testpmd.start()
    size = bench.round_trip(OWN, 1, 200)
    testpmd.wait_stat(0, 'opackets', 200)
    stats = testpmd.stats()
    assert stats['ipackets'] == stats['opackets'] == 200
    assert stats['ibytes'] == stats['obytes'] == size

    # The link: each change is told by one interrupt, of the vector for changes.
    before = bench.interrupts(OWN)[0]
    for change, up in enumerate((False, True), 1):
        guest.qmp.ask('set_link', name=f'nic{OWN}', up=up)
        wait_until(lambda: testpmd.output().count('Port 0: link state change event') == change,
                   20, 'the event of a change of the link')
        assert testpmd.link_up() == up
    assert bench.interrupts(OWN)[0] == before + 2
    bench.round_trip(OWN, 2, 20)
    assert testpmd.quit() == 0


def test_physical_addresses_past_the_iommu(bench):
    """Devices on the switch, which know of no IOMMU; one is unplugged, the other goes on."""
    guest, switch = bench.guest, bench.switch
    testpmd = guest.testpmd([guest.bdf(SWITCH), guest.bdf(UNPLUG)], fwd='macswap', topology='loop',
                            eal=['--iova-mode=pa'], extra=['--hot-plug'])
    switch.wait_up('g')
    testpmd.start()
    sender = bench.sender(MACS[SWITCH])
    sender.send(100)
    bench.round_trip(UNPLUG, 3, 100)
    assert [testpmd.stats(port)['ipackets'] for port in (0, 1)] == [100, 100]

    # The kernel asks for the device, DPDK's hotplug handling tells testpmd, which closes it.
    guest.qmp.ask('device_del', id=f'nic{UNPLUG}')
    testpmd.expect('Port 1 is closed', 20)
    guest.qmp.wait_event('DEVICE_DELETED')
    sender.send(100)
    sender.close()
    assert testpmd.stats(0)['ipackets'] == 200
    assert testpmd.quit() == 0


@pytest.mark.parametrize('event_idx, queues', [(0, 1), (1, 2)])
def test_no_frame_is_slept_over(bench, event_idx, queues):
    """Each frame finds the application at another moment: polling, arming, asleep."""
    guest, switch = bench.guest, bench.switch
    times_up = len(re.findall('port g: up', switch.output()))
    # Its sleep has no end of its own: a frame that does not wake it does not come back.
    app = rx_sleep.start(guest, f'{guest.bdf(SWITCH)},event_idx={event_idx}', '--echo',
                         '--linger-us', '300', '--timeout-ms', '600000', '--queues', str(queues),
                         eal=['--iova-mode=pa'])
    app.expect('^rx_sleep: ready$', 60)
    bits = switch.wait_up('g', times_up + 1)
    features.assert_features(bits, {'EVENT_IDX': bool(event_idx)}, 'the switch')
    before = bench.interrupts(SWITCH)
    sender = bench.sender(MACS[SWITCH])
    sender.send(COUNT)
    sender.close()
    raised = {vector: count - before[vector] for vector, count in bench.interrupts(SWITCH).items()}
    seen = rx_sleep.result(guest, app)
    print(f'interrupts by vector: {raised}')
    assert seen['frames'] == seen['echoed'] == COUNT
    assert seen['missed'] == 0
    assert seen['wakes'] >= COUNT // 4  # it did sleep, not only poll
    # A vector for each queue, none for the rest.
    assert set(raised) == set(range(1 + queues))
    assert raised[0] == 0
    assert all(raised[1 + queue] > 0 for queue in range(queues))
    # Some frames came in the moment of arming, and were seen by the look after it.
    assert sum(raised.values()) < seen['wakes']
