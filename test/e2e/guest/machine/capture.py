# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Write what passes an interface into a capture until standard input ends: capture.py NAME FILE N

The first N frames: what had arrived when the input ended is written, too.
(dumpcap and tcpdump leave the last ones in the kernel.)
"""

import select
import socket
import struct
import sys

SOL_PACKET, PACKET_STATISTICS, PACKET_AUXDATA = 263, 6, 8
SO_RCVBUFFORCE = 33
AUXDATA = struct.Struct('=IIIHHHH')  # status, length, captured, link, network, tag, its protocol
VLAN_VALID = 0x10
ALL = 0x0003
ROOM = 128 << 20  # bytes of socket buffer
FILE_HEADER = struct.pack('<IHHiIII', 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)


def with_tag(data, ancillary):
    """The kernel hands out a frame and its VLAN tag apart."""
    for _, kind, raw in ancillary:
        if kind == PACKET_AUXDATA:
            status, *_, tag, protocol = AUXDATA.unpack(raw[:AUXDATA.size])
            if status & VLAN_VALID:
                return data[:12] + struct.pack('!HH', protocol, tag) + data[12:]
    return data


def main():
    interface, path, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM)
    except PermissionError:  # in a user namespace: less room, and perhaps losses, which are told
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
    sock.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    sock.bind((interface, ALL))
    sock.setblocking(False)
    written, ending = 0, False
    with open(path, 'wb') as out:
        out.write(FILE_HEADER)
        print('listening', flush=True)
        while not ending:
            ready = select.select([sock, sys.stdin], [], [])[0]
            ending = sys.stdin in ready
            try:
                while True:
                    data, ancillary, _, _ = sock.recvmsg(65536, 64)
                    if written < limit:
                        data = with_tag(data, ancillary)
                        out.write(struct.pack('<IIII', 0, written, len(data), len(data)) + data)
                        written += 1
            except BlockingIOError:
                pass
    seen, lost = struct.unpack('=II', sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    print(f'{seen} seen, {lost} lost, {written} written', flush=True)


if __name__ == '__main__':
    main()
