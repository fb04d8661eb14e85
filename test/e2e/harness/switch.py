# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""sluice-vswitch: started, read through telemetry, ended with its ledger checked."""

import json
import os
import re
import signal

from . import build
from .proc import Proc, wait_until
from .telemetry import Telemetry, socket_path


def difference(counters):
    """Signed remainder of one port's ledger: taken + replicas - delivered - dropped."""
    dropped = sum(v for k, v in counters.items() if k.startswith('drop_'))
    return counters['rx_packets'] + counters['replicas'] - counters['delivered'] - dropped


def losses(counters):
    """The non-zero drop counters of a port, both directions."""
    return {k: v for k, v in counters.items() if re.match(r'(to)?drop_', k) and v}


def arguments(*, prefix, ports, cpu=0, lcores=None, mem=96, huge_dir=None, vdevs=(), report=None,
              options=(), eal=()):
    argv = [build.vswitch(), '--lcores', lcores or f'0@{cpu},1@{cpu}', '--no-pci', '-m', str(mem),
            '--file-prefix=' + prefix, '--single-file-segments']
    argv += ['--huge-dir', huge_dir] if huge_dir else ['--no-huge']
    for vdev in vdevs:
        argv += ['--vdev', vdev]
    argv += [*eal, '--']
    for port in ports:
        argv += ['--port', port]
    if report:
        argv += ['--report', report]
    return argv + list(options)


class Switch(Proc):
    def __init__(self, runtime_dir, name, *, log_path=None, user=None, ready=True, wrap=(),
                 env=None, report=None, **options):
        self.runtime_dir = runtime_dir
        self.report_path = report
        self._telemetry = None
        cpus = {int(c) for c in re.findall(r'@(\d+)', options.get('lcores') or '')}
        super().__init__([*wrap, *arguments(prefix=name, report=report, **options)], name,
                         env={'RUNTIME_DIRECTORY': runtime_dir, **(env or {})},
                         cpu=cpus or options.get('cpu', 0), user=user, log_path=log_path)
        if ready:
            self.wait_ready()

    def wait_ready(self, timeout=30):
        self.expect(r'^sluice-vswitch: ready$', timeout)

    @property
    def telemetry(self):
        if self._telemetry is None:
            self._telemetry = Telemetry(socket_path(self.runtime_dir, self.name))
        return self._telemetry

    def _drop_telemetry(self):
        if self._telemetry:
            self._telemetry.close()
            self._telemetry = None

    # --- what it counts ---------------------------------------------------------------------

    def port_names(self):
        ports = self.telemetry.ask('/sluice/ports')
        return list(ports)

    def counters(self, port):
        return self.telemetry.ask(f'/sluice/port,{port}')

    def workers(self):
        """What each worker did, by number."""
        return list(self.telemetry.ask('/sluice/workers').values())

    def end_turns(self):
        """Wait until each worker has ended the turn that it is in: what a guest saw happen before
        is counted. It counts behind what it does, and may lose its CPU in between."""
        begun = self.workers()

        def ended():
            return all(now['turns'] > was['turns'] or now['sleeps'] > now['wakes']
                       for was, now in zip(begun, self.workers()))
        wait_until(ended, 10, lambda: f'{self.name}: workers end a turn: {begun}, then '
                   f'{self.workers()}', interval=0.001)

    def settled(self, port):
        """Counters of a port in which all is that anybody has seen happen."""
        self.end_turns()
        return self.counters(port)

    def wait_learned(self, places, timeout=10):
        """{address: port}. Workers tell of addresses, another thread learns them: until then frames
        for them are flooded."""
        def there():
            said = self.telemetry.ask('/sluice/fdb,0')['entries']
            return {line.rsplit(' ', 1)[0] for line in said}
        want = {f'{mac} {port}' for mac, port in places.items()}
        wait_until(lambda: want <= there(), timeout,
                   lambda: f'{self.name}: learned {there()}, not all of {want}')

    def wait_asleep(self, worker=0, timeout=10):
        """Wait until a worker sleeps; what it did until then."""
        def asleep():
            did = self.workers()[worker]
            return did if did['sleeps'] > did['wakes'] else None
        return wait_until(asleep, timeout, lambda: f'{self.name}: worker {worker} does not sleep: '
                          f'{self.workers()[worker]}')

    def wait_counter(self, port, key, at_least, timeout=20):
        wait_until(lambda: self.counters(port)[key] >= at_least, timeout,
                   lambda: f'{self.name}: port {port}: {key} {self.counters(port)[key]} '
                   f'of {at_least}')

    def wait_up(self, port, count=1, timeout=20):
        """Wait for the `count`-th "up" line of a port; return its features."""
        pattern = re.compile(rf'port {re.escape(port)}: up, features (0x[0-9a-f]+)')
        wait_until(lambda: len(pattern.findall(self.output())) >= count, timeout,
                   lambda: f'{self.name}: port {port} up {count} times; its log:\n'
                   + self.output()[-2000:])
        return int(pattern.findall(self.output())[-1], 16)

    def assert_ledger(self, *, quiet_timeout=5):
        """With traffic stopped: every port and the sum add up exactly. Returns the counters.

        A look in mid-turn is given time to settle.
        """
        self.end_turns()
        state = {}

        def settled():
            state.clear()
            state.update({p: self.counters(p) for p in self.port_names()})
            out = sum(c['delivered'] for c in state.values())
            into = sum(c['tx_packets'] for c in state.values())
            return all(difference(c) == 0 for c in state.values()) and out == into

        def explain():
            return 'ledger does not add up:\n' + '\n'.join(
                f'  {p}: difference {difference(c):+d}: {c}' for p, c in state.items())
        wait_until(settled, quiet_timeout, explain)
        total = {k: sum(c[k] for c in state.values()) for k in
                 ('rx_packets', 'replicas', 'delivered', 'tx_packets')}
        print(f'{self.name}: ledger adds up: {total}, '
              f'losses { {p: losses(c) for p, c in state.items() if losses(c)} }')
        return state

    # --- end --------------------------------------------------------------------------------

    def quit(self, number=signal.SIGTERM, timeout=20):
        """Clean exit; returns the report when one was asked for."""
        self._drop_telemetry()
        self.signal(number)
        code = self.wait(timeout)
        assert code == 0, f'{self.name}: exit {code}; its last output:\n{self.output()[-2000:]}'
        if self.report_path and os.path.exists(self.report_path):
            with open(self.report_path, encoding='utf-8') as f:
                return json.load(f)
        return None

    def close(self, grace=5):
        self._drop_telemetry()
        super().close(grace)

    def kill9(self):
        self._drop_telemetry()
        return super().kill9()
