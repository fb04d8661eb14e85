# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Workers that sleep when there is nothing to do: they do sleep, miss no wakeup, and ask for none
while they are awake. What a hostile guest can do about it is in test_idle_hostile.py."""

import os
import random
import time

import pytest

from harness import frames, netns
from harness import vhost_user as vu
from harness.guest import RX, TX, Guest
from harness.proc import SLOWEST, wait_until
from harness.switch import losses

A, B = '02:51:00:00:00:0a', '02:51:00:00:00:0b'

both_wishes = pytest.mark.parametrize('features', [vu.F_VERSION_1, vu.F_VERSION_1 | vu.F_EVENT_IDX],
                                      ids=['flags', 'event_idx'])


def spin(nanoseconds):
    until = time.perf_counter_ns() + nanoseconds
    while time.perf_counter_ns() < until:
        pass


@pytest.fixture(autouse=True)
def beside_the_worker():
    """A guest that looks for its frame all the time is a poller: not on the worker's CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {0} or before)
    yield
    os.sched_setaffinity(0, before)


class Pair:
    """Two guests that kick, when that is wanted, and a switch whose workers sleep."""

    def __init__(self, rig, usecs=50, options=(), workers=1, features=vu.F_VERSION_1, **more):
        self.rig = rig
        self.features = features
        self.switch = rig.switch(
            [f'{p},path={rig.path(p)}' for p in ('pa', 'pb')],
            lcores=','.join(f'{i}@0' for i in range(workers + 1)), report=rig.path('report'),
            options=['--idle', 'sleep', '--idle-usecs', str(usecs), *options])
        self.a, self.b = self.guest('pa', **more), self.guest('pb', **more)
        for port in ('pa', 'pb'):
            self.switch.wait_up(port)
        self.serial = 0

    def guest(self, port, **more):
        return Guest(self.rig.path(port), kicks=True, features=self.features, **more)

    def post(self, size=100):
        """A frame from a to b, without a kick."""
        frame = frames.frame(B, A, 1, self.serial, size)
        self.a.send(frame, self.serial % 8)
        self.serial += 1
        return frame

    def send(self, size=100):
        """A frame from a to b, and a kick if one is wanted. It comes, before anything else goes."""
        frame = self.post(size)
        self.a.kick()
        deadline = time.monotonic() + 5 * SLOWEST
        while self.b.used(RX) == self.b.seen[RX]:
            assert time.monotonic() < deadline, \
                f'frame {self.serial - 1} did not come: {self.switch.workers()}'
        assert self.b.received() == [frame]

    def kicks_agree(self):
        """Each kick was counted, once."""
        sent = sum(self.a.kicked) + sum(self.b.kicked)

        def counted():
            return sum(self.switch.counters(p)['kicks'] for p in ('pa', 'pb'))
        wait_until(lambda: counted() >= sent, 10, lambda: f'{counted()} kicks of {sent} counted')
        assert counted() == sent

    def end(self):
        """Nothing was lost anywhere; the report says what telemetry said."""
        self.switch.wait_asleep()
        ledger = self.switch.assert_ledger()
        assert not losses(ledger['pa']) and not losses(ledger['pb'])
        report = self.switch.quit()
        for worker in report['workers']:
            assert worker['sleeps'] == worker['wakes'] > 0
            assert worker['spurious_wakes'] <= worker['wakes']
        return report


@pytest.mark.check
def test_an_idle_worker_does_nothing(rig):
    """An address ages in the table: seconds in which the worker takes no turn."""
    pair = Pair(rig, options=['--ageing', '1'])
    pair.send()
    before = pair.switch.wait_asleep()

    def aged():
        return pair.switch.telemetry.ask('/sluice/fdb')['aged']
    wait_until(lambda: aged() == 1, 10, 'the address ages')
    assert pair.switch.wait_asleep() == before
    pair.end()


