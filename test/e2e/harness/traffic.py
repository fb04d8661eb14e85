# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""sluice-traffic: started, waited for, and its results read."""

import json
import os

from . import build
from .proc import Proc
from .telemetry import Telemetry, socket_path


def program():
    return os.path.join(build.build_dir(), 'test/bench/traffic/sluice-traffic')


def arguments(*, prefix, options, vdevs=(), cpu=1, lcores=None, plugin=False, mem=128,
              huge_dir=None, eal=()):
    argv = [program(), '--lcores', lcores or f'0@{cpu},1@{cpu}', '--no-pci', '-m', str(mem),
            '--file-prefix=' + prefix, '--single-file-segments']
    argv += ['--huge-dir', huge_dir] if huge_dir else ['--no-huge']
    if plugin:
        argv += ['-d', build.plugin_option()[0]]
    for vdev in vdevs:
        argv += ['--vdev', vdev]
    return [*argv, *eal, '--', *options]


class Traffic(Proc):
    """`options`: of the program, as one string."""

    def __init__(self, runtime_dir, name, *, options, log_path=None, user=None, ready=True,
                 json_file=True, env=None, **more):
        del ready
        self._json = os.path.join(runtime_dir, name + '.json') if json_file else None
        self._socket = socket_path(runtime_dir, name)
        words = options.split() + (['--json', self._json] if json_file else [])
        if '--link' not in words:
            words += ['--link', '60']
        loader_env = build.plugin_option()[1] if more.get('plugin') else {}
        super().__init__(arguments(prefix=name, options=words, **more), name,
                         env={'RUNTIME_DIRECTORY': runtime_dir, **loader_env, **(env or {})},
                         cpu=more.get('cpu', 1) if not more.get('lcores') else None, user=user,
                         log_path=log_path)

    def stats(self, port=0):
        telemetry = Telemetry(self._socket)
        try:
            return telemetry.ask(f'/ethdev/stats,{port}')
        finally:
            telemetry.close()

    def result(self, timeout=40):
        """Wait for its end; what it wrote. Its own equations hold, or it says so."""
        code = self.wait(timeout)
        assert code == 0, f'{self.name}: exit {code}; its output:\n{self.output()[-3000:]}'
        with open(self._json, encoding='utf-8') as f:
            result = json.load(f)
        assert result['bench'] == 'traffic' and result['checks']
        for check in result['checks']:
            assert check['left'] == check['right'], check
        return result
