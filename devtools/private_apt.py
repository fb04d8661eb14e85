# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Run apt with a source list, state and cache of its own, in a directory that the caller gives.

The configuration and the lists of this machine stay as they are. No root is needed.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
CONFIGURATION = """
# Hooks are for the machine's own lists, and may need root.
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::sourcelist "{work}/no-sources.list";
Dir::Etc::sourceparts "{parts}";
Dir::State "{work}/state";
Dir::State::lists "{work}/state/lists";
Dir::Cache "{work}/cache";
Dir::Log "{work}";
# The directories above are of whoever runs this, which may be root where _apt cannot enter.
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::IndexTargets::deb-src::Contents-dsc::DefaultEnabled "false";
"""


class Failure(Exception):
    """One line for the user: what is wrong and what to do."""


def configure(work, sources):
    """Make an apt in the directory `work`; `sources` are the texts of its source lists by name.

    Returns the start of an apt-get command line.
    """
    parts = work / "sources.list.d"
    for directory in (parts, work / "state/lists/partial", work / "cache/archives/partial"):
        directory.mkdir(parents=True)
    for name, text in sources.items():
        (parts / name).write_text(text, encoding="utf-8")
    config = work / "apt.conf"
    config.write_text(CONFIGURATION.format(work=work, parts=parts), encoding="utf-8")
    return ("apt-get", "-q", "-c", str(config))


def errors(log):
    """The lines of an apt log that say what went wrong."""
    with log.open(encoding="utf-8") as lines:
        return "".join(line for line in lines if line.startswith(("E:", "Err:")))


def archive():
    """Where this machine gets Debian from."""
    for file in (Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")):
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found = re.search(r"^(?:deb\s.*?|URIs:\s*)(https?://\S+/debian/?)(?=\s|$)", text, re.M)
        if found:
            return found.group(1)
    return "http://deb.debian.org/debian"


def release(name, kind):
    """Sources for configure(): another release of Debian; `kind` is deb or deb-src."""
    return {"release.list": f"{kind} [signed-by={KEYRING}] {archive()} {name} main\n"}


def one_line_sources(text):
    """deb lines of a sources.list as deb-src lines; options such as signed-by stay as they are."""
    lines = []
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(.*)", line)
        if match and "cdrom:" not in line:
            lines.append("deb-src " + match.group(1))
    return "\n".join(lines) + "\n" if lines else ""


def deb822_sources(text):
    """Stanzas of a .sources file that carry binary packages, as stanzas for their sources."""
    stanzas = []
    for stanza in re.split(r"\n[ \t]*\n", text):
        types = re.search(r"^Types:(.*(?:\n[ \t].*)*)", stanza, re.M | re.I)
        if types and "deb" in types.group(1).split() and "cdrom:" not in stanza:
            stanzas.append(stanza[:types.start()] + "Types: deb-src" + stanza[types.end():])
    return "\n\n".join(stanzas) + "\n" if stanzas else ""


def source_apt(work):
    """An apt-get that knows the sources of this machine's archives."""
    etc = Path("/etc/apt")
    found = [etc / "sources.list", *sorted(etc.glob("sources.list.d/*.list")),
             *sorted(etc.glob("sources.list.d/*.sources"))]
    sources = {}
    for file in found:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        text = deb822_sources(text) if file.suffix == ".sources" else one_line_sources(text)
        if text:
            sources[file.name.replace("sources.list", "main.list")] = text
    if not sources:
        raise Failure("no package archive is configured in /etc/apt: restore its sources.list, then "
                      "run make deps again, or unpack the headers by --source DIR")
    return configure(work, sources)


def unpack_source_package(work, name, version, sources=None):
    """Fetch and unpack a source package with a private apt; return the directory it is in.

    The version may be None: the newest. `sources` as for configure(), else this machine's own.
    """
    if not shutil.which("dpkg-source"):
        raise Failure("dpkg-source is missing: run make deps (package dpkg-dev)")
    apt = configure(work, sources) if sources else source_apt(work)
    log = work / "apt.log"
    wanted = f"{name}={version}" if version else name
    download = ("source", "--download-only", "--only-source", wanted)
    with log.open("w", encoding="utf-8") as out:
        # An archive without sources fails the update and does not matter, if another one has ours.
        for what in (("update",), download):
            done = subprocess.run([*apt, *what], cwd=work, stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=out, check=False)
    dsc = sorted(work.glob("*.dsc"))
    if done.returncode or not dsc:
        sys.stderr.write(errors(log))
        if sources:
            raise Failure(f"{archive()} does not hand out the source of {wanted}: check the network")
        raise Failure(f"the archives in /etc/apt do not hand out the source of {name} {version}. "
                      "Check the network; if the version has left the archive, bring DPDK up to "
                      "date (apt-get update && apt-get install libdpdk-dev dpdk), or take the "
                      f"source from https://snapshot.debian.org/package/{name}/ and unpack the "
                      "headers by --source DIR")
    tree = work / "source"
    done = subprocess.run(["dpkg-source", "--no-check", "-x", str(dsc[0]), str(tree)], cwd=work,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout)
        raise Failure(f"dpkg-source could not unpack {dsc[0].name}: is the disk full?")
    return tree
