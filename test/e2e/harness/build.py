# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Where the things under test are. SLUICE_BUILD names the build directory (default: build)."""

import os
import shutil

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..', '..'))


def build_dir():
    return os.path.realpath(os.environ.get('SLUICE_BUILD', os.path.join(ROOT, 'build')))


def plugin():
    return os.path.join(build_dir(), 'drivers/net/sluice/librte_net_sluice.so')


def plugin_option(which=True):
    """What testpmd's -d is given, and the environment that goes with it; `which`: True, or a path.

    EAL takes no path below a directory that everybody may write to, such as a checkout in /tmp. A
    bare name it leaves to the dynamic loader, which may be told where to look.
    """
    path = plugin() if which is True else which
    directory = path
    while directory != '/':
        directory = os.path.dirname(directory)
        if os.stat(directory).st_mode & 0o002:
            return os.path.basename(path), {'LD_LIBRARY_PATH': os.path.dirname(path)}
    return path, {}


def vswitch():
    return os.path.join(build_dir(), 'app/sluice-vswitch/sluice-vswitch')


def testpmd():
    return shutil.which('dpdk-testpmd') or '/usr/bin/dpdk-testpmd'


def missing():
    """The first thing that is not there, or None."""
    for path in (plugin(), vswitch(), testpmd()):
        if not os.path.exists(path):
            return path
    return None


def readable_by_others(path):
    """Can an ordinary user get at the file: each directory on the way searchable?"""
    part = path
    while part != '/':
        part = os.path.dirname(part)
        if not os.stat(part).st_mode & 0o001:
            return False
    return bool(os.stat(path).st_mode & 0o004)
