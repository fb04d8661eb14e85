# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Every pair of feature values, ring sizes, queue counts, page kinds and frame sizes, against
the stock backend, the stock frontend and ourselves. Payload is compared byte for byte."""

import pytest

from harness import features, frames, matrix, pcap
from harness.covering import name_of
from harness.testpmd import sluice_features, vhost_features

MAC_A, MAC_B = '02:51:00:00:00:0a', '02:51:00:00:00:0b'
CASES = matrix.cases()
# The first rows of the array differ most from each other.
PARAMS = [pytest.param(c, id=name_of(c), marks=pytest.mark.check if i < 4 else ())
          for i, c in enumerate(CASES)]


@pytest.fixture
def pages(request, case):
    return request.getfixturevalue('huge_dir') if case['huge'] else None


def captures(rig, case, tag, dst, src):
    """One capture a queue pair, each its own stream; returns contents, sources and sinks."""
    content, sources, sinks = [], [], []
    for queue in range(case['queues']):
        content.append(frames.stream(dst, src, queue, matrix.frame_count(case), case['size']))
        sources.append(rig.capture(f'in-{tag}{queue}.pcap', content[-1]))
        sinks.append(rig.path(f'out-{tag}{queue}.pcap'))
    return content, sources, sinks


@pytest.mark.parametrize('case', PARAMS)
def test_ours_with_stock_net_vhost(rig, case, pages):
    """capture -> stock net_vhost -> our driver, macswap -> stock net_vhost -> capture."""
    content, sources, sinks = captures(rig, case, 'v', MAC_A, MAC_B)
    sock = rig.path('s')
    host = rig.testpmd('vhost', cpu=0, huge_dir=pages, fwd='io',
                       vdevs=[f'net_vhost0,iface={sock},queues={case["queues"]},client=0',
                              rig.pcap_vdev(0, sources, sinks)],
                       **matrix.port_options(case))
    guest = rig.testpmd('sluice', cpu=1, huge_dir=pages, plugin=True,
                        fwd='macswap', topology='loop',
                        vdevs=[matrix.sluice_vdev(0, sock, case)],
                        **matrix.port_options(case, scatter=[0]))
    guest.wait_link(True)
    host.wait_link(True)
    want = matrix.wanted_features(case)
    features.assert_features(sluice_features(guest, 'net_sluice_user0'), want, 'our driver')
    features.assert_features(vhost_features(host), want, 'stock net_vhost')
    matrix.assert_sluice_modes(guest, case)
    matrix.show_stock_modes(host)

    guest.start()
    host.start()
    total = matrix.frame_count(case) * case['queues']
    host.wait_stat(1, 'opackets', total)
    host.stop()
    seen = guest.stop()[0]
    assert (seen['rx'], seen['tx'], seen['tx_dropped']) == (total, total, 0)
    for queue, sent in enumerate(content):
        frames.assert_same(pcap.read(sinks[queue]), [frames.swapped(f) for f in sent],
                           f'queue {queue}')
    stats = guest.stats(0)
    assert stats['ibytes'] == stats['obytes'] == total * case['size']


def through_switch(rig, case, pages, *, ours):
    """capture <-> driver <-> switch <-> driver <-> capture, both ways at once."""
    to_b, in_a, out_a = captures(rig, case, 'a', MAC_B, MAC_A)
    to_a, in_b, out_b = captures(rig, case, 'b', MAC_A, MAC_B)
    vdev = matrix.sluice_vdev if ours else matrix.virtio_vdev
    switch = rig.switch([matrix.switch_port('pa', rig.path('a'), case),
                         matrix.switch_port('pb', rig.path('b'), case)], huge_dir=pages)
    guest = rig.testpmd('guest', cpu=1, huge_dir=pages, plugin=ours,
                        fwd='io', vdevs=[vdev(0, rig.path('a'), case),
                                         rig.pcap_vdev(0, in_a, out_a),
                                         vdev(1, rig.path('b'), case),
                                         rig.pcap_vdev(1, in_b, out_b)],
                        **matrix.port_options(case, scatter=[0, 2]))
    want = matrix.wanted_features(case, event_idx=ours)
    for port in ('pa', 'pb'):
        features.assert_features(switch.wait_up(port), want, f'switch port {port}')
        # Nothing answers when the other pairs are enabled; a frame before that is lost.
        switch.wait_counter(port, 'queue_pairs', case['queues'])
    if ours:
        for device in (0, 1):
            features.assert_features(sluice_features(guest, f'net_sluice_user{device}'), want,
                                     f'our driver {device}')
        matrix.assert_sluice_modes(guest, case, ports=(0, 2))
    else:
        matrix.show_stock_modes(guest, ports=(0, 2))

    guest.start()
    total = matrix.frame_count(case) * case['queues']
    for sink in (1, 3):
        guest.wait_stat(sink, 'opackets', total)
    guest.stop()
    # The switch may spread flows over the receiver's queues: order is kept within a flow, and
    # a stream is one flow.
    for outs, sent, what in ((out_b, to_b, 'a to b'), (out_a, to_a, 'b to a')):
        got = [f for path in outs for f in pcap.read(path)]
        for number, content in enumerate(sent):
            mine = [f for f in got if frames.parse(f)[2] == number]
            frames.assert_same(mine, content, f'{what}, stream {number}')
        assert len(got) == total, f'{what}: {len(got)} frames, expected {total}'
    ledger = switch.assert_ledger()
    for port in ('pa', 'pb'):
        assert ledger[port]['rx_packets'] == ledger[port]['tx_packets'] == total
        assert ledger[port]['rx_bytes'] == ledger[port]['tx_bytes'] == total * case['size']
    switch.quit()


@pytest.mark.parametrize('case', PARAMS)
def test_stock_virtio_user_with_our_switch(rig, case, pages):
    through_switch(rig, case, pages, ours=False)


@pytest.mark.parametrize('case', PARAMS)
def test_ours_through_ours(rig, case, pages):
    through_switch(rig, case, pages, ours=True)


@pytest.mark.check
@pytest.mark.stock
def test_array_covers_every_pair():
    from harness.covering import pairs_of
    from itertools import combinations
    for i, case in enumerate(CASES):
        print(f'{i:2} {name_of(case)}')
    names = list(matrix.PARAMETERS)
    got = set().union(*(pairs_of(c, names) for c in CASES))
    for a, b in combinations(names, 2):
        for x in matrix.PARAMETERS[a]:
            for y in matrix.PARAMETERS[b]:
                assert ((a, x), (b, y)) in got
