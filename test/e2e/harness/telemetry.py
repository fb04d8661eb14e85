# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Client of a DPDK process's telemetry socket (version 2: one request, one reply a packet)."""

import json
import os
import socket
import time


def socket_path(runtime_dir, prefix):
    return os.path.join(runtime_dir, 'dpdk', prefix, 'dpdk_telemetry.v2')


class Telemetry:
    def __init__(self, path, timeout=30):
        deadline = time.monotonic() + timeout
        while True:
            self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._sock.settimeout(timeout)
            try:
                self._sock.connect(path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                self._sock.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        greeting = json.loads(self._sock.recv(1024))
        self.pid = greeting['pid']
        self._max = greeting['max_output_len']

    def ask(self, command):
        """The value under the command's own name; None where the process has none."""
        self._sock.send(command.encode())
        reply = json.loads(self._sock.recv(self._max))
        return next(iter(reply.values()))

    def close(self):
        self._sock.close()
