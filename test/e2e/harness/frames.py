# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Test frames that know who they are: a stream, a sequence number, their length and a checksum."""

import struct
import zlib

ETHERTYPE = 0x88B5  # IEEE 802: local experimental
MAGIC = b'SLUI'
HEADER = struct.Struct('!6s6sH4sHIH')  # dst, src, type, magic, stream, sequence, length
MIN_FRAME = HEADER.size + 4
BROADCAST = 'ff:ff:ff:ff:ff:ff'


def mac_bytes(mac):
    return bytes(int(part, 16) for part in mac.split(':'))


def mac_text(raw):
    return ':'.join(f'{b:02x}' for b in raw)


def frame(dst, src, stream, sequence, size):
    """A frame of exactly `size` bytes without FCS."""
    if size < MIN_FRAME:
        raise ValueError(f'a test frame needs at least {MIN_FRAME} bytes')
    head = HEADER.pack(mac_bytes(dst), mac_bytes(src), ETHERTYPE, MAGIC, stream, sequence, size)
    fill = bytes((sequence * 7 + i) & 0xFF for i in range(min(256, size)))
    body = (fill * (size // len(fill) + 1))[:size - HEADER.size - 4]
    # The addresses are left out of the checksum: a forwarder may swap them.
    return head + body + struct.pack('!I', zlib.crc32(head[12:] + body))


def parse(data):
    """(dst, src, stream, sequence), or an AssertionError that says what is wrong."""
    assert len(data) >= MIN_FRAME, f'frame of {len(data)} bytes is too short'
    dst, src, kind, magic, stream, sequence, size = HEADER.unpack_from(data)
    assert kind == ETHERTYPE and magic == MAGIC, 'not a test frame: ' + data[:32].hex()
    assert size == len(data), f'frame {stream}/{sequence}: {len(data)} bytes, made with {size}'
    want, = struct.unpack_from('!I', data, size - 4)
    assert zlib.crc32(data[12:-4]) == want, f'frame {stream}/{sequence}: payload damaged'
    return mac_text(dst), mac_text(src), stream, sequence


def stream_of(data):
    """Number of the stream; None if it is none of these frames."""
    if len(data) < MIN_FRAME or HEADER.unpack_from(data)[2:4] != (ETHERTYPE, MAGIC):
        return None
    return HEADER.unpack_from(data)[4]


def stream(dst, src, number, count, sizes):
    """`count` frames of one stream; sizes are used in turn."""
    sizes = [sizes] if isinstance(sizes, int) else sizes
    return [frame(dst, src, number, i, sizes[i % len(sizes)]) for i in range(count)]


def swapped(data):
    """The frame as testpmd's macswap sends it back."""
    return data[6:12] + data[0:6] + data[12:]


def assert_same(got, want, what, ordered=True):
    """Compare two lists of frames byte for byte."""
    assert len(got) == len(want), f'{what}: {len(got)} frames, expected {len(want)}'
    if not ordered:
        got, want = sorted(got), sorted(want)
    for i, (a, b) in enumerate(zip(got, want)):
        if a == b:
            continue
        at = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        raise AssertionError(f'{what}: frame {i} of {len(want)} differs at byte {at} '
                             f'({len(a)} bytes, expected {len(b)}): '
                             f'{a[at:at + 16].hex()} for {b[at:at + 16].hex()}')
