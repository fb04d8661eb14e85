# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Classic pcap files, written and read."""

import struct

FILE = struct.Struct('<IHHiIII')
RECORD = struct.Struct('<IIII')
MAGIC_USEC, MAGIC_NSEC, ETHERNET = 0xA1B2C3D4, 0xA1B23C4D, 1


def encode(frames):
    records = [RECORD.pack(0, i, len(data), len(data)) + data for i, data in enumerate(frames)]
    return FILE.pack(MAGIC_USEC, 2, 4, 0, 0, 262144, ETHERNET) + b''.join(records)


def write(path, frames):
    with open(path, 'wb') as f:
        f.write(encode(frames))


def decode(raw, what):
    if len(raw) < FILE.size:
        return []
    magic = FILE.unpack_from(raw)[0]
    assert magic in (MAGIC_USEC, MAGIC_NSEC), f'{what}: not a pcap file of this byte order'
    frames, at = [], FILE.size
    while at + RECORD.size <= len(raw):
        _, _, caught, length = RECORD.unpack_from(raw, at)
        at += RECORD.size
        assert caught == length, f'{what}: frame {len(frames)} is cut ({caught} of {length})'
        frames.append(raw[at:at + caught])
        at += caught
    return frames


def read(path):
    with open(path, 'rb') as f:
        return decode(f.read(), path)
