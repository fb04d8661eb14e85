# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Write archives as the Linux kernel unpacks them (cpio, "newc"); no root needed for devices."""

import stat


class Archive:
    """Files in the order in which they are added; directories on the way are made."""

    def __init__(self):
        self._parts = []
        self._names = set()

    def __contains__(self, name):
        return name.strip('/') in self._names

    def _add(self, name, mode, data=b'', device=(0, 0)):
        name = name.strip('/')
        if name in self._names:
            return
        parent = name.rpartition('/')[0]
        if parent and parent not in self._names:
            self._add(parent, stat.S_IFDIR | 0o755)
        self._names.add(name)
        self._record(name, mode, data, device)

    def _record(self, name, mode, data, device=(0, 0)):
        raw = name.encode() + b'\0'
        # Inode, mode, owner, group, links, time, size, device, its own device, name, checksum.
        fields = (len(self._names), mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(raw), 0)
        head = b'070701' + b''.join(b'%08X' % field for field in fields) + raw
        self._parts += [head, bytes(-len(head) % 4), data, bytes(-len(data) % 4)]

    def file(self, name, data, mode=0o755):
        self._add(name, stat.S_IFREG | mode, data)

    def link(self, name, target):
        self._add(name, stat.S_IFLNK | 0o777, target.encode())

    def directory(self, name, mode=0o755):
        self._add(name, stat.S_IFDIR | mode)

    def character_device(self, name, major, minor):
        self._add(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def data(self):
        """The archive whole. Several may follow one another in one initramfs."""
        end = Archive()
        end._record('TRAILER!!!', 0, b'')
        raw = b''.join(self._parts + end._parts)
        return raw + bytes(-len(raw) % 512)
