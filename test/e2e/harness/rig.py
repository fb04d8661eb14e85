# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""One test's bench: a short private directory, its processes, and everything gone afterwards."""

import os
import re
import shutil
import tempfile

from . import frames, pcap
from .switch import Switch
from .testpmd import Testpmd


class Rig:
    def __init__(self, user=None):
        self.dir = tempfile.mkdtemp(prefix='sl-', dir='/tmp')  # socket paths end at 107 bytes
        self.run = os.path.join(self.dir, 'run')
        os.mkdir(self.run)
        self.user = user
        if user is not None:
            os.chown(self.dir, user, user)
            os.chown(self.run, user, user)
        self.processes = []
        self._serial = 0

    def path(self, name):
        return os.path.join(self.dir, name)

    def add(self, make, name, **options):
        """Start a process. Its name is also DPDK's file prefix: unique also in a hugetlbfs that
        several rigs share."""
        self._serial += 1
        unique = f'{name}{self._serial}-{os.path.basename(self.dir)[3:]}'
        options.setdefault('user', self.user)
        process = make(self.run, unique, log_path=self.path(unique + '.log'), ready=False,
                       **options)
        self.processes.append(process)
        return process

    def testpmd(self, name, *, ready=True, **options):
        process = self.add(Testpmd, name, **options)
        if ready:
            process.wait_ready()
        return process

    def switch(self, ports, *, name='switch', ready=True, **options):
        process = self.add(Switch, name, ports=ports, **options)
        if ready:
            process.wait_ready()
        return process

    # --- captures ---------------------------------------------------------------------------

    def capture(self, name, content):
        path = self.path(name)
        pcap.write(path, content)
        if self.user is not None:
            os.chown(path, self.user, self.user)
        return path

    def pcap_vdev(self, number, sources=(), sinks=(), infinite=False):
        """A net_pcap port: one queue a source file and one a sink file."""
        args = [f'net_pcap{number}'] + [f'rx_pcap={p}' for p in sources]
        args += [f'tx_pcap={p}' for p in sinks]
        if infinite:
            args.append('infinite_rx=1')
        return ','.join(args)

    def stream_source(self, number, dst, src, stream, sizes=60, count=64):
        """A net_pcap port that sends one stream without end and drops what it is given."""
        path = self.capture(f'src{number}.pcap', frames.stream(dst, src, stream, count, sizes))
        return self.pcap_vdev(number, [path], infinite=True)

    # --- end --------------------------------------------------------------------------------

    def logs(self):
        def text(process):
            return re.sub(r'(?m)^ *cache_count\[\d+\]=0\n', '', process.output())
        return [(p.name, ' '.join(p.argv) + '\n' + text(p)) for p in self.processes]

    def close(self):
        for process in reversed(self.processes):
            process.close()
        keep = os.environ.get('SLUICE_KEEP')
        if keep:
            shutil.copytree(self.dir, os.path.join(keep, os.path.basename(self.dir)),
                            ignore=lambda d, n: [x for x in n if x == 'run'
                                                 or not x.endswith(('.log', '.pcap'))])
        shutil.rmtree(self.dir, ignore_errors=True)
