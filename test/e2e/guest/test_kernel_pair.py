# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Two guests and their kernels, with a switch that sleeps when they are silent."""

import json

import pytest

from harness.switch import losses
from machine import talk
from machine.qemu import Nic, boot, vhost_user
from machine.talk import GuestEnd

ADDRESSES = ('10.9.1.1', '10.9.1.2')
VLAN, TAGGED = 7, ('10.9.7.1', '10.9.7.2')
IPERF_MEGABYTES = 32
RECEIVE_BUFFER = 6 << 20  # of a Linux socket, at most
MEGABYTES = 32


class Pair:
    def __init__(self, rig):
        self.rig = rig
        self.switch = rig.switch([f'g{i},path={rig.path(f"s{i}")},queues={2 - i}' for i in (0, 1)],
                                 options=['--idle', 'sleep'])
        self.ends = []
        for i, address in enumerate(ADDRESSES):  # the first has two queue pairs
            nic = Nic(vhost_user(rig.path(f's{i}')), mac=f'02:51:00:00:03:0{i}', queues=2 - i)
            # The second's memory goes beyond 4 GB, so it is one more region for the switch.
            machine = boot(rig, [nic], name=f'guest{i}', cpus=2 - i, cpu=None, files=talk.FILES,
                           memory=(512, 3072)[i], ready=False)
            self.ends.append(GuestEnd(machine, address))
        # A kernel speaks as soon as its link is up: then the other one has to be there.
        for i, end in enumerate(self.ends):
            end.machine.wait_ready()
            self.switch.wait_up(f'g{i}')
        for i, end in enumerate(self.ends):
            end.run(f'ip addr add {end.address}/24 dev eth0 && ip link set eth0 up && '
                    f'ip link add link eth0 name tagged type vlan id {VLAN} && '
                    f'ip addr add {TAGGED[i]}/24 dev tagged && ip link set tagged up')
        talk.ping(*self.pair(0), 5, 56)
        self.before = self.switch.assert_ledger()

    def pair(self, sender):
        return self.ends[sender], self.ends[1 - sender]

    def assert_lost(self, *reasons):
        """The ledger adds up, and nothing was lost for another reason."""
        for port, counts in self.switch.assert_ledger().items():
            new = {reason: count - self.before[port][reason]
                   for reason, count in losses(counts).items()
                   if count != self.before[port][reason]}
            assert {reason.partition('_')[2] for reason in new} <= set(reasons), (port, new)


@pytest.fixture(scope='module')
def pair(module_rig):
    return Pair(module_rig)


both_ways = pytest.mark.parametrize('sender', [0, 1], ids=['first', 'second'])


@both_ways
def test_ping_and_udp(pair, sender):
    for size in (56, 1472, 5000):
        talk.ping(*pair.pair(sender), 10, size)
    talk.udp(*pair.pair(sender), 50, (8, 512, 1472, 1473, 20000))


@both_ways
def test_jumbo(pair, sender):
    for end in pair.ends:
        end.run('ip link set eth0 mtu 9000')
    talk.ping(*pair.pair(sender), 10, 8972)
    talk.udp(*pair.pair(sender), 50, (8972, 8973, 20000))
    talk.tcp(*pair.pair(sender), MEGABYTES)
    for end in pair.ends:
        end.run('ip link set eth0 mtu 1500')
    pair.assert_lost('no_buffers')


@both_ways
def test_vlan(pair, sender):
    """Tagged at both ends; the switch looks at no tag."""
    here, there = pair.pair(sender)
    there = there.at(TAGGED[1 - sender])
    talk.ping(here, there, 10, 1472)
    talk.udp(here, there, 50, (18, 1472))
    talk.tcp(here, there, 8)
    pair.assert_lost('no_buffers')


@both_ways
def test_tcp(pair, sender):
    print(talk.tcp(*pair.pair(sender), MEGABYTES))
    pair.assert_lost('no_buffers')


@both_ways
def test_iperf3(pair, sender):
    """As people measure it; here the bytes count. The receiver of iperf3 stops counting when it is
    told that the test is over, before it has read what is on its way."""
    here, there = pair.pair(sender)
    server = there.start('iperf3 --server --one-off --json')
    there.run('until netstat -ltn | grep -q :5201; do usleep 20000; done')
    said = json.loads(here.run(f'iperf3 --client {there.address} --bytes {IPERF_MEGABYTES}M --json',
                               120))
    assert server.wait(30) == 0
    text = server.output()
    heard = json.loads(text[text.index('{'):text.rindex('}') + 1])
    sent, received = said['end']['sum_sent']['bytes'], heard['end']['sum_received']['bytes']
    print(f'{sent} bytes sent, {received} received')
    assert sent == IPERF_MEGABYTES << 20
    assert 0 <= sent - received <= RECEIVE_BUFFER
    pair.assert_lost('no_buffers')


def test_the_switch_slept(pair):
    """Between the words of a conversation, with no wakeup lost: all of the above arrived."""
    for _ in range(5):
        before = pair.switch.wait_asleep()
        talk.ping(*pair.pair(0), 1, 56)
        after = pair.switch.wait_asleep()
        assert after['sleeps'] > before['sleeps']
    print(after)
