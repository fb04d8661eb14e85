# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Devices of a guest at our driver, in one testpmd that lives as long as the guest: a start of
EAL takes seconds there, to attach a device with other arguments or to start its port a tenth."""

import re

from harness import features
from harness.proc import ProcError
from harness.testpmd import last_features

DEVARGS = ('mrg_rxbuf', 'indirect', 'event_idx', 'in_order')
STANDARD_MTU, JUMBO_MTU = 1500, 9000
# For a pool of mbufs that hold 2048 bytes: around what one, two and four of them hold.
SIZES = {'small': (60, 64, 65, 300, 1500, 1518), 'jumbo': (60, 1518, 2048, 2049, 4096, 4097, 9000)}


def devargs(case):
    return ','.join(f'{key}={int(case[key])}' for key in DEVARGS if key in case)


def wanted_features(case, **more):
    names = {'mrg_rxbuf': 'MRG_RXBUF', 'indirect': 'INDIRECT_DESC', 'event_idx': 'EVENT_IDX',
             'in_order': 'IN_ORDER'}
    return {'VERSION_1': True, **{name: case[key] for key, name in names.items() if key in case},
            **more}


class Ports:
    """Devices by their index in the machine, and as many ports from 0 on; ports of other drivers
    come after them. A case has DEVARGS, `ring`, `queues`, and `sizes`: a key of SIZES."""

    def __init__(self, machine, devices, case, tx_ring=1024, **options):
        self.machine, self.bdfs = machine, [machine.bdf(device) for device in devices]
        for device in devices:
            machine.bind(device, 'uio_pci_generic')
        self._tx_ring = tx_ring  # at most
        self._devargs = devargs(case)
        self.testpmd = machine.testpmd([f'{bdf},{self._devargs}' for bdf in self.bdfs], **options)

    def _cmd(self, line, *, done=None):
        text = self.testpmd.cmd(line)
        if re.search(r'[Ff]ail|Bad arguments|must be stopped|Invalid', text) \
                or (done and done not in text):
            raise ProcError(f'{self.testpmd.name}: {line}: {text}')
        return text

    def _attach(self, arguments):
        for port, _ in enumerate(self.bdfs):
            self._cmd(f'port detach {port}', done='is detached')
        for port, bdf in enumerate(self.bdfs):
            self._cmd(f'port attach {bdf},{arguments}', done=f'Port {port} is attached')
        self._devargs = arguments

    def configure(self, case):
        """Stop everything and set it up for a case; started by start()."""
        self.testpmd.cmd('stop')
        self._cmd('port stop all')
        if devargs(case) != self._devargs:
            self._attach(devargs(case))
        jumbo = case['sizes'] == 'jumbo'
        for what, number in (('rxq', case['queues']), ('txq', case['queues']),
                             ('rxd', case['ring']), ('txd', min(case['ring'], self._tx_ring))):
            self._cmd(f'port config all {what} {number}')
        for port, _ in enumerate(self.bdfs):
            self._cmd(f'port config {port} rx_offload scatter {"on" if jumbo else "off"}')
            self._cmd(f'port config mtu {port} {JUMBO_MTU if jumbo else STANDARD_MTU}')

    def start(self):
        self._cmd('port start all', done='Done')

    def assert_counted(self, sent):
        """Each port received and transmitted frames of so many bytes, all of them since the
        statistics were cleared: {port: frames}."""
        for port, content in sent.items():
            stats = self.testpmd.stats(port)
            want = {'ipackets': len(content), 'ibytes': sum(map(len, content)), 'ierrors': 0,
                    'opackets': len(content), 'obytes': sum(map(len, content)), 'oerrors': 0}
            assert {key: stats[key] for key in want} == want, f'port {port}'

    def assert_agreed(self, case, **more):
        """What the driver logged, and the burst mode of each queue, are those of the case."""
        on = {key: case.get(key, False) for key in ('in_order', 'event_idx')}
        want = {'rx': features.sluice_rx_mode(mrg_rxbuf=case['mrg_rxbuf'],
                                              scattered=case['sizes'] == 'jumbo', **on),
                'tx': features.sluice_tx_mode(indirect=case['indirect'], **on)}
        for port, bdf in enumerate(self.bdfs):
            bits = last_features(self.testpmd, rf'{bdf}: negotiated features (0x[0-9a-f]+)')
            features.assert_features(bits, wanted_features(case, **more), f'our driver {bdf}')
            for queue in range(case['queues']):
                got = {d: self.testpmd.burst_mode(d, port, queue) for d in want}
                assert got == want, f'port {port} queue {queue}'
                size = re.search(r'Number of RXDs: (\d+)',
                                 self.testpmd.cmd(f'show rxq info {port} {queue}'))
                assert int(size[1]) == case['ring']
