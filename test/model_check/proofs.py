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


PROOFS = [Proof(name, "arithmetic.c", f"prove_{name}")
          for name in ("event", "layout", "refill", "coalesce")]

for regions in (1, 2):
    PROOFS.append(Proof(f"map-{regions}", "mem.c", "prove_map", {"REGIONS": regions}, regions + 1,
                        ("--malloc-may-fail", "--malloc-fail-null")))
    PROOFS.append(Proof(f"translate-{regions}", "mem.c", "prove_translate", {"REGIONS": regions},
                        regions + 1))

for size in (1, 2, 4):
    for order in (0, 1):
        suffix = f"{size}{'-in-order' if order else ''}"
        defines = {"SIZE": size, "IN_ORDER": order}
        PROOFS.append(Proof(f"driver-add-{suffix}", "driver.c", "prove_add",
                            {**defines, "RECEIVE": 0}, size + 1))
        for receive in (0, 1):
            way = "receive" if receive else "transmit"
            PROOFS.append(Proof(f"driver-reap-{way}-{suffix}", "driver.c", "prove_reap",
                                {**defines, "RECEIVE": receive}, size + 2))
        if size < 4:
            PROOFS.append(Proof(f"driver-reap-changing-{suffix}", "driver.c", "prove_reap",
                                {**defines, "RECEIVE": 1, "CHANGING": 1}, size + 2,
                                nondet=("read_used",)))
    for part in ("signals", "detach", "init"):
        PROOFS.append(Proof(f"driver-{part}-{size}", "driver.c", f"prove_{part}",
                            {"SIZE": size, "IN_ORDER": 0, "RECEIVE": 0}, size + 1))

# What stands for functions that have proofs of their own.
READS = {"read_desc": "any_desc", "vq_mem_translate": "any_translation", "read_entry": "any_entry"}
PROOFS.append(Proof("device-entry", "device.c", "prove_entry",
                    {"SIZE": 1, "SEGS": 1, "SEG0": 0, "CHAINS": 1, "STEPS": 1, "MEMORY": 32},
                    17,
                    replace={"vq_mem_translate": "any_translation"}))
for size, first in ((1, 0), (1, 1), (2, 0)):
    PROOFS.append(Proof(f"device-chain-{size}-{first}", "device.c", "prove_chain",
                        {"SIZE": size, "SEGS": 2, "SEG0": first, "CHAINS": 1,
                         "STEPS": "UINT32_MAX"}, size + 2, replace=READS))
for size in (1, 2):
    PROOFS.append(Proof(f"device-peek-{size}", "device.c", "prove_peek",
                        {"SIZE": size, "SEGS": 3, "SEG0": 0, "CHAINS": size + 1, "STEPS": 1}, 5,
                        replace={**READS, "any_chain": "chain_of_any_shape"}))
for size in (1, 2, 4):
    PROOFS.append(Proof(f"device-step-{size}", "device.c", "prove_step",
                        {"SIZE": size, "SEGS": 3, "SEG0": 0, "CHAINS": size, "STEPS": 1},
                        size + 1))

# Accesses of the publisher: an index, a wish and the bell a turn, and at the end of held calls.
EVENTS = {"vq_used_event": "used_event", "vq_avail_event": "avail_event"}
for name, rounds in (("calls", 6), ("kicks", 4)):
    for rule, event in (("flags", 0), ("event", 1)):
        for size in (1, 2, 4):
            PROOFS.append(Proof(f"{name}-{rule}-{size}", "notify.c", f"prove_{name}",
                                {"TURNS": 1, "ROUNDS": rounds, "EVENT": event, "SIZE": size}, 8,
                                replace=EVENTS))
PROOFS.append(Proof("kicks-event-any", "notify.c", "prove_kicks",
                    {"TURNS": 1, "ROUNDS": 4, "EVENT": 1}, 8, replace=EVENTS))

PROOFS.append(Proof("net-take-1", "net.c", "prove_take", {"SIZE": 1, "CHAINS": 1, "SEGS": 2}, 5))

# What make test proves: about a minute of one CPU. make model-check proves all.
SHORT = ("event", "layout", "refill", "coalesce", "map-2", "translate-1", "driver-add-2",
         "driver-add-2-in-order", "driver-reap-transmit-2", "driver-reap-receive-2",
         "driver-reap-transmit-2-in-order", "driver-reap-receive-2-in-order", "driver-signals-2",
         "driver-detach-2", "driver-init-2", "device-chain-1-0", "device-peek-1", "device-step-1",
         "calls-flags-1", "kicks-flags-2", "kicks-event-2")
