# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Our driver in a guest while everything around it is killed, reset, unplugged and started again.

Frames go round through the guest's testpmd all the time, on two switches: one is the server of its
socket, the other the client. After each drill they go round again by themselves; every frame that
did not is accounted for; what has no part in it has lost nothing.
"""

import pytest

from harness import frames
from harness.guest import ENTRIES, TX, Guest
from harness.proc import wait_until
from harness.steady import LITTLE_PATIENCE, PATIENCE, Flow, Steady
from harness.switch import losses
from machine import rx_sleep
from machine.line import StreamLine
from machine.qemu import Nic, boot, vhost_user

FIRST, SECOND, UNPLUG = range(3)  # devices, by their index, and testpmd's ports
MACS = [f'02:51:00:00:03:{index:02x}' for index in range(3)]
P, Q, A, B = (f'02:51:00:00:01:{index:02x}' for index in range(4))
DRIVER = 'uio_pci_generic'


class Account:
    """Where the frames of a flow went that a switch sends to a port, and gets back from it: what
    its ledger says since the account was opened."""

    def __init__(self, switch, port, flow):
        self._switch, self._port, self._flow = switch, port, flow
        self._open = switch.settled(port)

    def close(self):
        """What became of the frames; each is accounted for."""
        row = {}

        def adds_up():
            now = {key: value - self._open[key] for key, value
                   in self._switch.counters(self._port).items() if isinstance(value, int)}
            flow = self._flow
            there = {key: n for key, n in losses(now).items() if key.startswith('todrop_')}
            back = {key: n for key, n in losses(now).items() if key.startswith('drop_')}
            row.update(device=flow.dst, sent=flow.sent, lost=flow.lost, again=flow.again,
                       before_it=there, in_the_guest=now['tx_packets'] - now['rx_packets'],
                       behind_it=back)
            return (flow.sent == now['tx_packets'] + sum(there.values())
                    and now['rx_packets'] == flow.sent - flow.lost + flow.again
                    + sum(back.values()))
        wait_until(adds_up, 10, lambda: f'port {self._port}: the account does not add up: {row}')
        return row


class Bench:
    def __init__(self, rig):
        self.rig = rig
        self.guest = self.line = self.testpmd = self.steady = None
        self.switches, self.hands = {}, {}
        for index in (FIRST, SECOND):
            self.start_switch(index)
        p, q, a, b = (self.hands[name] for name in 'pqab')
        self.flows = [Flow(1, p, P, MACS[FIRST]), Flow(2, q, Q, MACS[SECOND])]
        self.neighbours = [Flow(3, a, A, B, sink=b), Flow(4, b, B, A, sink=a)]
        self.boot()

    # --- what is there ----------------------------------------------------------------------

    def start_switch(self, index):
        """A switch and the guests by hand on it. The first is the server of the guest's socket; the
        second is its client, and its worker sleeps."""
        port, hands, options = [
            (f'g,path={self.rig.path("g0")}', 'pab', []),
            (f'g,path={self.rig.path("g1")},mode=client', 'q', ['--idle', 'sleep'])][index]
        self.switches[index] = self.rig.switch(
            [port, *(f'{name},path={self.rig.path(name)}' for name in hands)],
            name=f'switch{index}', options=options)
        if self.guest:
            # Then all frames on it find the guest.
            self.switches[index].wait_up('g')
        for name in hands:
            old = self.hands.get(name)
            self.hands[name] = Guest(self.rig.path(name), buffers=ENTRIES, calls=True, kicks=True)
            self.hands[name].want_no_calls(TX)
            if old:
                self.steady.replace(old, self.hands[name])

    def boot(self):
        self.line = StreamLine(self.rig.path(f'line{len(self.rig.processes)}'))
        self.guest = boot(self.rig, [
            Nic(vhost_user(self.rig.path('g0')), mac=MACS[FIRST]),
            Nic(vhost_user(self.rig.path('g1'), server=True), mac=MACS[SECOND]),
            Nic(self.line.behind, mac=MACS[UNPLUG], hotplug=True),
        ], hugepages=96, files=rx_sleep.FILES)
        self.line.open()

    def forward(self, devices=(FIRST, SECOND)):
        """Start testpmd on devices, and send back what they receive."""
        for device in devices:
            self.guest.bind(device, DRIVER)
        self.testpmd = self.guest.testpmd([self.guest.bdf(device) for device in devices],
                                          fwd='macswap', topology='loop', extra=['--hot-plug'])
        self.testpmd.start()

    @staticmethod
    def send_in_vain(flows, count):
        """Send so many frames of each to a device that takes none."""
        before = {flow: flow.sent for flow in flows}
        for flow in flows:
            flow.patience = LITTLE_PATIENCE
        wait_until(lambda: all(flow.sent > sent + count for flow, sent in before.items()), 60,
                   'frames are sent meanwhile')
        for flow in flows:
            flow.patience = PATIENCE

    def stand_still(self, count):
        """The guest does nothing while so many frames are sent to each of its devices."""
        self.guest.qmp.ask('stop')
        self.send_in_vain(self.flows, count)
        self.guest.qmp.ask('cont')

    def restart_switch(self, index):
        """Kill it and start it again, with the guests by hand on it. Returns what may be lost by
        that, by number: what has not come, and is not from a new guest."""
        first = self.steady.oldest(self.flows[index])
        self.switches[index].kill9()
        self.start_switch(index)
        if index == FIRST:
            # The neighbours were on it.
            self.wait_moves()
            self.steady.pause()
            for neighbour in self.neighbours:
                neighbour.forget()
            self.steady.go_on()
        return range(first, self.flows[index].renewed)

    # --- a drill ----------------------------------------------------------------------------

    def begin(self, indices=(FIRST, SECOND)):
        """Frames go round; from here on they are counted. Returns accounts of these devices."""
        if self.testpmd is None:
            self.forward((FIRST, SECOND, UNPLUG))
        if self.steady is None:
            self.steady = Steady([*self.flows, *self.neighbours])
        self.wait_moves()
        self.steady.pause()
        for flow in self.steady.flows:
            flow.forget()
        opened = [Account(self.switches[index], 'g', self.flows[index]) for index in indices]
        self.steady.go_on()
        self.wait_moves()
        return opened

    def wait_moves(self):
        for flow in self.steady.flows:
            self.steady.wait_moves(flow)

    def end(self, name, accounts):
        """Traffic is back by itself; what it cost, by account."""
        self.wait_moves()
        self.steady.pause()
        rows = [account.close() for account in accounts]
        for row in rows:
            print(f'drill: {name}: {row}')
        for flow in self.neighbours:
            assert flow.lost == flow.again == 0
        self.steady.go_on()
        return rows


@pytest.fixture(scope='module')
def bench(module_rig):
    it = Bench(module_rig)
    yield it
    if it.steady:
        it.steady.close()
    it.line.close()


def test_no_receive_interrupts_without_msix(bench):
    """One line that says what to do."""
    guest = bench.guest
    guest.bind(FIRST, DRIVER)
    app = rx_sleep.start(guest, guest.bdf(FIRST))
    assert app.wait(60) != 0
    lines = [line for line in app.output().splitlines() if 'interrupt' in line]
    assert len(lines) == 2, lines
    assert lines[0].startswith(guest.bdf(FIRST) + ': ')
    assert 'receive interrupts without MSI-X: bind the device to vfio-pci' in lines[0]
    assert lines[1] == 'rx_sleep: configuring with receive interrupts: Operation not supported'


def test_link_of_the_device(bench):
    """Down and up, found by looking: there is no interrupt for it. No frame is in the guest when it
    goes down, since QEMU throws away what a guest sends after that."""
    accounts = bench.begin()
    bench.steady.pause()
    for change, up in enumerate((False, True), 1):
        bench.guest.qmp.ask('set_link', name=f'nic{FIRST}', up=up)
        wait_until(lambda: bench.testpmd.output().count('Port 0: link state change event') == change,
                   20, 'the event of a change of the link')
        assert bench.testpmd.link_up(FIRST) == up
        if not up:
            bench.steady.go_on()
            bench.send_in_vain([bench.flows[FIRST]], 60)
    first, second = bench.end('link down and up', accounts)
    assert second['lost'] == 0
    assert first['in_the_guest'] == 0
    assert first['lost'] == sum(first['before_it'].values()) >= 60


def test_guest_stands_still(bench):
    accounts = bench.begin()
    bench.stand_still(60)
    for row in bench.end('guest stopped and continued', accounts):
        assert row['in_the_guest'] == 0


def test_unplugged(bench):
    """The driver and DPDK's hotplug handling both tell of it; testpmd obeys the first, closes the
    port, and the others lose nothing."""
    accounts = bench.begin()
    sent = frames.stream(MACS[UNPLUG], P, 4, 8, 60)
    bench.line.send(sent)
    frames.assert_same(bench.line.take(8), [frames.swapped(f) for f in sent], 'echo')
    bench.guest.qmp.ask('device_del', id=f'nic{UNPLUG}')
    bench.testpmd.expect('Port 2 is closed', 30)
    bench.guest.qmp.wait_event('DEVICE_DELETED')
    for row in bench.end('another device unplugged', accounts):
        assert row['lost'] == 0
    assert bench.guest.status(f'ls /sys/bus/pci/devices/{bench.guest.bdf(UNPLUG)}')[0] != 0


def test_testpmd_killed(bench):
    """The device was left as it ran: the next one to probe it resets it."""
    accounts = bench.begin()
    assert bench.testpmd.kill9() == 137
    bench.forward()
    bench.end('testpmd killed and started again', accounts)


def test_another_driver_meanwhile(bench):
    """To the kernel's driver, which works with the devices, and back."""
    accounts = bench.begin()
    assert bench.testpmd.quit() == 0
    guest = bench.guest
    guest.run('sysctl -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1')
    for device in (FIRST, SECOND):
        guest.bind(device, 'virtio-pci')
        name = guest.interface(device)
        guest.run(f'ip link set {name} up')
        guest.run(f'until [ $(cat /sys/class/net/{name}/statistics/rx_packets) -gt 8 ]; '
                  'do usleep 10000; done')
    bench.forward()
    bench.end("virtio_net and back", accounts)