@both_wishes
def test_single_frames_at_random_gaps(rig, features):
    """Twelve thousand in all, most at about the time when the worker falls asleep: the gap grows
    while it is found awake, and shrinks when it is not. A frame that is not seen by the look before
    the sleep, nor wakes the worker, stays for good."""
    count = 6000
    gaps = random.Random(20261130)
    pair = Pair(rig, 200, features=features)
    before = pair.switch.wait_asleep()
    gap, kicks = 0, 0
    for _ in range(count):
        spin(gap + gaps.uniform(-10000, 10000))
        pair.send()
        wanted = pair.a.kicked[TX] != kicks
        kicks = pair.a.kicked[TX]
        gap = max(0, gap + (-1 if wanted else 1) * gaps.uniform(0, 10000))
    after = pair.switch.wait_asleep()
    slept = after['sleeps'] - before['sleeps']
    print(f'{slept} sleeps, {after["spurious_wakes"]} spurious wakes, {kicks} kicks, gap {gap:.0f}')
    assert after['packets'] - before['packets'] == count
    assert kicks > count / 10, 'not around the time to fall asleep'
    pair.kicks_agree()
    pair.end()


@both_wishes
def test_no_kicks_while_awake(rig, features):
    """Steady traffic under a long patience: who is awake asks for no kick."""
    count = 3000
    pair = Pair(rig, 100000, features=features)
    before = pair.switch.wait_asleep()
    for _ in range(count):
        pair.send()
    after = pair.switch.wait_asleep()
    slept = after['sleeps'] - before['sleeps']
    print(f'{count} frames, {pair.a.kicked[TX]} kicks, {slept} sleeps')
    # At most one while it sleeps, and one while it was about to.
    assert 1 <= pair.a.kicked[TX] <= 2 * slept
    assert pair.a.kicked[TX] < count / 100
    assert pair.a.kicked[RX] == 0
    pair.kicks_agree()
    pair.end()


@both_wishes
def test_kicks_while_awake(rig, features):
    """The same without suppression: who is awake asks as well; each kick is counted."""
    count = 3000
    pair = Pair(rig, 100000, ['--suppress-kicks', 'off'], features=features)
    before = pair.switch.wait_asleep()
    for _ in range(count):
        pair.send()
    pair.kicks_agree()
    after = pair.switch.wait_asleep()
    slept = after['sleeps'] - before['sleeps']
    print(f'{count} frames, {pair.a.kicked[TX]} kicks, {slept} sleeps')
    assert after['packets'] - before['packets'] == count
    if features & vu.F_EVENT_IDX:
        # None is wanted where the worker has taken the frame and asked for the next one already.
        assert 2 * slept < pair.a.kicked[TX] <= count
    else:
        assert pair.a.kicked[TX] == count
    assert pair.a.kicked[RX] == 0
    pair.end()


def send_and_kick(switch, guest):
    """20 frames, each taken before the next; the guest kicks where it is asked to."""
    switch.wait_up('pa')
    for i in range(20):
        guest.send(frames.frame(B, A, 1, i, 60), i % 8)
        guest.kick()
        switch.wait_counter('pa', 'rx_packets', i + 1)


def test_kicks_for_who_never_sleeps(rig):
    """Without suppression a worker that polls for ever asks as well: the control thread counts."""
    switch = rig.switch([f'pa,path={rig.path("pa")}'], options=['--suppress-kicks', 'off'])
    with Guest(rig.path('pa'), kicks=True) as guest:
        send_and_kick(switch, guest)
        assert guest.kicked == [0, 20]
        switch.wait_counter('pa', 'kicks', 20)
        assert switch.settled('pa')['kicks'] == 20
    switch.quit()


def test_kicks_that_nobody_asked_for(rig):
    """They are counted, be the worker awake or asleep, and do not make it turn for long."""
    pair = Pair(rig)
    pair.switch.wait_asleep()
    for _ in range(50):
        pair.send()
        os.eventfd_write(pair.a.kicks[TX], 3)
        pair.a.kicked[TX] += 3
        os.eventfd_write(pair.b.kicks[RX], 1)
        pair.b.kicked[RX] += 1
    pair.kicks_agree()
    # Alone, they are what is called spurious.
    before = pair.switch.wait_asleep()
    for _ in range(10):
        asleep = pair.switch.wait_asleep()
        os.eventfd_write(pair.a.kicks[TX], 1)
        wait_until(lambda past=asleep['wakes']: pair.switch.workers()[0]['wakes'] > past, 10,
                   'a kick wakes')
    after = pair.switch.wait_asleep()
    assert after['spurious_wakes'] - before['spurious_wakes'] == 10
    pair.end()


