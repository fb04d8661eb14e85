# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Feature bits and burst-mode strings: what a case asks for and what was negotiated."""

BITS = {
    'MAC': 5, 'MRG_RXBUF': 15, 'STATUS': 16, 'CTRL_VQ': 17, 'MQ': 22,
    'INDIRECT_DESC': 28, 'EVENT_IDX': 29, 'PROTOCOL_FEATURES': 30,
    'VERSION_1': 32, 'ACCESS_PLATFORM': 33, 'IN_ORDER': 35,
}
WATCHED = ('MRG_RXBUF', 'INDIRECT_DESC', 'IN_ORDER', 'EVENT_IDX', 'VERSION_1')


def names(bits):
    return [n for n, b in sorted(BITS.items(), key=lambda i: i[1]) if bits >> b & 1]


def assert_features(bits, want, who):
    """`want`: {'MRG_RXBUF': bool, ..}; bits not named are not looked at."""
    print(f'{who}: features 0x{bits:x} {names(bits)}')
    wrong = [f'{n} is {"on" if bits >> BITS[n] & 1 else "off"}'
             for n, on in want.items() if bool(bits >> BITS[n] & 1) != on]
    assert not wrong, f'{who}: not what was asked for: {", ".join(wrong)} (0x{bits:x})'


def sluice_rx_mode(*, in_order, mrg_rxbuf, event_idx, scattered=False, refill='budget'):
    return ('Split' + (' In-Order' if in_order else '')
            + (' Mergeable' if mrg_rxbuf else ' Non-Mergeable')
            + (' Scattered' if scattered else '')
            + (' Event-Idx' if event_idx else '') + ' Refill ' + refill.capitalize())


def sluice_tx_mode(*, in_order, indirect, event_idx):
    return ('Split' + (' In-Order' if in_order else '')
            + (' Indirect' if indirect else ' Direct') + (' Event-Idx' if event_idx else ''))
