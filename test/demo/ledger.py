# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The demo's sums: what was sent, what arrived, what was lost and why. Never clamped."""

import re

SWITCH_SUMS = ('rx_packets', 'replicas', 'delivered', 'tx_packets', 'bytes_delivered',
               'bytes_copied', 'kicks', 'calls', 'calls_suppressed')


def switch_drops(counters):
    """Frames taken from a port and not delivered, by reason."""
    return {k[len('drop_'):]: v for k, v in counters.items() if k.startswith('drop_') and v}


def xstat_sum(xstats, pattern):
    return sum(v for k, v in xstats.items() if re.fullmatch(pattern, k))


class Guest:
    """Counters of one port of the driver at one moment."""

    def __init__(self, testpmd, port):
        stats, xstats = testpmd.stats(port), testpmd.xstats(port)
        self.sent = stats['opackets']
        self.received = stats['ipackets']
        self.reset_drops = xstat_sum(xstats, r'tx_q\d+_reset_drops')
        self.bad = xstat_sum(xstats, r'rx_q\d+_(bad_.*|no_scatter)')
        self.kicks = xstat_sum(xstats, r'[rt]x_q\d+_kicks')


class Direction:
    """From one port to the other over one phase: sent = received + lost by reason + remainder."""

    def __init__(self, name, source, sink, source_was, sink_was, lost):
        self.name = name
        self.sent = source.sent - source_was.sent
        self.received = sink.received - sink_was.received
        self.lost = dict(lost)
        reset = source.reset_drops - source_was.reset_drops
        bad = sink.bad - sink_was.bad
        if reset:
            self.lost['reset'] = self.lost.get('reset', 0) + reset
        if bad:
            self.lost['bad'] = self.lost.get('bad', 0) + bad

    @property
    def remainder(self):
        return self.sent - self.received - sum(self.lost.values())

    def row(self):
        reasons = ', '.join(f'{k} {v}' for k, v in sorted(self.lost.items())) or '-'
        return (f'  {self.name:<10} {self.sent:>12} = {self.received:>12} '
                f'+ {sum(self.lost.values()):>9} lost {self.remainder:>+7}   {reasons}')


def add_up(directions):
    """All directions as one."""
    total = Direction.__new__(Direction)
    total.name = 'sum'
    total.sent = sum(d.sent for d in directions)
    total.received = sum(d.received for d in directions)
    total.lost = {}
    for direction in directions:
        for reason, count in direction.lost.items():
            total.lost[reason] = total.lost.get(reason, 0) + count
    return total


def merge(*losses):
    result = {}
    for loss in losses:
        for reason, count in loss.items():
            result[reason] = result.get(reason, 0) + count
    return result
