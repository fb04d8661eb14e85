# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A vhost-user frontend by hand, for messages that no honest frontend sends."""

import array
import socket
import struct

HEADER = struct.Struct('<III')
VERSION, REPLY, NEED_REPLY = 1, 4, 8
GET_FEATURES, SET_FEATURES, SET_OWNER, RESET_OWNER, SET_MEM_TABLE = 1, 2, 3, 4, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE = 8, 9, 10, 11
SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR = 12, 13, 14
GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, GET_QUEUE_NUM, SET_VRING_ENABLE = 15, 16, 17, 18
NET_SET_MTU = 20
MAX_KNOWN = 44
F_EVENT_IDX, F_PROTOCOL_FEATURES, F_VERSION_1 = 1 << 29, 1 << 30, 1 << 32
PROTOCOL_F_MTU = 1 << 4


def message(request, payload=b'', flags=VERSION, size=None):
    return HEADER.pack(request, flags, len(payload) if size is None else size) + payload


def u64(value):
    return struct.pack('<Q', value)


def vring(index, number):
    return struct.pack('<II', index, number)


class Frontend:
    def __init__(self, path, timeout=30):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # With a timeout of Python's, a backlog that is full would be an error at once.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('ll', timeout, 0))
        self.sock.connect(path)
        self.sock.settimeout(timeout)

    def send(self, data, fds=()):
        """Send raw bytes; True unless the backend has gone already."""
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else []
        try:
            self.sock.sendmsg([data], control)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def reply(self):
        """(request, payload) of the next reply; None when the backend closed."""
        head = self._read(HEADER.size)
        if head is None:
            return None
        request, _, size = HEADER.unpack(head)
        return request, self._read(size) if size else b''

    def _read(self, count):
        data = b''
        while len(data) < count:
            try:
                part = self.sock.recv(count - len(data))
            except ConnectionResetError:
                return None
            if not part:
                return None
            data += part
        return data

    def features(self):
        """The question every frontend asks first."""
        self.send(message(GET_FEATURES))
        answer = self.reply()
        assert answer and answer[0] == GET_FEATURES, f'GET_FEATURES was answered with {answer}'
        return struct.unpack('<Q', answer[1])[0]

    def closed(self):
        """Wait until the backend has closed the connection."""
        while True:
            try:
                if not self.sock.recv(4096):
                    return True
            except ConnectionResetError:
                return True
            except TimeoutError:
                return False

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