@pytest.mark.check
def test_frames_without_a_kick(rig):
    """A guest that posts and does not kick, though it was asked to, waits until it does."""
    pair = Pair(rig)
    before = pair.switch.wait_asleep()
    sent = [pair.post() for _ in range(4)]
    assert pair.switch.wait_asleep() == before and pair.b.received() == []
    pair.a.kick()
    assert pair.b.wait_received(4) == sent
    pair.end()


def test_each_worker_sleeps_by_itself(rig):
    """A frame from a to b is the business of the worker of a's queue alone."""
    pair = Pair(rig, workers=2)
    before = [pair.switch.wait_asleep(i) for i in (0, 1)]
    for _ in range(200):
        pair.send()
    after = [pair.switch.wait_asleep(i) for i in (0, 1)]
    busy = [i for i in (0, 1) if after[i]['packets'] != before[i]['packets']]
    assert len(busy) == 1
    assert after[1 - busy[0]] == before[1 - busy[0]]
    pair.kicks_agree()
    pair.end()


@pytest.mark.check
@pytest.mark.parametrize('workers', [1, 2])
def test_a_held_back_call_is_made_before_the_sleep(rig, workers):
    """Nobody would make it later. With two workers, the one that sends does not own the queue."""
    pair = Pair(rig, 1000, ['--coalesce', 'static,frames=1000,usecs=100000'], workers, calls=True)
    for i in range(workers):
        pair.switch.wait_asleep(i)
    for _ in range(20):
        pair.b.called(RX)
        pair.a.called(TX)
        pair.send()
        for guest, ring in ((pair.b, RX), (pair.a, TX)):
            wait_until(lambda g=guest, r=ring: g.called(r), 5, 'the held back call')
    assert pair.switch.settled('pb')['calls_deferred'] >= 20
    assert pair.switch.settled('pa')['calls_deferred'] >= 20
    pair.end()


@pytest.mark.check
@both_wishes
def test_changes_while_it_sleeps(rig, features):
    """Memory, rings, and the guest itself: whatever is new is seen, and wakes from then on."""
    pair = Pair(rig, features=features)
    extra = os.memfd_create('extra')
    os.ftruncate(extra, 1 << 20)
    for i in range(10):
        pair.switch.wait_asleep()
        # Another memory table, the rings where they were.
        pair.a.show_memory([(extra, 1 << 40, 1 << 20)] if i % 2 == 0 else [])
        pair.a.frontend.features()
        pair.switch.wait_asleep()
        pair.send()
        pair.switch.wait_asleep()
        # A ring stops, and starts with another kick descriptor.
        base = pair.a.stop(TX)
        os.close(pair.a.kicks[TX])
        pair.a.kicks[TX] = os.eventfd(0, os.EFD_NONBLOCK)
        pair.switch.wait_asleep()
        pair.a.start(TX, base)
        pair.a.frontend.features()
        pair.send()
    os.close(extra)
    for i in range(5):
        # A guest goes, and the next one has the same numbers of descriptors.
        pair.switch.wait_asleep()
        pair.a.close()
        pair.switch.wait_asleep()
        pair.a = pair.guest('pa')
        pair.switch.wait_up('pa', 2 + i)
        pair.send()
    pair.end()


@pytest.mark.check
def test_the_end_while_it_sleeps(rig):
    for workers in (1, 3):
        pair = Pair(rig, workers=workers)
        for i in range(workers):
            pair.switch.wait_asleep(i)
        report = pair.switch.quit(timeout=10)
        assert [w['sleeps'] - w['wakes'] for w in report['workers']] == [0] * workers
        pair.a.close()
        pair.b.close()


