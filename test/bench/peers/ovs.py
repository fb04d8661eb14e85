# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Open vSwitch with DPDK, from Debian's package, as a host between guests.

It runs beside whatever Open vSwitch the machine may have: own database, own run directory, and a
network namespace of its own for the device that each bridge is.
"""

import os

from harness.proc import Proc, ProcError, wait_until
from rigs import HOST_CPU, HeldHost

DAEMON = '/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk'
SCHEMA = '/usr/share/openvswitch/vswitch.ovsschema'
MEMORY_MB = 512


class OvsHost(HeldHost):
    """A bridge with a port for each socket, the default NORMAL action, one polling thread."""

    def __init__(self, place, socks):
        for path in (DAEMON, SCHEMA):
            if not os.path.exists(path):
                raise ProcError(f'{path} is missing: apt-get install openvswitch-switch-dpdk')
        if os.geteuid() != 0:
            raise ProcError('OVS-DPDK needs root, for a network namespace of its own')
        if not place.huge_dir:
            raise ProcError('OVS-DPDK runs on hugepages only, and there are none')
        self.rig, self.socks = place.rig, socks
        self.home = place.rig.path('ovs')
        os.mkdir(self.home)
        self.database = os.path.join(self.home, 'db.sock')
        self.control = os.path.join(self.home, 'vswitchd.ctl')
        self.env = {f'OVS_{name}DIR': self.home for name in ('RUN', 'LOG', 'DB', 'SYSCONF')}
        self.env['RUNTIME_DIRECTORY'] = place.rig.run
        self.store()
        self.process = self.start(place.huge_dir)
        self.bridge()
        self.name = 'Open vSwitch ' + self.run(DAEMON, '--version').split()[3]

    def proc(self, name, *argv, **options):
        process = Proc(argv, name, env=self.env, log_path=self.rig.path(name + '.log'), **options)
        self.rig.processes.append(process)
        return process

    def run(self, program, *words):
        """Run one of OVS's tools to its end; return what it printed."""
        options = [f'--db=unix:{self.database}', '--timeout=20'] if program == 'ovs-vsctl' else []
        process = self.proc(os.path.basename(program), program, *options, *words)
        code = process.wait(30)
        self.rig.processes.remove(process)
        process.close()
        if code != 0:
            raise ProcError(f'{" ".join(process.argv)}: exit status {code}: {process.output()}')
        return process.output().strip()

    def store(self):
        """The configuration database."""
        file = os.path.join(self.home, 'conf.db')
        self.run('ovsdb-tool', 'create', file, SCHEMA)
        self.proc('ovsdb-server', 'ovsdb-server', file, f'--remote=punix:{self.database}',
                  f'--unixctl={self.home}/ovsdb.ctl')
        wait_until(lambda: os.path.exists(self.database), 10, 'ovsdb-server listens')
        self.run('ovs-vsctl', '--no-wait', 'init')

    def start(self, huge_dir):
        extra = f'--no-pci --file-prefix=ovs-{os.path.basename(self.rig.dir)[3:]}'
        setting = {'dpdk-init': 'true', 'pmd-cpu-mask': hex(1 << HOST_CPU),
                   'dpdk-lcore-mask': hex(1 << HOST_CPU), 'dpdk-hugepage-dir': huge_dir,
                   'dpdk-socket-mem': MEMORY_MB, 'dpdk-extra': f'"{extra}"'}
        self.run('ovs-vsctl', '--no-wait', 'set', 'Open_vSwitch', '.',
                 *(f'other_config:{key}={value}' for key, value in setting.items()))
        process = self.proc('ovs-vswitchd', 'unshare', '--net', '--', DAEMON,
                            f'unix:{self.database}', f'--unixctl={self.control}', cpu=HOST_CPU)
        process.expect('DPDK Enabled - initialized', 30)
        return process

    def bridge(self):
        """Ports that listen on a socket below OVS's run directory; a link leads there."""
        words = ['--', 'add-br', 'br0', '--', 'set', 'bridge', 'br0', 'datapath_type=netdev']
        for i, sock in enumerate(self.socks):
            os.symlink(os.path.join(self.home, f'vhost{i}'), sock)
            words += ['--', 'add-port', 'br0', f'vhost{i}',
                      '--', 'set', 'interface', f'vhost{i}', 'type=dpdkvhostuser']
        self.run('ovs-vsctl', *words)

    def wait_guests(self):
        for i in range(len(self.socks)):
            self.process.expect(rf"vHost Device '[^']*vhost{i}' has been added", 20)