def test_guest_reset(bench):
    """The reset button, with testpmd running."""
    accounts = bench.begin()
    bench.guest.reset()
    bench.forward()
    bench.end('guest reset', accounts)


def test_qemu_killed(bench):
    accounts = bench.begin()
    bench.guest.kill9()
    bench.line.close()
    bench.boot()
    bench.forward()
    bench.end('QEMU killed and started again', accounts)


@pytest.mark.parametrize('index', [FIRST, SECOND], ids=['server', 'client'])
def test_switch_killed(bench, index):
    """QEMU finds the new one and goes on with the rings as they are; the driver sees the link go and
    come, and does not begin anew."""
    flow = bench.flows[index]
    accounts = bench.begin([1 - index])
    begun = bench.testpmd.output().count('negotiated features')
    old = bench.restart_switch(index)
    other, = bench.end('a switch killed and started again', accounts)
    assert other['lost'] == 0
    bench.steady.pause()
    # In the old switch, in the sender's ring, and, if sent before QEMU had the new one, by QEMU.
    assert set(flow.missing()) <= set(old)
    counters = bench.testpmd.xstats(index)
    drops = {key: n for key, n in counters.items() if n and ('drop' in key or 'error' in key)}
    stats = bench.testpmd.stats(index)
    print(f'drill: switch killed and started again: sent {flow.sent}, lost {flow.lost}, again '
          f'{flow.again}; the driver: {stats}, {drops}')
    assert stats['ipackets'] == stats['opackets']
    assert not drops
    assert bench.testpmd.output().count('negotiated features') == begun
    bench.steady.go_on()
