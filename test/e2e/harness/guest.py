# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A guest by hand: its memory is a memfd, its driver a few lines, so that a test decides where
each byte lies, and what happens to the memory in the middle of things."""

import mmap
import os
import struct
import threading

from . import vhost_user as vu
from .proc import wait_until

PAGE = 4096
ENTRIES = 64
HEADER_LEN = 12
DESC_NEXT, DESC_WRITE, DESC_INDIRECT = 1, 2, 4
RX, TX = 0, 1
# To take a lock is a full fence: what is written before is seen before anything after is read.
FENCE = threading.Lock()


class Guest:
    """One queue pair. Ring r has page r; then come the buffers of the receive ring, a page each;
    then `pages` for the test's own transmit buffers."""

    def __init__(self, path, *, pages=16, buffers=16, calls=False, call_fds=(), kicks=False,
                 kick_fds=(), features=vu.F_VERSION_1, protocol=0):
        self.buffers = buffers
        self.features = features
        self.protocol = protocol
        self.calls = list(call_fds)
        if calls:
            self.calls = [os.eventfd(0, os.EFD_NONBLOCK) for _ in (RX, TX)]
        self.kicks = list(kick_fds)
        if kicks:
            self.kicks = [os.eventfd(0, os.EFD_NONBLOCK) for _ in (RX, TX)]
        self.kicked = [0, 0]
        self.told = [0, 0]
        self.tx_base = (2 + buffers) * PAGE
        self.size = self.tx_base + pages * PAGE
        self.fd = os.memfd_create('guest')
        os.ftruncate(self.fd, self.size)
        self.memory = mmap.mmap(self.fd, self.size)
        self.avail = [0, 0]
        self.seen = [0, 0]
        self.frontend = vu.Frontend(path)
        self._connect()
        for i in range(buffers):
            self.post(RX, [((2 + i) * PAGE, PAGE, True)])

    def _connect(self):
        f = self.frontend
        f.send(vu.message(vu.SET_OWNER))
        f.send(vu.message(vu.SET_PROTOCOL_FEATURES, vu.u64(self.protocol)))
        f.send(vu.message(vu.SET_FEATURES, vu.u64(self.features)))
        self.show_memory()
        for ring in (RX, TX):
            self.start(ring, 0)

    def show_memory(self, more=()):
        """The memory table: ours at address 0, and what else there is: (fd, address, size)."""
        table = struct.pack('<IIQQQQ', 1 + len(more), 0, 0, self.size, 0, 0)
        for _, address, size in more:
            table += struct.pack('<QQQQ', address, size, address, 0)
        self.frontend.send(vu.message(vu.SET_MEM_TABLE, table),
                           [self.fd] + [fd for fd, _, _ in more])

    def start(self, ring, base):
        f, at = self.frontend, ring * PAGE
        f.send(vu.message(vu.SET_VRING_NUM, vu.vring(ring, ENTRIES)))
        f.send(vu.message(vu.SET_VRING_BASE, vu.vring(ring, base)))
        f.send(vu.message(vu.SET_VRING_ADDR, struct.pack(
            '<IIQQQQ', ring, 0, at, at + self._used(), at + self._avail(), 0)))
        if self.calls:
            f.send(vu.message(vu.SET_VRING_CALL, vu.u64(ring)), [self.calls[ring]])
        else:
            f.send(vu.message(vu.SET_VRING_CALL, vu.u64(ring | 1 << 8)))
        if self.kicks:
            f.send(vu.message(vu.SET_VRING_KICK, vu.u64(ring)), [self.kicks[ring]])
        else:
            f.send(vu.message(vu.SET_VRING_KICK, vu.u64(ring | 1 << 8)))

    @staticmethod
    def _avail():
        return ENTRIES * 16

    @staticmethod
    def _used():
        return ENTRIES * 16 + 512

    def post(self, ring, buffers):
        """One chain of (address, length, device writes); slots follow the available index."""
        at, slot = ring * PAGE, self.avail[ring] % ENTRIES
        assert len(buffers) == 1 or ring == TX
        first = slot if len(buffers) == 1 else self.slot_of_chain(slot, len(buffers))
        for i, (addr, length, write) in enumerate(buffers):
            last = i == len(buffers) - 1
            flags = (0 if last else DESC_NEXT) | (DESC_WRITE if write else 0)
            self.memory[at + (first + i) * 16:at + (first + i + 1) * 16] = struct.pack(
                '<QIHH', addr, length, flags, 0 if last else first + i + 1)
        entry = at + self._avail() + 4 + slot * 2
        self.memory[entry:entry + 2] = struct.pack('<H', first)
        self.avail[ring] += 1
        index = at + self._avail() + 2
        self.memory[index:index + 2] = struct.pack('<H', self.avail[ring] & 0xffff)

    @staticmethod
    def slot_of_chain(slot, length):
        """Room for a chain of several descriptors in the upper half of the table."""
        return ENTRIES // 2 + slot * length % (ENTRIES // 2 - length)

    def used(self, ring):
        index = ring * PAGE + self._used() + 2
        return struct.unpack('<H', self.memory[index:index + 2])[0]

    def send(self, frame, page=0):
        """A frame in one of the test's pages, behind its header."""
        at = self.tx_base + page * PAGE
        data = bytes(HEADER_LEN) + frame
        self.memory[at:at + len(data)] = data
        self.post(TX, [(at, len(data), False)])

    def kick(self, ring=TX):
        """Notify of what was posted, if the device wants that (virtio 1.3, 2.7.10)."""
        with FENCE:
            pass
        at = ring * PAGE + self._used()
        old, self.told[ring] = self.told[ring], self.avail[ring]
        if self.features & vu.F_EVENT_IDX:
            at += 4 + ENTRIES * 8
            event = struct.unpack('<H', self.memory[at:at + 2])[0]
            wanted = self.avail[ring] - event - 1 & 0xffff < self.avail[ring] - old & 0xffff
        else:
            wanted = not self.memory[at] & 1
        if wanted:
            self.kicked[ring] += 1
            os.eventfd_write(self.kicks[ring], 1)

    def received(self):
        """Frames that came since the last time; their buffers go back."""
        got = []
        while self.seen[RX] != self.used(RX):
            entry = self._used() + 4 + self.seen[RX] % ENTRIES * 8
            slot, length = struct.unpack('<II', self.memory[entry:entry + 8])
            at = struct.unpack('<Q', self.memory[slot * 16:slot * 16 + 8])[0]
            got.append(self.memory[at + HEADER_LEN:at + length])
            self.seen[RX] = (self.seen[RX] + 1) & 0xffff
            self.post(RX, [(at, PAGE, True)])
        return got

    def wait_received(self, count, timeout=10):
        got = []

        def enough():
            got.extend(self.received())
            return len(got) >= count
        wait_until(enough, timeout, lambda: f'{len(got)} of {count} frames received')
        return got

    def called(self, ring):
        """Calls since the last time."""
        try:
            return os.eventfd_read(self.calls[ring])
        except BlockingIOError:
            return 0

    def replace_call(self, ring):
        """Another call descriptor, as QEMU sets when a guest masks its interrupt."""
        old, self.calls[ring] = self.calls[ring], os.eventfd(0, os.EFD_NONBLOCK)
        self.frontend.send(vu.message(vu.SET_VRING_CALL, vu.u64(ring)), [self.calls[ring]])
        os.close(old)

    def want_no_calls(self, ring):
        at = ring * PAGE + self._avail()
        self.memory[at:at + 2] = struct.pack('<H', 1)

    def write_desc(self, ring, slot, addr, length, flags, following=0):
        at = ring * PAGE + slot * 16
        self.memory[at:at + 16] = struct.pack('<QIHH', addr, length, flags, following)

    def offer(self, ring, head, by=1):
        """Make an entry available as it stands, however wrong; move the index by any step."""
        at = ring * PAGE + self._avail()
        entry = at + 4 + self.avail[ring] % ENTRIES * 2
        self.memory[entry:entry + 2] = struct.pack('<H', head)
        self.avail[ring] = (self.avail[ring] + by) & 0xffff
        self.memory[at + 2:at + 4] = struct.pack('<H', self.avail[ring])

    def enable(self, ring, on=True):
        """Only with PROTOCOL_FEATURES; without them a ring is enabled by its start."""
        self.frontend.send(vu.message(vu.SET_VRING_ENABLE, vu.vring(ring, int(on))))
        self.frontend.features()  # answered when that is done

    def stop(self, ring):
        """Stop a ring; returns its base."""
        self.frontend.send(vu.message(vu.GET_VRING_BASE, vu.vring(ring, 0)))
        return struct.unpack('<II', self.frontend.reply()[1])[1]

    def truncate(self, size):
        os.ftruncate(self.fd, size)

    def close(self):
        """The mapping stays until Python drops it: it must not be touched after a truncation."""
        self.frontend.close()
        for fd in {self.fd, *self.calls, *self.kicks}:
            os.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
