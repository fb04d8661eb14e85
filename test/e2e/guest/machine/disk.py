# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Files into a running guest and out of it: an archive on a disk, since a terminal is slow."""

import glob
import io
import os
import tarfile

from . import initramfs

MODULE = '/lib/modules/virtio_blk.ko'
DEVICE = '/dev/vda'


class Disk:
    """boot(..., files=disk.files, extra=disk.arguments), then use(machine)."""

    def __init__(self, rig, megabytes=64):
        self._path = rig.path('disk')
        with open(self._path, 'wb') as f:
            f.truncate(megabytes << 20)
        self._machine = None
        modules = glob.glob(os.path.join(initramfs.FETCHED, 'lib/modules/*/kernel', '**',
                                         os.path.basename(MODULE)), recursive=True)
        self.files = {MODULE: modules[0]}
        self.arguments = ['-drive', f'file={self._path},format=raw,if=none,id=disk,cache=unsafe',
                          '-device', 'virtio-blk-pci,drive=disk']

    def use(self, machine):
        self._machine = machine
        machine.run(f'insmod {MODULE}')

    def put(self, directory, content):
        """Write files, {name: bytes}, into a directory of the guest."""
        with open(self._path, 'r+b') as f, tarfile.open(fileobj=f, mode='w') as tar:
            for name, data in content.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        self._machine.run(f'mkdir -p {directory} && tar xf {DEVICE} -C {directory}')

    def get(self, directory, names):
        """Read files out of a directory of the guest; their bytes in this order."""
        # The guest's kernel writes its last block when the device is closed.
        self._machine.run(f'cd {directory} && tar cf {DEVICE} {" ".join(names)}')
        with tarfile.open(self._path) as tar:
            return [tar.extractfile(name).read() for name in names]
