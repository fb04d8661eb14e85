# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Two kernels that talk: what each sends the other, and that all of it arrived as it was."""

import copy
import os
import re

from harness import build

PEER = os.path.join(build.build_dir(), 'test/e2e/guest/sluice-peer')
FILES = {'/bin/peer': PEER}  # what a guest needs for it


class End:
    """One kernel with an address: where programs are run and left running."""

    def __init__(self, address):
        self.address = address

    def at(self, address):
        """The same under another address of its own."""
        other = copy.copy(self)
        other.address = address
        return other


class GuestEnd(End):
    def __init__(self, machine, address):
        super().__init__(address)
        self.machine = machine

    def run(self, command, timeout=60):
        return self.machine.run(command, timeout)

    def start(self, command):
        return self.machine.program(command.split())

    @staticmethod
    def stop(program):
        program.kill9()


class HostEnd(End):
    """In a namespace of the host."""

    def __init__(self, namespace, address):
        super().__init__(address)
        self.namespace = namespace

    @staticmethod
    def _here(command):
        program, _, rest = command.partition(' ')
        return {'peer': PEER, 'ping': 'busybox ping'}.get(program, program) + ' ' + rest

    def run(self, command, timeout=60):
        return self.namespace.run(self._here(command), timeout)

    def start(self, command):
        return self.namespace.start(self._here(command), command.split()[0])

    @staticmethod
    def stop(program):
        program.close()


def serve(end, words):
    """Start a peer that listens."""
    server = end.start(f'peer {words}')
    server.expect('^listening$', 20)
    return server


def tcp(sender, receiver, megabytes):
    """Send so much; returns what both say that arrived."""
    server = serve(receiver, 'tcp-serve 5000')
    said = sender.run(f'peer tcp-send {receiver.address} 5000 {megabytes}', 120).strip()
    assert server.wait(20) == 0
    assert said in server.output()
    assert said.startswith(f'{megabytes << 20} bytes, sum ')
    return said


def udp(sender, receiver, count, sizes):
    """Datagrams of each size, there and back, one after the other: none is lost."""
    server = serve(receiver, 'udp-serve 5001')
    said = sender.run(f'peer udp-send {receiver.address} 5001 {count} ' + ' '.join(map(str, sizes)))
    assert said == f'{count * len(sizes)} datagrams came back\n'
    assert server.alive, server.output()
    receiver.stop(server)


def ping(sender, receiver, count, size):
    """Every one is answered. Each goes when the one before has come back: of answers that come all
    at once ping's socket holds only a few."""
    said = sender.run(f'ping -c {count} -A -i 30 -W 30 -s {size} {receiver.address}', 60)
    assert f'{count} packets transmitted, {count} packets received' in said, said


def receive_queues(machine, interface='eth0'):
    """{queue: packets} of a guest's virtio_net."""
    said = machine.run(f'ethtool -S {interface}')
    return {int(q): int(n) for q, n in re.findall(r'rx_queue_(\d+)_packets: (\d+)', said)}
