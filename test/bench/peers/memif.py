# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""memif: a testpmd with net_memif as the client, for the guest, and one as the server.

Both copy, out of their mbufs and into them: memif's usual way. With `zero_copy` the client, to whom
the rings belong, lends its mbufs, and the server alone copies.
"""

from rigs import TestpmdGuests, TestpmdHost


def device(role, sock, ring):
    return (f'net_memif0,role={role},id=0,socket={sock},socket-abstract=no,bsize=2048,'
            f'rsize={ring.bit_length() - 1}')


class MemifHost(TestpmdHost):
    """It listens: to be started first."""

    def __init__(self, place, sock, *, ring, fwd):
        super().__init__(place, 'memif', [device('server', sock, ring)], ring=ring, fwd=fwd)


class MemifGuest(TestpmdGuests):
    name = 'net_memif'

    def __init__(self, place, sock, *, ring, fwd, zero_copy=False):
        more = ',zero-copy=yes' if zero_copy else ''
        super().__init__(place, 'client', [device('client', sock, ring) + more], ring=ring, fwd=fwd)
