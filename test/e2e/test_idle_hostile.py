# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Who keeps a worker from its sleep, or pulls memory away under it: descriptors to be kicked by
that are none, kicks without end, faults on the way to sleep and out of it. The neighbours lose
nothing."""

import contextlib
import ctypes
import os
import re
import resource
import select
import threading

import pytest

from harness import frames
from harness import vhost_user as vu
from harness.guest import ENTRIES, PAGE, RX, TX, Guest
from harness.proc import wait_until
from harness.switch import losses

A, B, BAD = '02:51:00:00:00:0a', '02:51:00:00:00:0b', '02:51:00:00:00:bd'
FULL = (1 << 64) - 2
POLLS = r'port bad: no kick descriptor to sleep on: .*: its worker polls'


class Trio:
    """Two good guests, and a place for a bad one. They share a worker."""

    def __init__(self, rig, workers=1, options=('--idle-usecs', '500')):
        self.rig = rig
        self.switch = rig.switch([f'{p},path={rig.path(p)}' for p in ('pa', 'pb', 'bad')],
                                 lcores=','.join(f'{i}@0' for i in range(workers + 1)),
                                 options=['--idle', 'sleep', *options])
        self.a = Guest(rig.path('pa'), kicks=True, calls=True, protocol=vu.PROTOCOL_F_MTU)
        self.b = Guest(rig.path('pb'), kicks=True)
        for port in ('pa', 'pb'):
            self.switch.wait_up(port)
        self.serial = 0

    def bad(self, count=1, make=Guest, **more):
        guest = make(self.rig.path('bad'), **more)
        self.switch.wait_up('bad', count)
        return guest

    def exchange(self, count=20):
        """Frames from a to b, each of them after the worker may have fallen asleep."""
        for i in range(count):
            frame = frames.frame(B, A, 1, self.serial, 200)
            self.a.send(frame, i % 8)
            self.a.kick()
            assert frame in self.b.wait_received(1)
            self.serial += 1

    def introduce(self, bad):
        """Everybody is learned, so that nothing more is flooded."""
        for guest, mac in ((self.a, A), (self.b, B), (bad, BAD)):
            guest.send(frames.frame(frames.BROADCAST, mac, 9, 0, 60))
            if guest.kicks:
                guest.kick()
        for guest in (self.a, self.b, bad):
            guest.wait_received(2)
        self.switch.wait_learned({A: 'pa', B: 'pb', BAD: 'bad'})

    def end(self):
        """Once the bad one is gone the worker sleeps, and the neighbours have lost nothing."""
        self.exchange()
        self.switch.wait_asleep()
        ledger = self.switch.assert_ledger()
        assert not losses(ledger['pb'])
        to_bad = sum(n for k, n in losses(ledger['bad']).items() if k.startswith('todrop_'))
        assert sum(losses(ledger['pa']).values()) <= to_bad
        self.switch.quit()


def semaphore():
    """Each read takes one of as many as there can be."""
    fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_SEMAPHORE)
    os.eventfd_write(fd, FULL)
    return fd


def blocking():
    return os.eventfd(0)


def epoll():
    """Always readable, for it looks at something that is."""
    outer, inner = select.epoll(), os.eventfd(1)
    outer.register(inner, select.EPOLLIN)
    return os.dup(outer.fileno())


def inotify():
    """Readable for good: a read of eight bytes is too short for an event."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK)
    with open('/proc/self/comm', encoding='ascii') as f:
        assert libc.inotify_add_watch(fd, f'/proc/self/fd/{f.fileno()}'.encode(), 0x20) >= 0
    with open('/proc/self/comm', encoding='ascii'):
        pass
    return fd


def test_kicks_without_end(rig):
    trio = Trio(rig)
    before = trio.switch.wait_asleep()
    with trio.bad(kick_fds=[semaphore(), semaphore()]) as bad:
        trio.introduce(bad)
        trio.exchange()
        wait_until(lambda: trio.switch.workers()[0]['spurious_wakes']
                   > before['spurious_wakes'] + 10, 10, 'its kicks are seen to be spurious')
        trio.exchange()
    trio.end()


def test_a_flood_of_kicks(rig):
    trio = Trio(rig, options=['--idle-usecs', '0'])
    stop = threading.Event()
    with trio.bad(kicks=True) as bad:
        trio.introduce(bad)

        def flood():
            while not stop.is_set():
                for fd in bad.kicks:
                    os.eventfd_write(fd, 1)
        thread = threading.Thread(target=flood)
        thread.start()
        try:
            trio.exchange(50)
        finally:
            stop.set()
            thread.join()
    trio.end()


def test_a_kick_descriptor_that_blocks(rig):
    """Nobody waits in a read of it, be it empty or not."""
    trio = Trio(rig)
    with trio.bad(kick_fds=[blocking(), blocking()]) as bad:
        trio.introduce(bad)
        for fd in bad.kicks:
            os.set_blocking(fd, True)
        for i in range(20):
            trio.exchange(1)
            trio.switch.wait_asleep()
            os.eventfd_write(bad.kicks[TX], 1)
            os.eventfd_write(bad.kicks[RX], 1)
            frame = frames.frame(B, BAD, 2, i, 60)
            bad.send(frame)
            bad.kick()
            assert trio.b.wait_received(1) == [frame]
    trio.end()


