#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Build the fuzz targets with clang and run each for some seconds.

The build goes to BUILD/fuzz. New inputs are kept in BUILD/fuzz/corpus/NAME from run to run, and
what fails in BUILD/fuzz/findings. Exit status: 0 nothing found, 1 a finding, 77 no clang for it.
"""

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from targets import TARGETS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REMEDY = "run make deps (packages clang and libclang-rt-dev)"
SKIP = 77
LONGEST = 86400  # seconds
SANITIZE = ("-fsanitize=fuzzer-no-link,address,undefined", "-fno-sanitize-recover=all")
LINK = "-fsanitize=fuzzer,address,undefined"
# Every load is announced, so that shared memory can change before it.
TRACE = "-fsanitize-coverage=trace-loads"
CFLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-fno-omit-frame-pointer",
          "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers",
          "-Wno-unknown-warning-option")
# In every target: what changes memory between two reads, and must not announce its own.
HARNESS = ("between.c", "arena.c")
# What a run may take beyond its time: to load the corpus, to end.
GRACE = 120


class Cannot(Exception):
    """There is no clang here that can do it, and why."""


def compiler():
    """A clang with its fuzzer runtime; tried, since the runtime is a package of its own."""
    clang = next(filter(None, map(shutil.which, ("clang", "clang-14"))), None)
    if clang is None:
        raise Cannot("clang is not installed")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n);\n"
                          "int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n)\n"
                          "{ return n == 1 && p[0] == 1; }\n", encoding="utf-8")
        for flags in ((LINK, "-o", f"{folder}/probe"), (TRACE, "-c", "-o", f"{folder}/probe.o")):
            done = subprocess.run([clang, *flags, str(source)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  check=False)
            if done.returncode != 0:
                why = (done.stdout.strip().splitlines() or ["it fails"])[0]
                raise Cannot(f"{clang} cannot build a fuzz target: {why}")
    return clang


def write_ninja(folder, clang):
    """One object a source, one program a target."""
    include = " ".join(f"-I{shlex.quote(str(path))}"
                       for path in (HERE, ROOT / "lib/virtqueue", ROOT / "lib/vhost_user"))
    flags = " ".join((*CFLAGS, *SANITIZE, include))
    lines = [
        f"rule cc\n  command = {clang} $trace {flags} -MMD -MF $out.d -c $in -o $out\n"
        "  depfile = $out.d\n  deps = gcc\n  description = clang $in",
        f"rule link\n  command = {clang} {LINK} $wrap $in -o $out"
        " -lpthread\n  description = link $out",
    ]
    objects = {}

    def add(source):
        if source not in objects:
            objects[source] = "obj/" + "-".join(source.relative_to(ROOT).parts) + ".o"
            trace = "" if source.parent == HERE and source.name in HARNESS else TRACE
            lines.append(f"build {objects[source]}: cc {source}\n  trace = {trace}")
        return objects[source]

    for name, target in TARGETS.items():
        sources = [HERE / f"fuzz_{name}.c", *(HERE / one for one in (*target.more, *HARNESS))]
        for library in target.libraries:
            sources += sorted((ROOT / "lib" / library).glob("*.c"))
        wrap = " ".join(f"-Wl,--wrap={function}" for function in target.wrap)
        lines.append(f"build {name}: link {' '.join(add(source) for source in sources)}\n"
                     f"  wrap = {wrap}")
    (folder / "build.ninja").write_text("\n".join(lines) + "\n", encoding="utf-8")


def unpack_seeds(folder, name):
    """Seeds are text, to be read and reviewed: bytes in hex, and what they do behind a #."""
    to = folder / "seeds" / name
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for seed in sorted((HERE / "seeds" / name).glob("*.hex")):
        text = re.sub(r"#.*", "", seed.read_text(encoding="utf-8"))
        try:
            (to / seed.stem).write_bytes(bytes.fromhex(text))
        except ValueError as error:
            sys.exit(f"fuzz: {seed.relative_to(ROOT)}: {error}; write two hex digits a byte")
    return to


