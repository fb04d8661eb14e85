#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Does the compiler emit what the litmus tests are about?

The library and shapes.c are compiled for this machine and for aarch64, and in the disassembly of
each function the instructions that carry its orders must stand, in their order. Then the same with
the order taken out of the source, and they must not.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = HERE.parents[2] / "lib/virtqueue"
OPTIONS = ("-O3", "-std=c11", "-D_GNU_SOURCE", "-fno-strict-aliasing")
SOURCES = ("vq_driver.c", "vq_device.c", "shapes.c")
# Prefix of the tools, and the package that has them.
MACHINES = {
    "x86": ("", "gcc"),
    "aarch64": ("aarch64-linux-gnu-", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
}
# What is taken out of which file.
CHANGES = {
    "release": ("vq_order.h", "memory_order_release", "memory_order_relaxed"),
    "acquire": ("vq_order.h", "memory_order_acquire", "memory_order_relaxed"),
    "fence": ("vq_order.h", "atomic_thread_fence(memory_order_seq_cst);", ""),
    "gate": ("shapes.c", "memory_order_seq_cst", "memory_order_relaxed"),
    "leave": ("shapes.c", "memory_order_release", "memory_order_relaxed"),
}
FENCE = {"x86": r"lock or|mfence", "aarch64": r"dmb\tish$"}
# Function, what its orders come from, instructions in their order.
SHAPES = {
    "x86": (
        ("shape_driver_post", "fence", (r"mov +%\w+,0x2\(", FENCE["x86"], r"movzwl \(")),
        ("vq_driver_arm", "fence", (r"mov\w? ", FENCE["x86"], r"movzwl 0x2\(")),
        ("vq_device_arm", "fence", (r"mov\w? ", FENCE["x86"], r"movzwl 0x2\(")),
        ("vq_device_call", "fence", (FENCE["x86"], r"movzwl \(")),
        ("vq_device_call_flush", "fence", (FENCE["x86"], r"movzwl \(")),
        ("shape_gate_enter", "gate", (r"xchg|mfence|lock", r"mov +\(")),
    ),
    "aarch64": (
        ("shape_driver_post", "release", (r"str\tx", r"strh", r"stlrh")),
        ("shape_driver_post", "fence", (r"stlrh", FENCE["aarch64"], r"ldrh")),
        ("shape_device_give", "release", (r"st[pr]\t[wx]", r"stlrh")),
        ("vq_driver_reap", "acquire", (r"ldarh", r"ldr\tw")),
        ("vq_device_peek", "acquire", (r"ldarh", r"ldrh", r"ld[pr]\tx")),
        ("vq_driver_arm", "fence", (r"strh", FENCE["aarch64"], r"ldarh")),
        ("vq_device_arm", "fence", (r"strh", FENCE["aarch64"], r"ldarh")),
        ("vq_device_call", "fence", (FENCE["aarch64"], r"ldrh")),
        ("vq_device_call_flush", "fence", (FENCE["aarch64"], r"ldrh")),
        ("shape_gate_enter", "gate", (r"stlr\tw", r"ldar\tw")),
        ("shape_gate_leave", "leave", (r"stlr\tw",)),
    ),
}


def disassemble(machine, change=None):
    """{function: its instructions}, of the sources with the change made."""
    prefix = MACHINES[machine][0]
    functions = {}
    with tempfile.TemporaryDirectory() as work:
        for file in (*LIBRARY.glob("*.[ch]"), HERE / "shapes.c"):
            text = file.read_text(encoding="utf-8")
            if change and CHANGES[change][0] == file.name:
                if CHANGES[change][1] not in text:
                    raise SystemExit(f"shapes: {file.name} has no {CHANGES[change][1]}")
                text = text.replace(*CHANGES[change][1:])
            (Path(work) / file.name).write_text(text, encoding="utf-8")
        subprocess.run([f"{prefix}gcc", *OPTIONS, "-c", *SOURCES], cwd=work, check=True)
        listing = subprocess.run([f"{prefix}objdump", "-d", "--no-show-raw-insn",
                                  *(source.replace(".c", ".o") for source in SOURCES)], cwd=work,
                                 check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in listing.splitlines():
        start = re.match(r"[0-9a-f]+ <(\w+)>:", line)
        instruction = re.match(r" +[0-9a-f]+:\t(.*?)\s*(?://.*)?$", line)
        if start:
            body = functions.setdefault(start.group(1), [])
        elif instruction:
            body.append(instruction.group(1))
    return functions


def stands(instructions, sequence):
    """Whether the instructions of the sequence stand there in this order, others between them."""
    left = iter(instructions)
    return all(any(re.match(pattern, one) for one in left) for pattern in sequence)


def check(machine):
    """Print a line for each function; return how many are wrong."""
    if machine == "x86" and "x86_64" not in subprocess.run(
            ["gcc", "-dumpmachine"], stdout=subprocess.PIPE, text=True, check=True).stdout:
        print(f"shapes: {machine}: skipped: gcc compiles for another machine")
        return 0
    failed = 0
    as_is = disassemble(machine)
    changed = {change: disassemble(machine, change)
               for change in dict.fromkeys(shape[1] for shape in SHAPES[machine])}
    for function, change, sequence in SHAPES[machine]:
        name = f"{machine}-{function.removeprefix('shape_')}-{change}"
        if not stands(as_is[function], sequence):
            why = "failed: not there: " + ", ".join(sequence)
        elif stands(changed[change].get(function, []), sequence):
            why = f"failed: there without {CHANGES[change][1]} too: " + ", ".join(sequence)
        else:
            why = "passed"
        print(f"shapes: {name}: {why}")
        failed += why != "passed"
    return failed


def main():
    failed = 0
    for machine, (prefix, packages) in MACHINES.items():
        if shutil.which(prefix + "gcc") and shutil.which(prefix + "objdump"):
            failed += check(machine)
        else:
            print(f"shapes: {machine}: skipped: {prefix}gcc is not installed: run make deps "
                  f"({packages})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
