# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A guest in `mac` mode and a host that gives its frames back.

Ours: our driver and our switch, loopback=on: one copy, from the guest's buffer into the guest's
buffer, no mbuf on the host. Peers, in two testpmds in `mac` mode, with a copy into an mbuf and one
out of it on the host:
- `loopback-SIZE-RING`: stock net_virtio_user and net_vhost, the split ring, mergeable;
- `loopback-inorder-..`, `loopback-packed-..`: the same in order, and with the packed ring;
- `loopback-vector-..`: the split ring with net_virtio_user's vector path, which has no mergeable
  buffers (that of the packed ring needs AVX-512);
- `loopback-memif-..`: net_memif at both ends; both copy; `loopback-zerocopy-..`: only its server;
- `loopback-debian-..`: the split ring in the installed DPDK, as the distribution built it;
- `loopback-mbuf-..`: the split ring against our switch with loopback=mbuf: like the peer, a copy
  into an mbuf and one out of it.
"""

from functools import partial

from definition import Bench, Case
from peers.memif import MemifGuest, MemifHost
from rigs import SPLIT, Guests, Side, SwitchHost, VhostHost

HUGE_MB = 1280

# Of net_virtio_user, by the peer's name in a case.
RINGS = {'inorder': 'mrg_rxbuf=1,in_order=1', 'packed': 'mrg_rxbuf=1,in_order=1,packed_vq=1',
         'vector': 'mrg_rxbuf=0,in_order=0,vectorized=1'}
REMARKS = {'inorder': ', in order', 'packed': ', packed', 'vector': ', vector path'}

AHEAD = {64: {'far': 2.0, 'near': 1.75}, 1518: 1.3}
NEVER_BEHIND = {64: 1.0, 1518: 1.0}
TARGETS = {'': AHEAD, 'debian': AHEAD, 'memif': {64: {'far': 1.0}, 1518: 1.0}}


def ours(place, size, ring, loopback='on'):
    sock = place.rig.path('ours')
    host = SwitchHost(place, [sock], loopback=loopback)
    return Side(Guests(place, [sock], ours=True, ring=ring, fwd='mac'), host, size)


def stock(place, size, ring, peer=''):
    sock = place.rig.path('stock')
    host = VhostHost(place, [sock], ring=ring, fwd='mac')
    guests = Guests(place, [sock], ours=False, ring=ring, fwd='mac', stock=RINGS.get(peer, SPLIT))
    return Side(guests, host, size, REMARKS.get(peer, ''))


def memif(place, size, ring, peer):
    sock, zero_copy = place.rig.path('memif'), peer == 'zerocopy'
    host = MemifHost(place, sock, ring=ring, fwd='mac')
    guest = MemifGuest(place, sock, ring=ring, fwd='mac', zero_copy=zero_copy)
    return Side(guest, host, size, ', zero-copy client' if zero_copy else '')


def sides(place, peer, size, ring):
    if peer == 'debian':
        place.use_installed()
    us = ours(place, size, ring, 'mbuf' if peer == 'mbuf' else 'on')
    them = memif if peer in ('memif', 'zerocopy') else stock
    return us, them(place, size, ring, peer)


def name(peer, size, ring):
    return '-'.join(filter(None, ['loopback', peer, str(size), str(ring)]))


CASES = {name(peer, size, ring): Case('Mpps', TARGETS.get(peer, NEVER_BEHIND)[size],
                                      partial(sides, peer=peer, size=size, ring=ring))
         for peer in ('', 'inorder', 'packed', 'vector', 'memif', 'zerocopy', 'debian', 'mbuf')
         for size in (64, 1518) for ring in (256, 1024)}

BENCH = Bench('loopback', 'guest to host and back, against stock virtio and memif', CASES,
              default=[name('', size, ring) for size in (64, 1518) for ring in (256, 1024)]
              + [name(peer, size, 1024) for peer in ('inorder', 'packed', 'memif', 'debian', 'mbuf')
                 for size in (64, 1518)], huge_mb=HUGE_MB)
