# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Holds back the capture of a net_pcap port until the other side is there to get it."""

from .shim import compile_shared


class Gate:
    def __init__(self, rig):
        self._path = rig.path('gate')
        with open(self._path, 'wb') as f:
            f.write(b'\0')
        self.env = {'LD_PRELOAD': compile_shared('pcap_gate.c', rig.dir),
                    'PCAP_GATE': self._path}

    def open(self):
        with open(self._path, 'r+b') as f:
            f.write(b'\1')
