# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The guest's file system: Debian's kernel modules, busybox and dpdk-testpmd, and what we built.

Two archives, each in the build directory under the hash of what goes in: a base that only an
upgrade of packages changes, and a small one with our driver and the programs that a test names.
Beside them the kernel, unpacked, which QEMU starts sooner than one that unpacks itself.
"""

import glob
import hashlib
import os
import re
import shutil
import struct
import subprocess

from harness import build

from .cpio import Archive

HERE = os.path.dirname(__file__)
FETCHED = os.path.join(build.ROOT, '.deps/guest')
# With what they need of one another; what is built into the kernel is left out.
MODULES = ('virtio_pci', 'virtio_net', 'uio_pci_generic', 'vfio-pci', 'vfio_iommu_type1',
           'af_packet', '8021q', 'tun', 'veth', 'sch_ingress', 'cls_matchall', 'act_skbmod',
           'act_mirred')
PROGRAMS = ('dpdk-testpmd', 'iperf3', 'ethtool', 'ip', 'tc')
# DPDK loads them by itself from where Debian has them.
PLUGINS = ('mempool_ring', 'bus_pci', 'bus_vdev', 'net_virtio', 'net_null', 'net_pcap', 'net_ring')
# Opened by name by the C library when a thread ends.
LIBRARIES = ('libgcc_s.so.1',)
# Where a bzImage says where its payload is, and how one begins that lz4 has packed.
SETUP_SECTORS, PAYLOAD, LZ4 = 0x1f1, 0x248, b'\x02\x21\x4c\x18'


class Missing(Exception):
    """Something that a guest is made of is not there: a reason to skip."""


def program(name):
    path = shutil.which(name, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    if path is None:
        raise Missing(f'{name} is not installed: run make deps')
    return path


def fetch():
    """Kernel and QEMU, if they are not there yet."""
    done = subprocess.run([os.path.join(build.ROOT, 'devtools/fetch-guest')], check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Missing((done.stdout.strip().splitlines() or ['fetch-guest failed'])[-1])
    libraries(qemu())


def qemu():
    return os.path.join(FETCHED, 'usr/bin/qemu-system-x86_64')


def shared(name):
    """A directory of what QEMU loads into a machine."""
    return os.path.join(FETCHED, 'usr/share', name)


def kernel():
    """The kernel as an ELF file, or as it came if it is packed otherwise than Debian's."""
    path = glob.glob(os.path.join(FETCHED, 'boot/vmlinuz-*'))[0]
    with open(path, 'rb') as f:
        image = f.read()
    offset, length = struct.unpack_from('<II', image, PAYLOAD)
    offset += (image[SETUP_SECTORS] + 1) * 512
    payload = image[offset:offset + length - 4]  # behind it, its length unpacked
    if not payload.startswith(LZ4):
        return path

    def make():
        return subprocess.run([program('lz4'), '-dc'], input=payload, stdout=subprocess.PIPE,
                              check=True).stdout
    return cached('vmlinux', stamp({path: None}).encode(), make, '.elf')


# --- what belongs to what -------------------------------------------------------------------


