# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Fixtures of the tests with guests: what they need, and a rig that a module's tests share."""


import pytest

from harness import turn as turns
from harness.rig import Rig
from machine import initramfs


@pytest.fixture(scope='session', autouse=True)
def guests_can_run():
    """Kernel, QEMU and what goes into a guest; skips with the reason where something is missing."""
    try:
        initramfs.fetch()
        initramfs.archives({})
        initramfs.kernel()
    except initramfs.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope='module', autouse=True)
def turn():
    """As that of all end-to-end tests, for a module as a whole: its guests live as long."""
    with turns.taken():
        yield


@pytest.fixture(scope='module')
def module_rig(request, turn):
    """A rig that lives as long as its module, for a guest that several tests use."""
    bench = Rig()
    request.node.rig_logs = bench.logs  # where the first test does not even begin
    yield bench
    bench.close()


@pytest.fixture(autouse=True)
def logs_of_module(request):
    """A failed test shows the output of what its module shares, too, and of programs in guests."""
    if 'module_rig' not in request.fixturenames:
        return
    bench = request.getfixturevalue('module_rig')
    request.node.rig_logs = lambda: bench.logs() + [
        (program.name, program.output()) for machine in bench.processes
        for program in getattr(machine, 'programs', ())]
