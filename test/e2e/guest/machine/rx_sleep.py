# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""rx_sleep in a guest: an application that sleeps on the receive interrupts of a device."""

import os

from harness import rx_sleep

from . import initramfs
from .qemu import DRIVER

FILES = {'/bin/rx_sleep': rx_sleep.program()}


def start(machine, device, *options, eal=(), mem=96):
    """On a device: a BDF, with arguments behind it."""
    # Plugins that nobody here uses need one another, and are found only where they are.
    plugins = os.path.dirname(os.path.realpath(initramfs.plugins()[0]))
    return machine.program(['rx_sleep', '--lcores', '0@0', '-m', str(mem), '-d', DRIVER,
                            '-a', device, *eal, '--', *options],
                           env={'LD_LIBRARY_PATH': plugins})


def result(machine, program):
    """End it; what it saw."""
    machine.run(f'kill {program.pid}')
    assert program.wait() == 0, program.output()[-2000:]
    seen = rx_sleep.parse(program.output())
    print(seen)
    return seen
