# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Small C files that are compiled for a test: preloaded ones, and tools."""

import os
import subprocess

HERE = os.path.realpath(os.path.join(os.path.dirname(__file__), '..'))


def compile_shared(source, out_dir):
    """Compile test/e2e/<source> into a library to preload; returns its path."""
    out = os.path.join(out_dir, os.path.basename(source).replace('.c', '.so'))
    if not os.path.exists(out):
        subprocess.run(['cc', '-std=c11', '-D_GNU_SOURCE', '-O2', '-Wall', '-Werror', '-shared',
                        '-fPIC', '-o', out, os.path.join(HERE, source), '-ldl'], check=True)
    return out
