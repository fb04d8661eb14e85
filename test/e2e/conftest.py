# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Fixtures: a rig a test, hugepages for a session, and turns taken between runs."""

import os
import tempfile

import pytest

from harness import build
from harness import turn as turns
from harness.hugepages import Hugepages
from harness.rig import Rig

NOBODY = 65534


def pytest_configure(config):
    config.addinivalue_line('markers', 'check: part of the two-minute subset (make check)')
    config.addinivalue_line('markers', 'stock: needs only the stock pieces')


def pytest_collection_modifyitems(items):
    gone = build.missing()
    if not gone:
        return
    for item in items:
        if 'stock' not in item.keywords:
            item.add_marker(pytest.mark.skip(reason=f'{gone} is not there'))


CPU_TIMES = ('user', 'nice', 'system', 'idle', 'iowait', 'irq', 'softirq', 'steal')


def cpu_seconds():
    with open('/proc/stat', encoding='ascii') as f:
        ticks = f.readline().split()[1:]
    return {name: int(n) / os.sysconf('SC_CLK_TCK') for name, n in zip(CPU_TIMES, ticks)}


def machine(before):
    """What the CPUs did during a test: those of a virtual machine may have been elsewhere."""
    with open('/proc/loadavg', encoding='ascii') as f:
        load = f.read().strip()
    spent = ', '.join(f'{name} {n - before[name]:.1f}' for name, n in cpu_seconds().items())
    return f'CPU seconds: {spent}; load {load}'


def pytest_runtest_setup(item):
    item.cpu_before = cpu_seconds()


def pytest_runtest_logstart(nodeid):
    """For whoever runs these tests and ends them when they hang: which one it is."""
    path = os.environ.get('SLUICE_RUNNING')
    if path:
        with open(path, 'w', encoding='utf-8') as running:
            running.write(nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows the whole output of its processes."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        logs = getattr(item, 'rig_logs', None) or getattr(item.getparent(pytest.Module),
                                                          'rig_logs', list)
        for name, text in logs():
            report.sections.append((f'output of {name}', text[-12000:]))
        report.sections.append(('machine', machine(item.cpu_before)))


@pytest.fixture(autouse=True)
def turn():
    """One test run at a time."""
    with turns.taken():
        yield


def _rig(request, user=None):
    bench = Rig(user)
    request.node.rig_logs = bench.logs
    return bench


@pytest.fixture
def rig(request, turn):
    bench = _rig(request)
    yield bench
    bench.close()


@pytest.fixture
def user_rig(request, turn):
    """The same as an ordinary user: nobody when we are root, else ourselves."""
    bench = _rig(request, NOBODY if os.geteuid() == 0 else None)
    yield bench
    bench.close()


@pytest.fixture(scope='session')
def hugepages():
    """A hugetlbfs directory for two processes; skips with the reason where there is none."""
    directory = tempfile.mkdtemp(prefix='sl-huge-', dir='/tmp')
    with Hugepages(640, directory) as pages:
        yield pages


@pytest.fixture
def huge_dir(hugepages):
    if hugepages.reason:
        pytest.skip(hugepages.reason)
    return hugepages.directory
