# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Hugepages for a while: reserved if we may, given back exactly as found."""

import os

NR = '/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages'
FREE = '/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages'


def _number(path):
    with open(path, encoding='ascii') as f:
        return int(f.read())


class Hugepages:
    """Context manager; `reason` says why there are none, else it is None."""

    def __init__(self, megabytes, directory):
        self.pages = megabytes // 2
        self.directory = directory
        self.reason = None
        self._before = None
        self._mounted = False

    def __enter__(self):
        if not os.path.exists(NR):
            self.reason = 'this kernel has no 2 MB hugepages'
            return self
        if _number(FREE) < self.pages:
            if os.geteuid() != 0:
                self.reason = f'{self.pages} free 2 MB hugepages or root needed'
                return self
            self._before = _number(NR)
            self._set(self._before + self.pages - _number(FREE))
            if _number(FREE) < self.pages:
                self.reason = f'the kernel gave only {_number(FREE)} of {self.pages} hugepages'
                self._give_back()
                return self
        os.makedirs(self.directory, exist_ok=True)
        if os.geteuid() != 0:
            self.reason = 'root needed to mount hugetlbfs'
        elif os.system(f'mount -t hugetlbfs -o pagesize=2M none {self.directory}') != 0:
            self.reason = 'cannot mount hugetlbfs'
            self._give_back()
        else:
            self._mounted = True
        return self

    def __exit__(self, *exc):
        if self._mounted:
            for name in os.listdir(self.directory):
                os.unlink(os.path.join(self.directory, name))
            os.system(f'umount {self.directory}')
            self._mounted = False
        if os.path.isdir(self.directory):
            os.rmdir(self.directory)
        self._give_back()

    @staticmethod
    def _set(pages):
        with open(NR, 'w', encoding='ascii') as f:
            f.write(str(pages))

    def _give_back(self):
        if self._before is not None:
            self._set(self._before)
            self._before = None
