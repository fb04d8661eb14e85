# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Network namespaces with the kernel's end of a tap in each."""

import os
import shutil
import subprocess
import sys

import pytest

needed = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists('/dev/net/tun') or not shutil.which('ip'),
    reason='root, /dev/net/tun and ip(8) needed')


class Namespaces:
    """One for each device, which is up and has the address 10.9.0.N."""

    def __init__(self, devices):
        self.names = [f'sluice-test-{os.getpid()}-{i}' for i in range(len(devices))]
        for i, (name, device) in enumerate(zip(self.names, devices)):
            self.ip('netns', 'add', name)
            self.ip('link', 'set', device, 'netns', name)
            self.ip('-n', name, 'addr', 'add', f'10.9.0.{i + 1}/24', 'dev', device)
            self.ip('-n', name, 'link', 'set', device, 'up')

    @staticmethod
    def ip(*args):
        subprocess.run(['ip', *args], check=True, stdout=subprocess.DEVNULL)

    def python(self, index, code, *args):
        return subprocess.Popen(['ip', 'netns', 'exec', self.names[index], sys.executable, '-c',
                                 code, *args], stdout=subprocess.PIPE, text=True)

    def close(self):
        for name in self.names:
            subprocess.run(['ip', 'netns', 'del', name], check=False)