def test_no_kick_descriptor(rig):
    """Then its worker polls for it, until it goes. It is told once, however often one comes."""
    trio = Trio(rig)
    for i in range(3):
        trio.switch.wait_asleep()
        with trio.bad(1 + i) as bad:
            frame = frames.frame(frames.BROADCAST, BAD, 2, i, 60)
            for _ in range(3):
                bad.send(frame)
                assert trio.b.wait_received(1) == trio.a.wait_received(1) == [frame]
            turns = trio.switch.workers()[0]['turns']
            wait_until(lambda past=turns: trio.switch.workers()[0]['turns'] > past, 10, 'a turn')
            trio.exchange(5)
    assert len(re.findall(POLLS, trio.switch.output())) == 1
    trio.end()


@pytest.mark.parametrize('make', [epoll, inotify])
def test_a_kick_descriptor_that_is_no_eventfd(rig, make):
    """It is not waited for: who knows what answers, or does not, when it is asked. A guest with a
    file system of its own could stop whoever asks."""
    trio = Trio(rig)
    trio.switch.wait_asleep()
    with trio.bad(kick_fds=[make(), make()]) as bad:
        trio.switch.expect(POLLS)
        trio.introduce(bad)
        trio.exchange()
    trio.end()


def test_kick_descriptors_that_are_refused(rig):
    """What is no event at all does not even start a ring, and the worker sleeps."""
    trio = Trio(rig)
    for make in (lambda: os.pipe()[0], lambda: os.memfd_create('file'),
                 lambda: os.open('/dev/zero', os.O_RDONLY)):
        before = trio.switch.output().count('SET_VRING_KICK')
        with Guest(rig.path('bad'), kick_fds=[make(), make()]):
            wait_until(lambda past=before: trio.switch.output().count('SET_VRING_KICK') > past,
                       10, 'it is refused')
            trio.exchange(5)
            trio.switch.wait_asleep()
    trio.end()


def test_a_ring_breaks_while_its_worker_sleeps(rig):
    """The kick leads to an index that leaps. The worker sleeps again, and does not hear of it."""
    trio = Trio(rig)
    with trio.bad(kicks=True) as bad:
        trio.switch.wait_asleep()
        bad.offer(TX, 0, by=ENTRIES + 1)
        bad.kick()
        trio.switch.expect(r'port bad: ring 1 is broken')
        trio.switch.wait_asleep()
        trio.exchange()
    trio.end()


@pytest.mark.parametrize('workers', [1, 2])
def test_memory_goes_while_its_worker_sleeps(rig, workers):
    """Awake for somebody else, it takes back what it asked of the bad one, and faults."""
    trio = Trio(rig, workers)
    bad = trio.bad(kicks=True)
    trio.introduce(bad)
    for i in range(workers):
        trio.switch.wait_asleep(i)
    bad.truncate(0)
    os.eventfd_write(bad.kicks[TX], 1)
    trio.switch.expect(r'port bad: down: .*SIGBUS')
    assert bad.frontend.closed()
    bad.close()
    assert sum(w['faults'] for w in trio.switch.workers()) == 1
    trio.exchange()
    with trio.bad(2, kicks=True) as again:
        frame = frames.frame(B, BAD, 2, 0, 60)
        again.send(frame)
        again.kick()
        assert frame in trio.b.wait_received(1)
    trio.end()


class Split(Guest):
    """The used rings are in pages by themselves, behind everything else."""

    def _used(self):
        return self.size - 2 * PAGE


def test_memory_goes_before_its_worker_sleeps(rig):
    """Polling reads the available ring only: the fault is in asking to be woken. Other rings have
    been asked already, and are not left so."""
    trio = Trio(rig, options=['--idle-usecs', '1000000'])
    with contextlib.closing(trio.bad(make=Split, kicks=True)) as bad:
        # Awake, by a frame of the neighbours, and that for a while.
        trio.exchange(1)
        bad.truncate(bad.size - 2 * PAGE)
        awake = trio.switch.workers()[0]
        assert awake['sleeps'] == awake['wakes'] and awake['faults'] == 0
        trio.switch.expect(r'port bad: down: .*SIGBUS')
    assert trio.switch.workers()[0]['faults'] == 1
    # Awake once more: no kick is asked for but by who is about to sleep.
    trio.exchange(1)
    kicked, before = trio.a.kicked[TX], trio.switch.workers()[0]
    trio.exchange()
    slept = trio.switch.workers()[0]['sleeps'] - before['sleeps']
    assert trio.a.kicked[TX] - kicked <= 2 * slept
    trio.end()


def test_a_held_back_call_that_blocks(rig):
    """It is made on the way to sleep: the worker is got out of it, and sleeps after all."""
    trio = Trio(rig, options=['--idle-usecs', '1000', '--coalesce',
                              'static,frames=1000,usecs=100000'])
    bad = trio.bad(kicks=True, calls=True)
    trio.introduce(bad)
    trio.switch.wait_asleep()
    bad.called(RX)
    os.eventfd_write(bad.calls[RX], FULL)
    os.set_blocking(bad.calls[RX], True)
    trio.a.send(frames.frame(BAD, A, 3, 0, 100))
    trio.a.kick()
    trio.switch.expect(r'port bad: down: its call descriptor blocks')
    bad.close()
    trio.end()


def test_no_descriptor_to_sleep_on(rig):
    """A worker that cannot make the set it needs polls, and says so; later it sleeps again."""
    trio = Trio(rig)
    trio.switch.wait_asleep()
    limits = resource.prlimit(trio.switch.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(trio.switch.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    # Another view, for which the control thread needs no descriptor itself.
    trio.a.frontend.send(vu.message(vu.NET_SET_MTU, vu.u64(1400)))
    trio.switch.expect('worker 0 polls, its queues cannot be waited for: Too many open files')
    trio.exchange()
    resource.prlimit(trio.switch.pid, resource.RLIMIT_NOFILE, limits)
    trio.a.frontend.send(vu.message(vu.NET_SET_MTU, vu.u64(1500)))
    trio.end()
