# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The other end of a network device of QEMU's own model: the test itself sends and receives."""

import socket
import struct
import subprocess
import sys
import threading

from harness.proc import SLOWEST, wait_until

from .qemu import netdev

LENGTH = struct.Struct('>I')  # before each frame in a stream
LONGEST = 65536 + LENGTH.size


class _Line:
    """Frames that arrive are collected by a thread."""

    def __init__(self):
        self._socket = None
        self._arrived = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def _read(self):
        while True:
            try:
                data = self._socket.recv(LONGEST)
            except OSError:
                return
            found = self._frames(data)
            with self._changed:
                self._arrived += found
                self._changed.notify_all()
            if not data:
                return

    def take(self, count, timeout=30):
        """Wait for so many frames; returns all that have arrived, which may be more."""
        timeout *= SLOWEST
        with self._changed:
            self._changed.wait_for(lambda: len(self._arrived) >= count, timeout)
            taken, self._arrived = self._arrived, []
        assert len(taken) >= count, f'{len(taken)} frames arrived within {timeout} s, not {count}'
        return taken

    def close(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()


class StreamLine(_Line):
    """`-netdev stream`, over a Unix socket that QEMU connects to: nothing is lost on it."""

    def __init__(self, path):
        super().__init__()
        self._data = b''
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(1)
        self.behind = netdev(f'stream,server=off,addr.type=unix,addr.path={path}')

    def open(self):
        """When QEMU runs."""
        self._listener.settimeout(20)
        self._socket, _ = self._listener.accept()
        self._socket.settimeout(None)
        self._listener.close()
        self._reader.start()

    def _frames(self, data):
        self._data += data
        found = []
        while len(self._data) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._data)[0]
            if len(self._data) < end:
                break
            found.append(self._data[LENGTH.size:end])
            self._data = self._data[end:]
        return found

    def send(self, frames):
        self._socket.sendall(b''.join(LENGTH.pack(len(frame)) + frame for frame in frames))


# Opened in the namespace, handed over by a socket.
RAW = '''
import socket, sys
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
raw.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
raw.bind((sys.argv[1], 3))
socket.send_fds(socket.socket(fileno=0), [b'!'], [raw.fileno()])
'''


class TapLine(_Line):
    """`-netdev tap` in a network namespace: the kernel's end of it."""

    def __init__(self, namespace, name):
        super().__init__()
        self._namespace, self._name = namespace, name
        self.behind = netdev(f'tap,ifname={name},script=no,downscript=no,vhost=off')

    def open(self):
        """When QEMU runs, in that namespace too."""
        # The kernel is not to send anything of its own.
        self._namespace.run(f'ip link set {self._name} addrgenmode none mtu 9000')
        self._namespace.run(f'ip link set {self._name} up')
        ours, its = socket.socketpair()
        with ours, its:
            subprocess.run([*self._namespace.wrap, sys.executable, '-c', RAW, self._name],
                           stdin=its, check=True)
            self._socket = socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])
        self._reader.start()

    def _frames(self, data):
        return [data] if data else []

    def send(self, frames):
        for frame in frames:
            self._socket.send(frame)

    def wait_carrier(self):
        """The device has a driver, so its end of the tap is up."""
        def there():
            return 'LOWER_UP' in self._namespace.run(f'ip link show {self._name}')
        wait_until(there, 20, f'{self._name} has a carrier')
