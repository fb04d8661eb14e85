#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Prove with CBMC what proofs.py lists, of the sources of lib/virtqueue as they are.

A proof holds when every assertion of it holds, those of CBMC about memory and arithmetic and the
bounds of all loops included, and when every place that it marks by REACH can be reached. With
--mutants, each change of mutants.py is made to a copy of the library, and its proof must fail.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
from mutants import MUTANTS  # noqa: E402
from proofs import PROOFS, SHORT  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARY = ROOT / "lib/virtqueue"
BIN = ROOT / ".deps/bin"
CHECKS = ("bounds", "pointer", "div-by-zero", "signed-overflow", "undefined-shift",
          "pointer-overflow", "pointer-primitive")
# Of one run: CPU seconds, and bytes, so that a formula that grew does not take the machine.
CPU, MEMORY = 300, 3 << 30


class Failure(Exception):
    """What did not hold, or why nobody knows."""


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run(*command):
    done = subprocess.run([str(word) for word in command], cwd=HERE, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          preexec_fn=limit)
    # cbmc ends with 10 when an assertion does not hold.
    if done.returncode not in (0, 10):
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Failure(f"{Path(command[0]).name} ended with {done.returncode}: "
                      f"{said[-1] if said else 'out of time or memory'}")
    return done.stdout


def assertions(proof, library, work):
    """(description, status) of every assertion of a proof."""
    source, program = work / "proof.i", work / "proof.goto"
    run("gcc", "-E", "-std=c11", "-D_GNU_SOURCE", *(f"-D{name}={value}" for name, value in
                                                    proof.defines.items()),
        "-I", HERE / "include", "-I", HERE, "-I", library, HERE / proof.source, "-o", source)
    run(BIN / "goto-cc", "-std=c11", source, "--function", proof.function, "-o", program)
    for name, model in proof.replace.items():
        run(BIN / "goto-instrument", "--replace-calls", f"{name}:{model}", program, program)
    for name in proof.nondet:
        run(BIN / "goto-instrument", "--remove-function-body", name, program, program)
        run(BIN / "goto-instrument", "--generate-function-body", name,
            "--generate-function-body-options", "nondet-return", program, program)
    answer = run(BIN / "cbmc", program, "--json-ui", "--verbosity", "4", "--no-standard-checks",
                 *(f"--{check}-check" for check in CHECKS), "--unwinding-assertions",
                 "--drop-unused-functions", "--unwind", proof.unwind, *proof.options)
    for part in json.loads(answer):
        if "result" in part:
            return [(f"{case['description']} ({where(case)})", case["status"])
                    for case in part["result"]]
    raise Failure("cbmc gave no result")


def where(case):
    place = case.get("sourceLocation", {})
    return f"{Path(place.get('file', '?')).name}:{place.get('line', '?')}"


def prove(proof, library=LIBRARY):
    """How many assertions hold and how many places are reached; Failure if not all."""
    with tempfile.TemporaryDirectory() as work:
        found = assertions(proof, library, Path(work))
    reach = [(text, status) for text, status in found if text.startswith("reach: ")]
    must = [(text, status) for text, status in found if not text.startswith("reach: ")]
    bad = [text for text, status in must if status == "FAILURE"]
    bad += [f"undecided: {text}" for text, status in must
            if not bad and status not in ("SUCCESS", "FAILURE")]
    if bad:
        raise Failure(f"{len(bad)} do not hold, the first: {bad[0]}")
    bad = [text for text, status in reach if status != "FAILURE"]
    if bad or not reach or not must:
        raise Failure(f"proves nothing: {bad[0] if bad else 'no assertion'} is never true")
    return len(must), len(reach)


def refute(mutant):
    """The proof must not hold of a library with one fault."""
    proof = next(proof for proof in PROOFS if proof.name == mutant.proof)
    with tempfile.TemporaryDirectory() as copy:
        for file in LIBRARY.glob("*.[ch]"):
            text = file.read_text(encoding="utf-8")
            if file.name == mutant.file:
                for old, new in filter(None, ((mutant.old, mutant.new), mutant.also)):
                    if text.count(old) != 1:
                        raise Failure(f"{mutant.file} has {text.count(old)} times: {old.strip()}")
                    text = text.replace(old, new)
            (Path(copy) / file.name).write_text(text, encoding="utf-8")
        try:
            prove(proof, Path(copy))
        except Failure as failure:
            if "do not hold" in str(failure):
                return str(failure)
            raise
    raise Failure("holds all the same")


def outcome(name, work):
    started = time.monotonic()
    try:
        text = work()
        result = "passed"
    except Failure as failure:
        text, result = str(failure), "failed"
    print(f"proof: {name}: {result}: {text}, {time.monotonic() - started:.1f} s", flush=True)
    return result == "passed"


def chosen(args):
    """Names and functions of what is to be done."""
    if args.mutants:
        return [(f"{mutant.proof}-without-{mutant.name}", lambda mutant=mutant: refute(mutant))
                for mutant in MUTANTS if not args.proof or mutant.proof in args.proof]

    def one(proof):
        holds, reached = prove(proof)
        return f"{holds} assertions hold, {reached} places reached"
    return [(proof.name, lambda proof=proof: one(proof)) for proof in PROOFS
            if proof.name in (args.proof or SHORT) or (args.all and not args.proof)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("proof", nargs="*", help="names of proofs (default: the short ones)")
    parser.add_argument("--all", action="store_true", help="the long ones too")
    parser.add_argument("--mutants", action="store_true",
                        help="check that the proofs fail for libraries with a fault")
    parser.add_argument("--list", action="store_true", help="print the names and do nothing")
    args = parser.parse_args()
    unknown = set(args.proof) - {proof.name for proof in PROOFS}
    if unknown:
        sys.exit(f"prove.py: no proof '{min(unknown)}'; --list --all prints them")
    todo = chosen(args)
    if args.list:
        print("\n".join(name for name, _ in todo))
        return 0
    fetched = subprocess.run([sys.executable, ROOT / "devtools/fetch-tool", "cbmc"], check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if fetched.returncode:
        reason = fetched.stdout.strip().splitlines()[-1]
        for name, _ in todo:
            print(f"proof: {name}: skipped: {reason}")
        return 0
    with ThreadPoolExecutor(2) as pool:
        return 0 if all(list(pool.map(lambda one: outcome(*one), todo))) else 1


if __name__ == "__main__":
    sys.exit(main())
