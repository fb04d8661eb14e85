# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The machines by themselves: stock pieces in a guest; one that hangs or dies says so in time."""

import pytest

from harness.proc import ProcError
from machine.qemu import Nic, boot, vhost_user
from machine.terminal import GuestError

MAC = '02:51:00:00:01:01'


@pytest.fixture(scope='module')
def there(module_rig):
    """A switch, and a guest on it."""
    switch = module_rig.switch([f'g,path={module_rig.path("s")}'])
    machine = boot(module_rig, [Nic(vhost_user(module_rig.path('s')), mac=MAC)], hugepages=96)
    return switch, machine


def test_commands(there):
    machine = there[1]
    assert machine.run('echo a; echo b >&2; printf c') == 'a\nb\nc'
    assert machine.status('exit 7') == (7, '')
    assert machine.status('sleep 100', timeout=1)[0] == 137
    with pytest.raises(GuestError, match='exit status 2'):
        machine.run('echo so; exit 2')


def test_stock_testpmd_in_the_guest(there):
    """net_virtio on virtio-pci; thirty-two frames that have nowhere to go, each accounted for."""
    switch, machine = there
    machine.bind(0, 'uio_pci_generic')
    testpmd = machine.testpmd([machine.bdf(0)], plugin=False, fwd='io', topology='loop')
    testpmd.start(tx_first=1)
    switch.wait_counter('g', 'drop_no_receiver', 32)
    assert testpmd.stop()[0]['tx'] == 32
    assert testpmd.stats()['opackets'] == 32
    assert testpmd.quit() == 0
    assert switch.assert_ledger()['g']['rx_packets'] == 32


def test_reset_and_panic(there):
    machine = there[1]
    machine.run('touch /tmp/before')
    machine.reset()
    assert machine.status('ls /tmp/before')[0] == 1
    with pytest.raises(ProcError, match='the guest died[\\s\\S]*sysrq: Trigger a crash'):
        machine.run('echo c >/proc/sysrq-trigger', timeout=60)
