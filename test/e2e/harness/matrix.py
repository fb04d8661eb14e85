# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""What a case of the covering array means for the command lines of each piece."""

from . import features
from .covering import pairwise
from .testpmd import sluice_features

# What the driver asks for and the switch offers when nobody says otherwise.
DEFAULT_CASE = {'mrg_rxbuf': True, 'indirect': True, 'in_order': True, 'event_idx': False,
                'ring': 256, 'queues': 1, 'size': 60}
PARAMETERS = {
    'mrg_rxbuf': [True, False],
    'indirect': [True, False],
    'in_order': [True, False],
    'event_idx': [False, True],
    'ring': [256, 1024],
    'queues': [1, 2],
    'huge': [False, True],
    'size': [60, 64, 1500, 1518, 4000, 9000],
}
MAX_PKT_LEN = 9018  # with Ethernet header and FCS
JUMBO_MBUF = 10240


def cases():
    return pairwise(PARAMETERS)


def flag(on):
    return int(on)


def frame_count(case):
    """For each stream: all streams together fit one ring, since the switch may hash them to the
    same queue, also when each frame takes a chain of direct descriptors or merged buffers."""
    return case['ring'] // 8 // case['queues']


def port_options(case, scatter=()):
    """testpmd: a jumbo frame is spread over buffers that merge, or fits in one that is large.

    `scatter`: the ports that receive from a virtqueue here.
    """
    options = {'ring': case['ring'], 'queues': case['queues'], 'mbufs': 8192}
    if case['size'] > 1518:
        options['max_pkt_len'] = MAX_PKT_LEN
        if case['mrg_rxbuf']:
            options['scatter'] = scatter
        else:
            options['mbuf_size'] = JUMBO_MBUF
            options['mbufs'] = 4096 + 2048 * case['queues']
    return options


def sluice_vdev(number, path, case, **more):
    args = {'path': path, 'queues': case['queues'], 'queue_size': case['ring'],
            'mrg_rxbuf': flag(case['mrg_rxbuf']), 'in_order': flag(case['in_order']),
            'indirect': flag(case['indirect']), 'event_idx': flag(case['event_idx']), **more}
    return f'net_sluice_user{number},' + ','.join(f'{k}={v}' for k, v in args.items())


def virtio_vdev(number, path, case, **more):
    args = {'path': path, 'queues': case['queues'], 'queue_size': case['ring'],
            'mrg_rxbuf': flag(case['mrg_rxbuf']), 'in_order': flag(case['in_order']), **more}
    return f'net_virtio_user{number},' + ','.join(f'{k}={v}' for k, v in args.items())


def switch_port(name, path, case, **more):
    """The switch offers what the case names and no more."""
    def word(on):
        return 'on' if on else 'off'
    args = {'path': path, 'queues': case['queues'], 'mtu': MAX_PKT_LEN - 18,
            'mrg_rxbuf': word(case['mrg_rxbuf']), 'in_order': word(case['in_order']),
            'indirect': word(case['indirect']), 'event_idx': word(case['event_idx']), **more}
    return f'{name},' + ','.join(f'{k}={v}' for k, v in args.items())


def wanted_features(case, *, event_idx=True):
    """`event_idx=False`: one of the two ends never asks for it (stock virtio-user)."""
    return {'MRG_RXBUF': case['mrg_rxbuf'], 'INDIRECT_DESC': case['indirect'],
            'IN_ORDER': case['in_order'], 'EVENT_IDX': case['event_idx'] and event_idx,
            'VERSION_1': True}


def assert_sluice_modes(testpmd, case, ports=(0,)):
    """The burst modes of every queue are those of the case."""
    on = {k: case[k] for k in ('in_order', 'event_idx')}
    want = {'rx': features.sluice_rx_mode(mrg_rxbuf=case['mrg_rxbuf'],
                                          scattered='scatter' in port_options(case, ports), **on),
            'tx': features.sluice_tx_mode(indirect=case['indirect'], **on)}
    for port in ports:
        for queue in range(case['queues']):
            for direction, mode in want.items():
                got = testpmd.burst_mode(direction, port, queue)
                print(f'{testpmd.name}: port {port} {direction} queue {queue}: {got}')
                assert got == mode, f'{direction} burst mode "{got}", asked for "{mode}"'


def show_stock_modes(testpmd, ports=(0,)):
    """Stock virtio and vhost ports report none before DPDK 25; shown when they do."""
    for port in ports:
        for direction in ('rx', 'tx'):
            print(f'{testpmd.name}: port {port} {direction}: '
                  f'{testpmd.burst_mode(direction, port) or "driver reports no burst mode"}')


def assert_through_switch(switch, guest, case, devices):
    """Both ends agree on what the case asks for. `devices`: {switch port: testpmd port}."""
    for i, (name, port) in enumerate(devices.items()):
        features.assert_features(switch.wait_up(name), wanted_features(case),
                                 f'switch port {name}')
        features.assert_features(sluice_features(guest, f'net_sluice_user{i}'),
                                 wanted_features(case), f'our driver {i}')
        assert_sluice_modes(guest, case, ports=(port,))
