# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A DPDK beside the installed one, as peers/build-dpdk leaves it, and our driver compiled for it."""

import hashlib
import os
import shutil
import subprocess

from harness import build
from harness.proc import tail
from results import Failure

DRIVER = 'drivers/net/sluice/librte_net_sluice.so'


def default_directory():
    """Where build-dpdk builds, and where a bench looks, when no directory is named."""
    cache = os.environ.get('XDG_CACHE_HOME') or os.path.expanduser('~/.cache')
    return os.path.join(cache, 'sluice', 'dpdk')


class Dpdk:
    def __init__(self, directory):
        self.directory = os.path.realpath(directory)
        self.testpmd = os.path.join(self.directory, 'dpdk-testpmd')
        if not os.access(self.testpmd, os.X_OK):
            raise Failure(f'{directory} has no dpdk-testpmd: '
                          f'test/bench/peers/build-dpdk {directory} makes it')
        self.packages = os.path.join(self.directory, 'install', 'lib', 'pkgconfig')
        self.origin = ' native' if self.built_here() else ''
        self._plugin = None

    def built_here(self):
        return os.path.isfile(os.path.join(self.packages, 'libdpdk.pc'))

    def plugin(self):
        """Our driver for this DPDK, made anew from the tree if need be."""
        if self._plugin is None:
            if not self.built_here():
                raise Failure(f'{self.directory} has nothing to compile a driver with: it may be '
                              'a peer (--peer-dpdk), or have build-dpdk build it (no --packages)')
            self._plugin = self._build()
        return self._plugin

    def _build(self):
        with open(os.path.join(self.packages, 'libdpdk.pc'), 'rb') as f:
            key = hashlib.sha256(self.directory.encode() + f.read()).hexdigest()[:8]
        output = os.path.join(build.build_dir(), 'bench', 'driver-' + key)
        if not os.path.exists(os.path.join(output, 'build.ninja')):
            shutil.rmtree(output, ignore_errors=True)  # of a set-up that failed
            self._run('meson', 'setup', output, build.ROOT)
        self._run('ninja', '-C', output, DRIVER)
        return os.path.join(output, DRIVER)

    def _run(self, *command):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, 'PKG_CONFIG_PATH': self.packages})
        if done.returncode != 0:
            raise Failure(f'our driver could not be built for the DPDK in {self.directory}: '
                          f'{" ".join(command)}:\n{tail(done.stdout, 15)}')
