# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Guest to guest: one testpmd with two ports in `io` mode, a host that switches between them.

Ours: our driver and our switch with its table of learned addresses; one copy, from guest to guest.
Peers, with stock net_virtio_user (split ring, mergeable), each with two copies, into an mbuf and
out of it:
- `vm2vm-SIZE`: a testpmd with two net_vhost ports in `io` mode, which looks at no address;
- `vm2vm-ovs-SIZE`: OVS-DPDK by its NORMAL action;
- `vm2vm-example-SIZE`: examples/vhost by its own forwarding (needs a DPDK of build-dpdk).
Rings of 1024, or of 256 with `-256` at the end. What both ports receive is counted: in packets, and
in bytes for 65535 bytes, the longest frames that both ways carry, in merged buffers of 2048.
"""

from functools import partial

from definition import Bench, Case
from peers.ovs import OvsHost
from peers.vhost_example import VhostExample
from rigs import Guests, Side, SwitchHost, VhostHost

HUGE_MB = 1792
BUFFER = 2048  # bytes of a frame in an mbuf
LONGEST = 65535
OVERHEAD = 18  # of a frame over its MTU: addresses, type, a VLAN tag
TARGET = 2.0
HOSTS = {'ovs': OvsHost, 'example': VhostExample}


class Bits(Side):
    """Gbit/s of the frames that arrive."""

    def __call__(self):
        return super().__call__() * self.size * 8 / 1e3


def guests(place, socks, size, **more):
    if size > BUFFER:
        more['segments'] = [BUFFER] * (size // BUFFER) + [size % BUFFER]
    return Guests(place, socks, fwd='io', **more)


def ours(place, side, size, ring):
    socks = [place.rig.path(f'ours{i}') for i in (0, 1)]
    more, mtu = {}, ''
    if size > BUFFER:  # which both of ours want to be told of
        more, mtu = {'max_pkt_len': size, 'scatter': (0, 1)}, f',mtu={size - OVERHEAD}'
    host = SwitchHost(place, socks, mtu)
    return side(guests(place, socks, size, ours=True, ring=ring, **more), host, size)


def stock(place, side, peer, size, ring):
    socks = [place.rig.path(f'peer{i}') for i in (0, 1)]
    if peer:
        host = HOSTS[peer](place, socks)
    else:
        host = VhostHost(place, socks, ring=ring, fwd='io')
    return side(guests(place, socks, size, ours=False, ring=ring), host, size)


def sides(place, peer, size, ring):
    side = Bits if size == LONGEST else Side
    return ours(place, side, size, ring), stock(place, side, peer, size, ring)


def name(peer, size, ring):
    return '-'.join(filter(None, ['vm2vm', peer, str(size), '' if ring == 1024 else str(ring)]))


CASES = {name(peer, size, ring):
         Case('Gbit/s' if size == LONGEST else 'Mpps', TARGET,
              partial(sides, peer=peer, size=size, ring=ring))
         for peer in ('', *HOSTS) for size in (64, 1518, LONGEST) for ring in (1024, 256)
         if not (peer and size == LONGEST)}

BENCH = Bench('switching', 'guest to guest, against a testpmd between two net_vhost, OVS-DPDK and '
              'examples/vhost', CASES, huge_mb=HUGE_MB,
              default=[case for case in CASES if 'example' not in case
                       and (not case.endswith('-256') or case == 'vm2vm-64-256')])