def test_polling_does_not_sleep(rig):
    """Nor is anything asked for, by default."""
    switch = rig.switch([f'pa,path={rig.path("pa")}'])
    with Guest(rig.path('pa'), kicks=True) as guest:
        send_and_kick(switch, guest)
        assert guest.kicked == [0, 0]
        worker = switch.workers()[0]
        assert worker['turns'] > 0 and worker['sleeps'] == worker['wakes'] == 0
    switch.quit()


def test_an_uplink_without_interrupts(rig):
    """It is said once, and its worker polls: the guest need not kick."""
    sink = rig.path('out.pcap')
    switch = rig.switch([f'pa,path={rig.path("pa")}', 'up,dev=net_pcap0'],
                        vdevs=[rig.pcap_vdev(0, [], [sink])], options=['--idle', 'sleep'])
    with Guest(rig.path('pa'), kicks=True) as guest:
        switch.wait_up('pa')
        guest.send(frames.frame(B, A, 1, 0, 60))
        switch.wait_counter('up', 'tx_packets', 1)
        assert switch.workers()[0]['sleeps'] == 0
    assert switch.output().count('net_pcap0 has no receive interrupts') == 1
    switch.quit()


def test_an_uplink_that_keeps_its_wakes(rig):
    """net_virtio_user never takes them from its eventfd: its worker sleeps all the same."""
    sleep = ['--idle', 'sleep']
    far = rig.switch([f'link,path={rig.path("link")}', f'pb,path={rig.path("pb")}'], options=sleep)
    near = rig.switch([f'pa,path={rig.path("pa")}', 'up,dev=net_virtio_user0'], options=sleep,
                      vdevs=[f'net_virtio_user0,path={rig.path("link")},mac={B}'])
    with Guest(rig.path('pa'), kicks=True) as a, Guest(rig.path('pb'), kicks=True) as b:
        for switch, port in ((near, 'pa'), (far, 'link'), (far, 'pb')):
            switch.wait_up(port)
        for i in range(50):
            frame = frames.frame(A, B, 1, i, 100)
            b.send(frame, i % 8)
            b.kick()
            assert a.wait_received(1) == [frame]
        before = near.wait_asleep()
        assert near.wait_asleep() == before
        assert near.workers()[0]['spurious_wakes'] < 50
    near.quit()
    far.quit()


# Sends back what it gets, addresses swapped; frames that are not of the test stay.
ECHO = '''
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5))
s.bind((sys.argv[1], 0))
print('listening', flush=True)
while True:
    data, where = s.recvfrom(2048)
    if where[2] != socket.PACKET_OUTGOING:
        s.send(data[6:12] + data[:6] + data[12:])
'''


@netns.needed
@pytest.mark.parametrize('usecs', [0, 50])
def test_a_tap_wakes_it(rig, usecs):
    """Frames there and back through the kernel, one by one: a kick wakes the worker for the first
    half of the way, the tap for the second."""
    count = 400
    gaps = random.Random(4)
    switch = rig.switch([f'pa,path={rig.path("pa")}', 'up,dev=net_tap0'],
                        vdevs=['net_tap0,iface=sltapS'],
                        options=['--idle', 'sleep', '--idle-usecs', str(usecs)])
    net = netns.Namespaces(['sltapS'])
    echo = net.python(0, ECHO, 'sltapS')
    try:
        assert echo.stdout.readline() == 'listening\n'
        with Guest(rig.path('pa'), kicks=True) as guest:
            switch.wait_up('pa')
            before = switch.wait_asleep()
            for i in range(count):
                frame = frames.frame(B, A, 1, i, 100)
                guest.send(frame, i % 8)
                guest.kick()
                got, deadline = [], time.monotonic() + 5 * SLOWEST
                while frames.swapped(frame) not in got:
                    got += guest.received()
                    assert time.monotonic() < deadline, f'{i}: {switch.workers()}'
                spin(gaps.uniform(0, 300000))
            after = switch.wait_asleep()
            print(f'{after["sleeps"] - before["sleeps"]} sleeps for {count} frames')
            assert after['sleeps'] - before['sleeps'] > count / 10
            switch.assert_ledger()
            assert not losses(switch.settled('pa'))
    finally:
        echo.kill()
        echo.wait()
        net.close()
    switch.quit()
