# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Peers that send nonsense to a port of the switch. Each time: the next connection is answered,
the process lives, no descriptor stays behind, and the loop on two other ports loses nothing."""

import os
import random
import struct

import pytest

from harness import vhost_user as vu
from harness.loop import Loop
from harness.proc import fd_count, wait_until


class Victim:
    """The switch with a port to abuse and a closed loop on two others."""

    def __init__(self, rig):
        self.path = rig.path('bad')
        self.switch = rig.switch([f'pa,path={rig.path("a")}', f'pb,path={rig.path("b")}',
                                  f'bad,path={self.path}'])
        self.loop = Loop(rig, self.switch, [rig.path('a'), rig.path('b')])
        self.loop.start()
        with vu.Frontend(self.path) as frontend:
            frontend.features()
        self.fds = self.settled_fds()

    def settled_fds(self):
        """Descriptors once the connection before has been noticed to be gone."""
        seen = []

        def stable():
            seen.append(fd_count(self.switch.pid))
            return len(seen) > 5 and len(set(seen[-5:])) == 1
        wait_until(stable, 10, 'number of descriptors comes to rest')
        return seen[-1]

    def assert_well(self):
        with vu.Frontend(self.path) as frontend:
            frontend.features()
        assert self.switch.alive
        wait_until(lambda: fd_count(self.switch.pid) <= self.fds, 10,
                   lambda: f'{fd_count(self.switch.pid)} descriptors, {self.fds} before')
        self.loop.assert_undisturbed()


@pytest.fixture
def victim(rig):
    v = Victim(rig)
    yield v
    if v.switch.alive and v.loop.testpmd.alive:
        v.loop.stop()
        v.switch.assert_ledger()
        v.switch.quit()


def memory_table(count, regions=(), fd_count_said=None):
    body = struct.pack('<II', count if fd_count_said is None else fd_count_said, 0)
    for gpa, size, hva, offset in regions:
        body += struct.pack('<QQQQ', gpa, size, hva, offset)
    return body


NONSENSE = {
    'zeroes': b'\0' * 64,
    'ones': b'\xff' * 512,
    'text': b'GET / HTTP/1.0\r\n\r\n',
    'version 0': vu.message(vu.GET_FEATURES, flags=0),
    'version 3': vu.message(vu.GET_FEATURES, flags=3),
    'size over the limit': vu.message(vu.SET_FEATURES, b'', size=0x7fffffff),
    'size of 64 KiB': vu.message(vu.SET_FEATURES, b'x' * 65536),
    'size too small': vu.message(vu.SET_FEATURES, b'1234'),
    'size too large': vu.message(vu.SET_FEATURES, b'1' * 24),
    'request 0': vu.message(0),
    'request 200': vu.message(200, vu.u64(1), flags=vu.VERSION | vu.NEED_REPLY),
    'request 0xffffffff': vu.message(0xffffffff),
    'a reply nobody asked for': vu.message(vu.GET_FEATURES, vu.u64(0), flags=vu.VERSION | vu.REPLY),
    'features never offered': vu.message(vu.SET_FEATURES, vu.u64(0xffffffffffffffff)),
    'protocol features never offered':
        vu.message(vu.SET_PROTOCOL_FEATURES, vu.u64(0xffffffffffffffff)),
    'ring index 0x10000': vu.message(vu.SET_VRING_NUM, vu.vring(0x10000, 256)),
    'ring index 4096': vu.message(vu.SET_VRING_BASE, vu.vring(4096, 0)),
    'ring size 0': vu.message(vu.SET_VRING_NUM, vu.vring(0, 0)),
    'ring size 3': vu.message(vu.SET_VRING_NUM, vu.vring(0, 3)),
    'ring size 65536': vu.message(vu.SET_VRING_NUM, vu.vring(0, 65536)),
    'ring base 65536': vu.message(vu.SET_VRING_BASE, vu.vring(0, 65536)),
    'base of a ring that never ran': vu.message(vu.GET_VRING_BASE, vu.vring(0, 0)),
    'enable 2': vu.message(vu.SET_VRING_ENABLE, vu.vring(0, 2)),
    'enable of ring 999': vu.message(vu.SET_VRING_ENABLE, vu.vring(999, 1)),
    'addresses without memory': vu.message(
        vu.SET_VRING_ADDR, struct.pack('<IIQQQQ', 0, 0, 0x1000, 0x2000, 0x3000, 0)),
    'kick with no descriptor': vu.message(vu.SET_VRING_KICK, vu.u64(0)),
    'kick of ring 255': vu.message(vu.SET_VRING_KICK, vu.u64(0xff)),
    'memory table of no region': vu.message(vu.SET_MEM_TABLE, memory_table(0)),
    'memory table of 1000 regions': vu.message(vu.SET_MEM_TABLE, memory_table(1000)),
    'memory table without descriptors': vu.message(
        vu.SET_MEM_TABLE, memory_table(1, [(0, 4096, 4096, 0)])),
    'memory table cut': vu.message(vu.SET_MEM_TABLE, memory_table(8, [(0, 4096, 4096, 0)])),
}


@pytest.mark.check
def test_nonsense(victim):
    """Each piece on its own connection; the connection may live or not, the switch does."""
    for what, data in NONSENSE.items():
        print(what)
        with vu.Frontend(victim.path) as frontend:
            frontend.send(data)
        with vu.Frontend(victim.path) as frontend:
            frontend.features()
    victim.assert_well()


@pytest.mark.check
def test_half_a_message_holds_up_nobody(victim):
    """A peer that says half and then nothing: the others go on meanwhile, and its end is noticed."""
    whole = vu.message(vu.SET_FEATURES, vu.u64(vu.F_VERSION_1))
    for cut in (1, 11, 12, 15):
        with vu.Frontend(victim.path) as frontend:
            frontend.send(whole[:cut])
            victim.loop.assert_undisturbed()
            assert victim.switch.telemetry.ask('/sluice/ports')
    victim.assert_well()


def test_a_message_byte_by_byte_is_a_message(victim):
    with vu.Frontend(victim.path) as frontend:
        for byte in vu.message(vu.GET_FEATURES):
            frontend.send(bytes([byte]))
        answer = frontend.reply()
        assert answer and answer[0] == vu.GET_FEATURES and len(answer[1]) == 8
    victim.assert_well()


def regular_files(rig, count):
    fds = []
    for i in range(count):
        fds.append(os.open(rig.path(f'f{i}'), os.O_CREAT | os.O_RDWR))
    return fds


@pytest.mark.parametrize('count', [1, 2, 8, 9, 64, 253])
def test_descriptors_that_should_not_be_there(rig, victim, count):
    fds = regular_files(rig, count)
    try:
        for request in (vu.GET_FEATURES, vu.SET_FEATURES, vu.SET_MEM_TABLE, vu.SET_VRING_CALL,
                        vu.SET_VRING_ENABLE, 77):
            with vu.Frontend(victim.path) as frontend:
                frontend.send(vu.message(request, vu.u64(0)), fds)
    finally:
        for fd in fds:
            os.close(fd)
    victim.assert_well()


REGIONS = {
    'size 0': [(0, 0, 0x1000, 0)],
    'guest address wraps': [(0xfffffffffffff000, 0x2000, 0x1000, 0)],
    'user address wraps': [(0, 0x2000, 0xfffffffffffff000, 0)],
    'offset beyond the file': [(0, 0x1000, 0x1000, 0x7ffffffff000)],
    'size beyond the file': [(0, 0x7ffffffff000, 0x1000, 0)],
    'offset and size wrap': [(0, 0x1000, 0x1000, 0xfffffffffffff000)],
    'overlap': [(0, 0x2000, 0x1000, 0), (0x1000, 0x2000, 0x2000, 0)],
    'the same twice': [(0, 0x1000, 0x1000, 0), (0, 0x1000, 0x1000, 0)],
}


def test_memory_tables_that_lie(rig, victim):
    for what, regions in REGIONS.items():
        print(what)
        fds = regular_files(rig, len(regions))
        for fd in fds:
            os.ftruncate(fd, 0x4000)
        with vu.Frontend(victim.path) as frontend:
            frontend.send(vu.message(vu.SET_MEM_TABLE, memory_table(len(regions), regions)), fds)
        for fd in fds:
            os.close(fd)
        with vu.Frontend(victim.path) as frontend:
            frontend.features()
    victim.assert_well()


def test_a_thousand_connections(victim):
    """Connect, say something or nothing, go."""
    for i in range(1000):
        with vu.Frontend(victim.path) as frontend:
            if i % 3:
                frontend.send(vu.message(vu.GET_FEATURES))
    victim.assert_well()


def test_messages_in_any_order(victim):
    """Well-formed messages, shuffled by a fixed seed."""
    rng = random.Random(2)
    requests = [
        lambda: vu.message(vu.GET_FEATURES), lambda: vu.message(vu.SET_OWNER),
        lambda: vu.message(vu.SET_FEATURES, vu.u64(rng.getrandbits(64))),
        lambda: vu.message(vu.SET_VRING_NUM, vu.vring(rng.randrange(4), 1 << rng.randrange(16))),
        lambda: vu.message(vu.SET_VRING_BASE, vu.vring(rng.randrange(4), rng.getrandbits(16))),
        lambda: vu.message(vu.SET_VRING_ENABLE, vu.vring(rng.randrange(4), rng.randrange(2))),
        lambda: vu.message(vu.GET_VRING_BASE, vu.vring(rng.randrange(4), 0)),
        lambda: vu.message(vu.SET_VRING_ADDR, struct.pack(
            '<IIQQQQ', rng.randrange(4), 0, *(rng.getrandbits(40) & ~63 for _ in range(4)))),
        lambda: vu.message(vu.SET_VRING_CALL, vu.u64(rng.randrange(4) | 1 << 8)),
        lambda: vu.message(vu.SET_VRING_KICK, vu.u64(rng.randrange(4) | 1 << 8)),
        lambda: vu.message(rng.randrange(vu.MAX_KNOWN), bytes(8), vu.VERSION | vu.NEED_REPLY),
    ]
    for _ in range(300):
        with vu.Frontend(victim.path) as frontend:
            for _ in range(rng.randrange(1, 20)):
                if not frontend.send(rng.choice(requests)()):
                    break
    victim.assert_well()


def test_a_peer_that_never_reads_its_replies(victim):
    """Ten thousand questions and not one answer read."""
    with vu.Frontend(victim.path, timeout=2) as frontend:
        try:
            for _ in range(10000):
                if not frontend.send(vu.message(vu.GET_FEATURES)):
                    break
        except TimeoutError:
            pass  # the backend stopped reading: that is a bound too
        victim.loop.assert_undisturbed()
    victim.assert_well()
