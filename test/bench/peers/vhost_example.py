# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""examples/vhost of DPDK as a host between guests, by its own forwarding (`--vm2vm 1`).

A guest's address is the one its first packet has; a packet goes to the guest whose address it
names, found by a walk over all guests, after a copy into an mbuf.

The example wants a port of a network card with VMDq, and ends where a port has none, a virtual one
for instance: "Failed to get VMDq info." With no port at all it starts all the same, and what it
calls for the port that is not there complains once and does nothing. But what says which lcore has
the fewest guests is set with the port, so all guests go to lcore 0, which must not be the main one.
"""

import os

from harness.proc import Proc, ProcError
from rigs import HOST_CPU, HeldHost

MEMORY_MB = 640  # it makes 147456 mbufs at least
LCORES = ('--lcores', f'0@{HOST_CPU},1@{HOST_CPU}', '--main-lcore', '1')


class VhostExample(HeldHost):
    """The example on one CPU, with the sockets of the guests, mergeable buffers."""

    name = 'examples/vhost'

    def __init__(self, place, socks):
        dpdk = place.dpdk_of(False)
        program = dpdk and os.path.join(dpdk.directory, 'build/examples/dpdk-vhost')
        if not (program and os.access(program, os.X_OK)):
            raise ProcError(f'no examples/vhost in {dpdk.directory if dpdk else "the system"}: '
                            'name a directory of test/bench/peers/build-dpdk with --dpdk')
        words = [*LCORES, '--no-pci', '-m', MEMORY_MB,
                 '--file-prefix', f'vhost-{os.path.basename(place.rig.dir)[3:]}']
        words += ['--huge-dir', place.huge_dir] if place.huge_dir else ['--no-huge']
        words += ['--', '-p', '1', '--vm2vm', '1', '--mergeable', '1', '--stats', '0']
        for sock in socks:
            words += ['--socket-file', sock]
        self.guests = len(socks)
        env = {'RUNTIME_DIRECTORY': place.rig.run,  # and the libraries of the drivers it loads
               'LD_LIBRARY_PATH': os.path.join(dpdk.directory, 'install/lib')}
        self.process = Proc([program, *words], 'vhost-example', cpu=HOST_CPU, env=env,
                            log_path=place.rig.path('vhost-example.log'))
        place.rig.processes.append(self.process)
        for sock in socks:
            self.process.expect(rf'\({sock}\) binding succeeded', 30)

    def wait_guests(self):
        for i in range(self.guests):
            self.process.expect(rf'\({i}\) device has been added to data core', 20)
