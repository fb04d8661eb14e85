# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A machine in QEMU with a Debian kernel, for the tests: built, booted, talked to, ended."""
