# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Faults that the proofs must find: in a copy of the library, one text becomes another."""

from dataclasses import dataclass


@dataclass
class Mutant:
    name: str
    proof: str
    file: str
    old: str
    new: str


MUTANTS = []
