#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Run the litmus tests under herd7: is what a barrier forbids impossible, and only by the barrier?

Each *.litmus beside this file is run as it is, and must observe its condition never and no data
race. Each `twin` line in its comment names a barrier that is taken away, as TEXT => OTHER TEXT of
the program; TEXT [2] is the second place where it stands; several are separated by |. Then the
condition must be observed sometimes, or there must be a data race, as the line says. So a test
cannot pass because its condition was impossible anyway.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
HERD = ROOT / ".deps/bin/herd7"
# RC11 for C, the vendor's model for aarch64, total store order for x86-64.
MODELS = {"C": ("-model", "rc11.cat"), "AArch64": (), "X86_64": ("-model", "x86tso-mixed.cat")}
# For one of them, which takes two at most.
SECONDS = 100


class Failure(Exception):
    """What a test said that it should not have."""


def read(file):
    """Head line, comment and program of a litmus file."""
    text = file.read_text(encoding="utf-8")
    head, _, rest = text.partition("\n")
    comments = "\n".join(re.findall(r"\(\*(.*?)\*\)", rest, re.S))
    return head, comments, re.sub(r"\(\*.*?\*\)\n?", "", rest, flags=re.S)


def without(program, changes):
    """The program with the changes made, all of them at once."""
    places = []
    for change in changes.split(" | "):
        found = re.fullmatch(r"(.+?)(?: \[(\d+)\])? =>(?: (.+))?", change.strip())
        if not found:
            raise Failure(f"not TEXT => OTHER TEXT: {change}")
        text, which, other = found.groups()
        at = [place.start() for place in re.finditer(re.escape(text), program)]
        if len(at) < int(which or 1) or (which is None and len(at) != 1):
            raise Failure(f"'{text}' stands {len(at)} times in the program")
        at = at[int(which or 1) - 1]
        places.append((at, at + len(text), other or ""))
    for start, end, other in sorted(places, reverse=True):
        program = program[:start] + other + program[end:]
    return program


def observe(head, program):
    """What herd7 observes of the condition (never, sometimes, always), and whether it saw a race."""
    arch = head.split()[0]
    with tempfile.NamedTemporaryFile("w", suffix=".litmus") as file:
        file.write(f"{head}\n{program}")
        file.flush()
        try:
            done = subprocess.run([HERD, *MODELS[arch], file.name], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise Failure(f"not decided in {SECONDS} s") from error
    found = re.search(r"^Observation \S+ (\w+) ", done.stdout, re.M)
    if not found or "Warning" in done.stderr:
        raise Failure(f"herd7: {done.stderr.strip() or 'no observation'}")
    return found.group(1).lower(), "Flag *undef*" in done.stdout


def check(file):
    """Name, outcome and reason of the test and of each of its twins."""
    name = file.name.removesuffix(".litmus")
    results = []
    try:
        head, comments, program = read(file)
        expected = "sometimes" if "expect sometimes" in comments else "never"
        twins = re.findall(r"^\s*twin (\w+): (.*?)\s*$", comments, re.M)
        if not twins and expected == "never":
            raise Failure("no twin without the barrier")
        seen, race = observe(head, program)
        if race or seen != expected:
            raise Failure(f"observed {seen}{' and a data race' if race else ''}, not {expected}")
        results.append((name, "passed", f"{expected}"))
    except Failure as failure:
        return [(name, "failed", str(failure))]
    for number, (wanted, changes) in enumerate(twins, 1):
        twin = f"{name}-without-{number}"
        try:
            seen, race = observe(head, without(program, changes))
            if not (race if wanted == "race" else seen == wanted):
                raise Failure(f"observed {seen}, {'a' if race else 'no'} data race, although "
                              f"{changes}")
            results.append((twin, "passed", f"{wanted}: {changes}"))
        except Failure as failure:
            results.append((twin, "failed", str(failure)))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("test", nargs="*", help="names of tests (default: all)")
    args = parser.parse_args()
    files = [HERE / f"{name}.litmus" for name in args.test] or sorted(HERE.glob("*.litmus"))

    fetched = subprocess.run([sys.executable, ROOT / "devtools/fetch-tool", "herd7"], check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if fetched.returncode:
        reason = fetched.stdout.strip().splitlines()[-1]
        for file in files:
            print(f"litmus: {file.name.removesuffix('.litmus')}: skipped: {reason}")
        return 0
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for results in pool.map(check, files):
            for name, outcome, why in results:
                print(f"litmus: {name}: {outcome}: {why}")
                failed += outcome == "failed"
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
