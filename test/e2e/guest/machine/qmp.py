# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""QEMU's machine protocol: commands with their answers, events that are waited for."""

import json
import socket
import time

from harness.proc import ProcError


class Qmp:
    def __init__(self, path, timeout=60):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        self._socket.connect(path)
        self._buffer = b''
        self.events = []
        self._message(timeout)  # its greeting
        self.ask('qmp_capabilities')

    def _message(self, timeout):
        deadline = time.monotonic() + timeout
        while b'\n' not in self._buffer:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                data = self._socket.recv(65536)
            except (TimeoutError, socket.timeout):
                raise ProcError(f'QEMU said nothing within {timeout} s') from None
            if not data:
                raise ProcError('QEMU closed its QMP socket')
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b'\n')
        return json.loads(line)

    def ask(self, command, timeout=60, **arguments):
        request = {'execute': command, 'arguments': arguments}
        self._socket.sendall(json.dumps(request).encode() + b'\n')
        while True:
            message = self._message(timeout)
            if 'event' in message:
                self.events.append(message)
            elif 'error' in message:
                raise ProcError(f'QMP {command}: {message["error"]["desc"]}')
            else:
                return message['return']

    def wait_event(self, name, timeout=60):
        """Take the oldest event of this name, waiting for it."""
        deadline = time.monotonic() + timeout
        while True:
            for event in self.events:
                if event['event'] == name:
                    self.events.remove(event)
                    return event.get('data', {})
            message = self._message(max(0.01, deadline - time.monotonic()))
            if 'event' in message:
                self.events.append(message)

    def close(self):
        self._socket.close()
