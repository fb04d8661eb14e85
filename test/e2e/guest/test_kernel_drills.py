# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A guest with the kernel's own driver while all around it is killed, reset and started again.

As test_pmd_drills.py, with virtio_net in place of testpmd: the kernel sends back the frames of the
steady traffic as soon as its driver has them. Ping, both ways with a kernel of the host behind a
tap, comes after each drill. Nobody in the guest does anything about a drill but to bring interfaces
up that are new.
"""

import pytest

from harness.guest import ENTRIES, TX, Guest
from machine import netns, talk
from machine.qemu import Nic, boot, vhost_user
from machine.talk import GuestEnd, HostEnd
from test_pmd_drills import FIRST, MACS, SECOND, Bench

BOTH = (FIRST, SECOND)
TAP_MACS = ('02:51:00:00:04:00', '02:51:00:00:04:01')
PINGS = 5
# A frame of the steady traffic goes back where it came from. (By path: busybox has a tc and an ip.)
REFLECT = ('/sbin/tc qdisc add dev {0} clsact && '
           '/sbin/tc filter add dev {0} ingress protocol 0x88b5 matchall '
           'action skbmod swap mac pipe action mirred egress redirect dev {0}')


class KernelBench(Bench):
    def __init__(self, rig):
        self.host = netns.Namespace(rig)
        for scope in ('all', 'default'):
            self.host.run(f'tee /proc/sys/net/ipv6/conf/{scope}/disable_ipv6', text='1')
        super().__init__(rig)

    def start_switch(self, index):
        """The first is the server of the guest's socket and polls; the second is its client, and
        its worker sleeps. Each has a tap besides."""
        port, hands, options = [
            (f'g,path={self.rig.path("g0")}', 'pab', []),
            (f'g,path={self.rig.path("g1")},mode=client', 'q', ['--idle', 'sleep'])][index]
        tap = f'sltap{index}'
        self.switches[index] = self.rig.switch(
            [port, 'tap,dev=net_tap0', *(f'{n},path={self.rig.path(n)}' for n in hands)],
            name=f'switch{index}', options=options, wrap=self.host.wrap,
            vdevs=[f'net_tap0,iface={tap},mac={TAP_MACS[index]}'])
        if self.guest:
            # Then all frames on it find the guest, and come back from it.
            self.switches[index].wait_up('g')
            self.guest.run('until /usr/bin/ip link show dev '
                           f'{self.guest.interface(index)} | grep -q "state UP"; '
                           'do usleep 10000; done')
        self.host.run(f'ip addr add 10.9.{index}.1/24 dev {tap}')
        self.host.run(f'ip link set {tap} up')
        self.host.run(f'ip neigh replace 10.9.{index}.2 lladdr {MACS[index]} dev {tap} '
                      'nud permanent')
        for name in hands:
            old = self.hands.get(name)
            self.hands[name] = Guest(self.rig.path(name), buffers=ENTRIES, calls=True, kicks=True)
            self.hands[name].want_no_calls(TX)
            if old:
                self.steady.replace(old, self.hands[name])

    def boot(self):
        self.guest = boot(self.rig, [
            Nic(vhost_user(self.rig.path('g0')), mac=MACS[FIRST], queues=2),
            Nic(vhost_user(self.rig.path('g1'), server=True), mac=MACS[SECOND]),
        ], cpus=2, cpu=None, files=talk.FILES)
        self.new_kernel()

    def new_kernel(self):
        """What belongs to a boot, and the interfaces."""
        self.guest.run('sysctl -w net.ipv6.conf.all.disable_ipv6=1 '
                       'net.ipv6.conf.default.disable_ipv6=1')
        self.forward()

    def forward(self, devices=BOTH):
        """Bring interfaces up that are new."""
        for index in devices:
            name = self.guest.interface(index)
            self.guest.run(f'ip addr add 10.9.{index}.2/24 dev {name} && ip link set {name} up && '
                           f'/usr/bin/ip neigh replace 10.9.{index}.1 lladdr {TAP_MACS[index]} '
                           f'dev {name} nud permanent && ' + REFLECT.format(name))
        self.testpmd = self.guest  # somebody sends frames back

    def end(self, name, accounts):
        rows = super().end(name, accounts)
        self.steady.pause()
        for index in BOTH:
            ends = [GuestEnd(self.guest, f'10.9.{index}.2'), HostEnd(self.host, f'10.9.{index}.1')]
            talk.ping(*ends, PINGS, 56)
            talk.ping(*reversed(ends), PINGS, 56)
        self.steady.go_on()
        return rows


@pytest.fixture(scope='module')
def bench(module_rig):
    reason = netns.why_not()
    if reason:
        pytest.skip(reason)
    it = KernelBench(module_rig)
    yield it
    if it.steady:
        it.steady.close()


def test_interrupts_move(bench):
    """Vectors masked and given to the other CPU, all the time: nothing is lost."""
    accounts = bench.begin()
    bench.guest.run('for i in 1 2 1 2 1 2 1 2 1 2; do for irq in $(grep virtio /proc/interrupts | '
                    'cut -d: -f1); do echo $i >/proc/irq/$irq/smp_affinity; done; '
                    'usleep 50000; done')
    for row in bench.end('interrupts moved', accounts):
        assert row['lost'] == 0


def test_link_down_and_up(bench):
    """As QEMU tells the guest, and as the guest does itself."""
    accounts = bench.begin()
    guest = bench.guest
    name = guest.interface(FIRST)
    for up in (False, True):
        guest.qmp.ask('set_link', name=f'nic{FIRST}', up=up)
        guest.run(f'until [ $(cat /sys/class/net/{name}/carrier) = {int(up)} ]; '
                  'do usleep 10000; done')
    first, second = bench.end('link down and up', accounts)
    assert second['lost'] == 0


def test_queue_pairs_change(bench):
    """From two pairs to one and back, under traffic."""
    accounts = bench.begin()
    name = bench.guest.interface(FIRST)
    for _ in range(5):
        for pairs in (1, 2):
            bench.guest.run(f'ethtool -L {name} combined {pairs}')
    _, second = bench.end('queue pairs changed', accounts)
    assert second['lost'] == 0


def test_guest_stands_still(bench):
    """More frames come meanwhile than its rings have buffers."""
    accounts = bench.begin()
    bench.stand_still(300)
    bench.end('guest stopped and continued', accounts)


def test_driver_unbound_and_bound(bench):
    """The network driver of the virtio device first, then that of the PCI device."""
    accounts = bench.begin()
    guest = bench.guest
    for index in BOTH:
        device = f'$(basename /sys/bus/pci/devices/{guest.bdf(index)}/virtio*)'
        guest.run(f'd={device}; cd /sys/bus/virtio/drivers/virtio_net && echo $d >unbind && '
                  'echo $d >bind')
    bench.forward()
    bench.wait_moves()
    for index in BOTH:
        guest.run(f'cd /sys/bus/pci/drivers/virtio-pci && echo {guest.bdf(index)} >unbind && '
                  f'echo {guest.bdf(index)} >bind')
    bench.forward()
    bench.end('driver unbound and bound', accounts)


def test_guest_reset(bench):
    accounts = bench.begin()
    bench.guest.reset()
    bench.new_kernel()
    bench.end('guest reset', accounts)


def test_qemu_killed(bench):
    accounts = bench.begin()
    bench.guest.kill9()
    bench.boot()
    bench.end('QEMU killed and started again', accounts)


@pytest.mark.parametrize('index', BOTH, ids=['server', 'client'])
def test_switch_killed(bench, index):
    """QEMU finds the new one by itself, and the guest knows nothing of it."""
    flow = bench.flows[index]
    accounts = bench.begin([1 - index])
    old = bench.restart_switch(index)
    other, = bench.end('a switch killed and started again', accounts)
    assert other['lost'] == 0
    bench.steady.pause()
    print(f'drill: switch killed and started again: sent {flow.sent}, lost {flow.lost}, again '
          f'{flow.again}, of {len(old)} that may be')
    # In the old switch, in the sender's ring, and in the guest while its link was down.
    assert set(flow.missing()) <= set(old)
    bench.steady.go_on()
