# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A switch that may have no more descriptors says so, at its start and when a guest brings some."""

import os
import resource
import struct

import pytest

from harness import vhost_user as vu
from harness.proc import fd_count

pytestmark = pytest.mark.check


def test_a_guest_that_goes_before_it_was_up(rig):
    """For want of a descriptor, and for other reasons: each is told; the next one is answered."""
    path = rig.path('s')
    switch = rig.switch([f'pa,path={path}'], mem=64)
    gone = r'port pa: a guest went before it was up: '
    with vu.Frontend(path) as frontend:
        frontend.features()
        limits = resource.prlimit(switch.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(switch.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        memory = os.memfd_create('memory')
        os.ftruncate(memory, 4096)
        frontend.send(vu.message(vu.SET_MEM_TABLE, struct.pack('<IIQQQQ', 1, 0, 0, 4096, 0, 0)),
                      [memory])
        os.close(memory)
        assert frontend.closed()
    switch.expect(gone + r'.*ulimit -n')
    resource.prlimit(switch.pid, resource.RLIMIT_NOFILE, limits)
    with vu.Frontend(path) as frontend:
        frontend.features()
    switch.expect(gone + 'the frontend closed the connection')
    assert switch.output().count('went before') == 2
    switch.quit()


def test_a_start_without_descriptors(rig):
    """Wherever they run out: one line of ours, that says so."""
    options = {'mem': 64, 'options': ['--idle', 'sleep']}
    switch = rig.switch([f'pa,path={rig.path("s")}'], **options)
    needed = fd_count(switch.pid)
    switch.quit()
    for fewer in range(1, 20):
        switch = rig.switch([f'pa,path={rig.path("s")}'], ready=False, name=f'switch{fewer}-',
                            wrap=['prlimit', f'--nofile={needed - fewer}'], **options)
        assert switch.wait(30) > 0
        line, = (line for line in switch.output().splitlines()
                 if line.startswith('sluice-vswitch: '))
        assert 'Too many open files' in line and 'ulimit -n' in line
        # Before them are EAL's own.
        if 'a worker cannot be made' in line:
            return
    pytest.fail('a worker was never in want of any')
