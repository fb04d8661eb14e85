# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A network namespace of the host, in which a switch's tap lives; and what is captured there."""

import collections
import os
import shutil
import subprocess
import sys

from harness.proc import SLOWEST, Proc, ProcError

HERE = os.path.dirname(__file__)
PROTOCOLS = ('ip', 'tcp', 'udp', 'icmp')
STATUS = {'0': 'bad', '1': 'good', '2': 'unverified', '3': 'absent'}


def why_not():
    """Why there can be no namespace with a tap here, or None."""
    for program in ('ip', 'unshare', 'nsenter', 'tshark', 'busybox'):
        if not shutil.which(program):
            return f'{program} is not installed: run make deps'
    if not os.path.exists('/dev/net/tun'):
        return 'no /dev/net/tun'
    done = subprocess.run([*_unshare(), 'ip', 'tuntap', 'add', 'sltry', 'mode', 'tap'], text=True,
                          check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        return f'root or user namespaces needed: {done.stdout.strip()}'
    return None


def _unshare():
    return ['unshare', '--net'] + ([] if os.geteuid() == 0 else ['--user', '--map-root-user'])


class Namespace:
    """Lives as long as its holder, a process of the rig."""

    def __init__(self, rig, name='netns'):
        self.rig = rig
        holder = rig.add(_Holder, name, argv=[*_unshare(), 'sh', '-c', 'echo held; exec cat'])
        holder.expect('^held$', 10)
        # unshare became the shell and the shell became cat: the same process.
        self.wrap = ['nsenter', '--target', str(holder.pid), '--net']
        if os.geteuid() != 0:
            self.wrap += ['--user', '--preserve-credentials']
        self.run('ip link set lo up')

    def run(self, command, timeout=30, text=''):
        """Run a command, split at spaces, that has to succeed; what it wrote. `text`: its input."""
        status, said = self.status(command, timeout, text)
        if status:
            raise ProcError(f'{command}: exit status {status}: {said}')
        return said

    def status(self, command, timeout=30, text=''):
        done = subprocess.run([*self.wrap, *command.split()], check=False,
                              timeout=SLOWEST * timeout,
                              input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        return done.returncode, done.stdout

    def start(self, command, name):
        """Start a process of the rig in it."""
        return self.rig.add(_Holder, name, argv=[*self.wrap, *command.split()])


class _Holder(Proc):
    """A process that needs nothing of what a rig offers."""

    def __init__(self, runtime_dir, name, *, argv, log_path=None, user=None, ready=True):
        del runtime_dir, ready
        super().__init__(argv, name, user=user, log_path=log_path)


class Capture:
    """What passes an interface while the with-block runs, the first `limit` frames of it."""

    def __init__(self, namespace, interface, limit=10000):
        self.path = namespace.rig.path(f'capture{len(namespace.rig.processes)}.pcap')
        self._arguments = namespace, interface, limit
        self.longest = 0

    def __enter__(self):
        namespace, interface, limit = self._arguments
        self._process = namespace.start(
            f'{sys.executable} {HERE}/capture.py {interface} {self.path} {limit}', 'capture')
        self._process.expect('^listening$', 20)
        return self

    def __exit__(self, kind, *rest):
        self._process.popen.stdin.close()
        if kind is None:
            lost = self._process.expect(r'^\d+ seen, (\d+) lost', 20)[1]
            # An ordinary user has little room for a burst.
            assert lost == '0' or os.geteuid() != 0, self._process.output()
            assert self._process.wait(20) == 0
        else:
            self._process.close()

    def fields(self, *names, only=''):
        """A row a frame, a column a field of tshark's."""
        command = ['tshark', '-n', '-r', self.path, '-Y', only, '-T', 'fields']
        for protocol in PROTOCOLS[:3]:
            command += ['-o', f'{protocol}.check_checksum:TRUE']
        for name in names:
            command += ['-e', name]
        done = subprocess.run(command, check=True, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return [line.split('\t') for line in done.stdout.splitlines()]

    def checksums(self):
        """{protocol: {'good': number, 'bad': ...}}, as tshark judges them. It expects 0x0000 where
        Linux writes 0xffff: the same in ones' complement. Also finds out how long the longest is."""
        counts = {protocol: collections.Counter() for protocol in PROTOCOLS}
        rows = self.fields(*(f'{protocol}.checksum.status' for protocol in PROTOCOLS),
                           'tcp.checksum', 'frame.len')
        self.longest = max(int(row[-1]) for row in rows)
        for row in rows:
            for protocol, cell in zip(PROTOCOLS, row):
                for status in cell.split(',') if cell else ():
                    zero = protocol == 'tcp' and row[-2] == '0xffff'
                    counts[protocol]['good' if zero else STATUS[status]] += 1
        return {protocol: dict(count) for protocol, count in counts.items() if count}
