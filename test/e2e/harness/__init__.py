# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers

"""What the end-to-end tests are made of: processes, testpmd, the switch, frames, tables."""
