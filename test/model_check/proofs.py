# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The proofs: which function of which file, for which sizes. README.md says what they prove."""

from dataclasses import dataclass, field


@dataclass
class Proof:
    name: str
    source: str
    function: str
    defines: dict = field(default_factory=dict)
    unwind: int = 2
    options: tuple = ()
    # Functions of the library that a model stands for; others prove that the model is right.
    replace: dict = field(default_factory=dict)
    # Functions that return any value, at each call.
    nondet: tuple = ()
    long: bool = False


PROOFS = [Proof(name, "arithmetic.c", f"prove_{name}")
          for name in ("event", "layout", "refill", "coalesce")]

for regions in (1, 2, 3):
    PROOFS.append(Proof(f"map-{regions}", "mem.c", "prove_map", {"REGIONS": regions}, regions + 1,
                        ("--malloc-may-fail", "--malloc-fail-null"), long=regions == 3))
    PROOFS.append(Proof(f"translate-{regions}", "mem.c", "prove_translate", {"REGIONS": regions},
                        regions + 1, long=regions > 1))

for size in (1, 2, 4):
    for order in (0, 1):
        suffix = f"{size}{'-in-order' if order else ''}"
        defines = {"SIZE": size, "IN_ORDER": order}
        PROOFS.append(Proof(f"driver-add-{suffix}", "driver.c", "prove_add",
                            {**defines, "RECEIVE": 0}, size + 1, long=size > 2))
        for receive in (0, 1):
            way = "receive" if receive else "transmit"
            PROOFS.append(Proof(f"driver-reap-{way}-{suffix}", "driver.c", "prove_reap",
                                {**defines, "RECEIVE": receive}, size + 2, long=size > 2))
        PROOFS.append(Proof(f"driver-reap-changing-{suffix}", "driver.c", "prove_reap",
                            {**defines, "RECEIVE": 1}, size + 2, nondet=("read_used",), long=True))
    for part in ("signals", "detach", "init"):
        PROOFS.append(Proof(f"driver-{part}-{size}", "driver.c", f"prove_{part}",
                            {"SIZE": size, "IN_ORDER": 0, "RECEIVE": 0}, size + 1,
                            long=size > 2))