def libraries(path):
    """The shared libraries of a program or library, by the names that the loader looks for."""
    done = subprocess.run(['ldd', path], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    missing = re.search(r'(\S+) => not found', done.stdout)
    if missing:
        raise Missing(f'{path} needs {missing[1]}, which is not installed')
    return re.findall(r'(?:=> )?(/\S+) \(0x', done.stdout)


def real_directory(path):
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def with_links(paths):
    """{place: link target, or None for a file}. A library that were there twice, under two names
    that are no links, would be loaded twice, and DPDK does not survive that."""
    places = {}
    for path in paths:
        path = real_directory(path)
        while path not in places:
            places[path] = os.readlink(path) if os.path.islink(path) else None
            if places[path] is None:
                break
            path = real_directory(os.path.join(os.path.dirname(path), places[path]))
    return places


def closure(paths):
    """Files, what they are links to, and the libraries they need."""
    return with_links([*paths, *(lib for path in paths for lib in libraries(path))])


def module_files():
    """Paths of MODULES in the order in which they are to be loaded."""
    found = {re.sub(r'\.ko.*', '', os.path.basename(path)).replace('-', '_'): path
             for path in glob.glob(os.path.join(FETCHED, 'lib/modules/*/kernel/**/*.ko'),
                                   recursive=True)}
    ordered = []

    def add(name):
        path = found.get(name.replace('-', '_'))
        if path is None or path in ordered:
            return
        with open(path, 'rb') as f:
            depends = re.search(rb'\0depends=([^\0]*)\0', f.read())
        for other in depends[1].decode().split(',') if depends and depends[1] else []:
            add(other)
        ordered.append(path)

    for name in MODULES:
        add(name)
    if not ordered:
        raise Missing(f'no kernel modules below {FETCHED}')
    return ordered


def plugins():
    found = [path for name in PLUGINS
             for path in glob.glob(f'/usr/lib/*/dpdk/pmds-*/librte_{name}.so')]
    if len(found) < len(PLUGINS):
        raise Missing('plugins of DPDK are not installed: run make deps')
    return found


# --- archives -------------------------------------------------------------------------------


def stamp(places):
    """What stands for the content of installed files: a package that changes one changes this."""
    lines = []
    for place, target in sorted(places.items()):
        status = os.lstat(place)
        lines.append(f'{place} {target} {status.st_size} {status.st_mtime_ns}')
    return '\n'.join(lines)


def put(archive, places):
    for place, target in sorted(places.items()):
        if target is not None:
            archive.link(place, target)
            continue
        with open(place, 'rb') as f:
            archive.file(place, f.read())


def cached(name, key, make, suffix='.cpio'):
    """The file of this content in the build directory; made if it is not there."""
    directory = os.path.join(build.build_dir(), 'guest')
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f'{name}-{hashlib.sha256(key).hexdigest()[:16]}{suffix}')
    if not os.path.exists(path):
        fresh = f'{path}.{os.getpid()}'
        with open(fresh, 'wb') as f:
            f.write(make())
        for old in glob.glob(os.path.join(directory, f'{name}-*{suffix}')):
            os.unlink(old)
        os.rename(fresh, path)
    return path


def base():
    """Everything that does not come out of this tree."""
    installed = closure([program(name) for name in PROGRAMS] + plugins())
    gcc = glob.glob('/usr/lib/*-linux-gnu/' + LIBRARIES[0]) + glob.glob('/lib/*-linux-gnu/'
                                                                       + LIBRARIES[0])
    installed.update(with_links(gcc[:1]))
    busybox = program('busybox')
    if libraries(busybox):
        raise Missing('busybox is not busybox-static: run make deps')
    modules = module_files()
    with open(os.path.join(HERE, 'init'), 'rb') as f:
        init = f.read()
    with open(__file__, 'rb') as f:
        recipe = f.read()
    own = with_links([busybox, *modules])

    def make():
        archive = Archive()
        for name in ('bin', 'sbin', 'lib', 'lib64'):
            archive.link(name, f'usr/{name}')
        for name in ('proc', 'sys', 'dev', 'run', 'tmp', 'root', 'etc', 'var', 'usr/sbin',
                     'usr/lib64'):
            archive.directory(name)
        archive.link('var/run', '/run')
        archive.character_device('dev/console', 5, 1)
        archive.file('init', init)
        put(archive, installed)
        with open(busybox, 'rb') as f:
            archive.file('usr/bin/busybox', f.read())
        for path in modules:
            with open(path, 'rb') as f:
                archive.file('usr/lib/modules/' + os.path.basename(path), f.read(), 0o644)
        archive.file('usr/lib/modules/order',
                     ''.join(os.path.basename(p) + '\n' for p in modules).encode(), 0o644)
        return archive.data()
    return cached('base', stamp({**installed, **own}).encode() + init + recipe, make)


def ours(files):
    """Our driver, and {place in the guest: file of the host} with the libraries they need."""
    files = {'/usr/lib/sluice/librte_net_sluice.so': build.plugin(), **files}
    content = {}
    needed = {}
    for place, path in files.items():
        with open(path, 'rb') as f:
            content[place] = f.read()
        if content[place].startswith(b'\x7fELF'):
            needed.update(with_links(libraries(path)))

    def make():
        archive = Archive()
        for place, data in content.items():
            # A directory would replace the link that /bin is.
            archive.file(re.sub('^/(bin|sbin|lib|lib64)/', r'/usr/\1/', place), data)
        put(archive, needed)
        return archive.data()
    key = b'\0'.join(part for place, data in sorted(content.items())
                     for part in (place.encode(), data))
    return cached('ours', key + stamp(needed).encode(), make)


def archives(files):
    """Paths of the archives of a guest that has these files besides its own."""
    return [base(), ours(files)]
