# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Data-path threads make no system call and no allocation, over at least a million packets and
ten seconds: counted by strace on those threads alone, and by a preloaded allocator."""

import re
import shutil
import struct
import time

import pytest

from harness.loop import Loop
from harness.proc import Proc, threads, wait_until
from harness.shim import compile_shared

PACKETS = 1_000_000
SECONDS = 10


def workers(process):
    """Ids of the lcore threads but the main one."""
    found = [tid for tid, name in threads(process.pid).items()
             if re.match(r'(lcore-worker|rte-worker|lcore-slave|dpdk-worker)', name)]
    assert found, f'{process.name} has no worker among {threads(process.pid)}'
    return found


def run_for_a_while(loop):
    """Ten seconds and a million packets in each direction of the loop, whichever takes longer."""
    starts = [loop.testpmd.stats(p)['ipackets'] for p in (0, 1)]
    begin = time.monotonic()
    wait_until(lambda: time.monotonic() - begin >= SECONDS and all(
        loop.testpmd.stats(p)['ipackets'] - starts[p] >= PACKETS for p in (0, 1)), 120,
        'a million packets', interval=0.2)
    return sum(loop.testpmd.stats(p)['ipackets'] - starts[p] for p in (0, 1))


def new_loop(rig, switch_env=None, guest_env=None):
    switch = rig.switch([f'pa,path={rig.path("a")}', f'pb,path={rig.path("b")}'], env=switch_env)
    loop = Loop(rig, switch, [rig.path('a'), rig.path('b')], env=guest_env)
    loop.start()
    return loop, switch


class AllocationCounts:
    SLOT = struct.Struct('<QQ')

    def __init__(self, rig, name):
        self._path = rig.path(name)
        with open(self._path, 'wb') as f:
            f.write(bytes(self.SLOT.size * 128))
        self.env = {'LD_PRELOAD': compile_shared('alloc_count.c', rig.dir),
                    'ALLOC_COUNT': self._path}

    def read(self):
        with open(self._path, 'rb') as f:
            return dict(s for s in self.SLOT.iter_unpack(f.read()) if s[0])


class SystemCalls:
    """Those of the workers of some processes, as strace tells of these threads alone."""

    def __init__(self, rig, processes):
        self._path = rig.path('strace')
        self.tids = {tid: p.name for p in processes for tid in workers(p)}
        self._trace = Proc(['strace', '-o', self._path,
                            *(x for tid in self.tids for x in ('-p', tid))], 'strace')
        rig.processes.append(self._trace)
        for tid in self.tids:
            self._trace.expect(rf'Process {tid} attached')

    def end(self):
        self._trace.signal(2)
        self._trace.wait(10)
        with open(self._path, encoding='ascii') as f:
            return [line for line in f if '(' in line and 'detached' not in line
                    and 'restart_syscall' not in line]


def test_no_system_calls_and_no_allocations(rig):
    counts = AllocationCounts(rig, 'switch.counts'), AllocationCounts(rig, 'guest.counts')
    loop, switch = new_loop(rig, counts[0].env, counts[1].env)
    # The counter itself is alive: these processes allocated when they started.
    assert all(sum(c.read().values()) > 100 for c in counts)
    traced = SystemCalls(rig, (switch, loop.testpmd)) if shutil.which('strace') else None
    before = [c.read() for c in counts]
    moved = run_for_a_while(loop)
    for count, was, process in zip(counts, before, (switch, loop.testpmd)):
        now = count.read()
        for tid in workers(process):
            made = now.get(tid, 0) - was.get(tid, 0)
            print(f'{process.name} thread {tid}: {made} allocator calls, {moved} packets')
            assert made == 0
    if traced:
        calls = traced.end()
        print(f'{moved} packets, {len(calls)} system calls by {traced.tids}')
        assert calls == []
    loop.assert_undisturbed()
    loop.stop()
    switch.assert_ledger()
    if not traced:
        pytest.skip('no allocation; strace, to count system calls, is not installed')


@pytest.mark.check
@pytest.mark.stock
def test_the_allocation_counter_counts(rig):
    counts = AllocationCounts(rig, 'counts')
    child = Proc(['/usr/bin/python3', '-c', 'import json; json.dumps(list(range(99)))'], 'child',
                 env=counts.env)
    assert child.wait() == 0
    assert sum(counts.read().values()) > 100