def run(folder, name, duration):
    """Fuzz one target; returns what was found out about it."""
    target = TARGETS[name]
    seeds = unpack_seeds(folder, name)
    corpus = folder / "corpus" / name
    findings = folder / "findings"
    for made in (corpus, findings):
        made.mkdir(parents=True, exist_ok=True)
    before = set(findings.glob(f"{name}-*"))
    log = folder / f"{name}.log"
    command = [str(folder / name), str(corpus), str(seeds), f"-max_total_time={duration}",
               f"-max_len={target.max_len}", f"-timeout={target.timeout}", "-rss_limit_mb=2048",
               "-len_control=20", f"-report_slow_units={target.timeout}",
               f"-artifact_prefix={findings}/{name}-", "-print_final_stats=1"]
    started = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        try:
            status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output,
                                    stderr=subprocess.STDOUT, check=False,
                                    timeout=duration + GRACE).returncode
        except subprocess.TimeoutExpired:
            status = None
    text = log.read_text(encoding="utf-8", errors="replace")

    def last(pattern):
        found = re.findall(pattern, text)
        return int(found[-1]) if found else 0

    result = {
        "name": name,
        "seconds": round(time.monotonic() - started),
        "executions": last(r"stat::number_of_executed_units: *(\d+)") or last(r"(?m)^#(\d+)"),
        "edges": last(r"\bcov: (\d+)"),
        "inputs": last(r"\bcorp: (\d+)"),
        "findings": [],
        "outcome": "passed",
        "why": "",
    }
    new = sorted(set(findings.glob(f"{name}-*")) - before)
    if status != 0 or new:
        what = re.findall(r"SUMMARY: (.*)", text) or re.findall(r"ERROR: (.*)", text)
        result["outcome"] = "failed"
        result["why"] = (what[0].replace(f"{ROOT}/", "").strip() if what
                         else f"exit status {status}, see {log}")
        result["findings"] = [str(path) for path in new]
    elif result["executions"] == 0:
        result["outcome"] = "failed"
        result["why"] = f"nothing was executed, see {log}"
    return result


def report(folder, result):
    print(f"fuzz: {result['name']}: {result['executions']} executions in {result['seconds']} s, "
          f"{result['edges']} edges, {result['inputs']} inputs, "
          f"{0 if result['outcome'] == 'passed' else max(1, len(result['findings']))} findings",
          flush=True)
    if result["outcome"] == "failed":
        print(f"fuzz: {result['name']}: {result['why']}")
        for path in result["findings"]:
            print(f"fuzz: {result['name']}: replay: {folder / result['name']} {path}", flush=True)


def whole_seconds(text):
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, 1 to {LONGEST}")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", type=Path, default=Path("build"), metavar="DIR",
                        help="build directory; all goes to DIR/fuzz (default: build)")
    parser.add_argument("--duration", type=whole_seconds, default=60, metavar="SECONDS",
                        help="how long each target runs (default: 60)")
    parser.add_argument("--target", action="append", choices=TARGETS, metavar="NAME",
                        help="only this one; may be repeated: " + " ".join(TARGETS))
    parser.add_argument("--jobs", type=int, default=2, choices=(1, 2),
                        help="targets that run at the same time (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here too")
    args = parser.parse_args()
    folder = (ROOT / args.build).resolve() / "fuzz"
    results = []

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if args.json:
            args.json.touch()
    except OSError as error:
        sys.exit(f"fuzz: {error.filename}: {error.strerror}: --build and --json name places that "
                 "can be written")
    names = args.target or list(TARGETS)
    status = 0
    try:
        write_ninja(folder, compiler())
        subprocess.run(["ninja", "-C", str(folder), "-j", str(args.jobs), "--quiet", *names],
                       stdin=subprocess.DEVNULL, check=True)
        with ThreadPoolExecutor(args.jobs) as pool:
            for result in pool.map(lambda name: run(folder, name, args.duration), names):
                report(folder, result)
                results.append(result)
        status = any(result["outcome"] == "failed" for result in results)
    except Cannot as error:
        print(f"fuzz: skipped: {error}: {REMEDY}")
        results = [{"name": name, "outcome": "skipped", "why": f"{error}: {REMEDY}"}
                   for name in names]
        status = SKIP
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"fuzz: the targets could not be built: {error}")
    finally:
        if args.json:
            args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return int(status)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("fuzz: interrupted")
