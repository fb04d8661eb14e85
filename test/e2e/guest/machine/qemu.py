# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""QEMU with a Debian kernel: a process like the others of a rig, and a guest that obeys."""

import os
import re

from harness.proc import Proc, ProcError
from harness.testpmd import prompt_options

from . import initramfs
from .qmp import Qmp
from .terminal import GuestTestpmd, Program, Shell

SHELL, FIRST_PROGRAM, LAST_PROGRAM = 1, 2, 3
# Without instructions that move a string of bytes: what emulates them does so a byte at a time.
CPU = 'max,erms=off,fsrm=off'
# Neither to say much over a slow port, nor to try out its own cryptography, nor to wait long where
# one guest is all that runs.
KERNEL = ('console=ttyS0 loglevel=4 nokaslr mitigations=off tsc=reliable no_timer_check '
          'random.trust_cpu=on rcupdate.rcu_expedited=1 audit=0 apparmor=0 selinux=0 '
          'cryptomgr.notests=1 initcall_blacklist=crypto_kdf108_init')
DRIVER = '/usr/lib/sluice/librte_net_sluice.so'
DEAD = re.compile(r'Kernel panic|BUG: unable to handle|general protection fault')


def vhost_user(path, *, server=False, reconnect=1):
    """What stands behind a network device: a vhost-user socket. `server`: QEMU listens at it, and
    waits for the first to connect before it boots."""
    life = 'server=on' if server else f'reconnect={reconnect}' if reconnect else 'server=off'

    def arguments(number, queues):
        return ['-chardev', f'socket,id=c{number},path={path},{life}',
                '-netdev', f'vhost-user,id=n{number},chardev=c{number},queues={queues}']
    return arguments


def netdev(text):
    """Another thing behind it, in the words of QEMU's -netdev without id."""
    def arguments(number, queues):
        return ['-netdev', text + f',id=n{number}' + (f',queues={queues}' if queues > 1 else '')]
    return arguments


class Nic:
    """A virtio network device. `behind` is vhost_user() or netdev(); `properties` are those of
    QEMU's virtio-net-pci with _ for -; `hotplug` puts it where it may be unplugged."""

    def __init__(self, behind, *, mac, queues=1, ring=256, hotplug=False, **properties):
        self.behind, self.queues, self.hotplug = behind, queues, hotplug
        self.properties = {'mac': mac, 'rx_queue_size': ring, 'tx_queue_size': ring,
                           'romfile': '', **properties}
        if queues > 1:
            self.properties = {'mq': 'on', 'vectors': 2 * queues + 2, **self.properties}

    def arguments(self, number, root_port):
        place = f'bus=pcie.0,addr={number + 3:#x}'
        text = f'virtio-net-pci,id=nic{number},netdev=n{number}'
        argv = self.behind(number, self.queues)
        if self.hotplug:
            argv += ['-device', f'pcie-root-port,id=root{number},chassis={root_port},{place}']
            place = f'bus=root{number}'
        # mrg_rxbuf and the like have an underscore in QEMU too.
        return argv + ['-device', ','.join([text, place] + [f'{key}={value}' for key, value
                                                            in self.properties.items()])]


def arguments(*, runtime_dir, initrd, nics, memory, cpus, hugepages, iommu, append, extra):
    data = [word for name in ('seabios', 'qemu') for word in ('-L', initramfs.shared(name))]
    argv = [initramfs.qemu(), *data, '-accel', 'tcg,thread=multi',
            '-machine', 'q35,memory-backend=ram', '-cpu', CPU,
            # Where there can be only one CPU, QEMU makes plain accesses of locked instructions, and
            # the full fences of a driver are none for a device in another process.
            '-smp', f'{cpus},maxcpus={max(cpus, 2)}', '-m', f'{memory}M',
            '-object', f'memory-backend-memfd,id=ram,size={memory}M,share=on',
            '-nodefaults', '-no-user-config', '-display', 'none',
            '-kernel', initramfs.kernel(), '-initrd', initrd,
            '-chardev', 'stdio,id=console,signal=off', '-serial', 'chardev:console']
    for number in range(SHELL, LAST_PROGRAM + 1):
        argv += ['-chardev', f'socket,id=t{number},path={runtime_dir}/t{number},server=on,wait=off',
                 '-serial', f'chardev:t{number}']
    argv += ['-qmp', f'unix:{runtime_dir}/qmp,server=on,wait=off']
    command_line = f'{KERNEL} hugepages={hugepages}'
    if iommu:
        argv += ['-device', 'intel-iommu,intremap=on,caching-mode=on,device-iotlb=on']
        command_line += ' intel_iommu=on iommu=pt'
    argv += ['-append', f'{command_line} {append}'.strip()]
    root_port = 0
    for number, nic in enumerate(nics):
        root_port += nic.hotplug
        argv += nic.arguments(number, root_port)
    return argv + list(extra)


class Machine(Proc):
    """Made by rig.add(Machine, ...) or, shorter, by boot()."""

    def __init__(self, runtime_dir, name, *, nics=(), memory=512, cpus=1, cpu=1, hugepages=0,
                 files=None, iommu=False, append='', extra=(), log_path=None, user=None,
                 ready=True, wrap=(), env=None):
        self.nics = list(nics)
        self.directory = os.path.join(runtime_dir, name[:12])  # socket paths end at 107 bytes
        os.makedirs(self.directory, exist_ok=True)
        initrd = os.path.join(self.directory, 'initrd')
        with open(initrd, 'wb') as whole:
            for path in initramfs.archives(files or {}):
                with open(path, 'rb') as part:
                    os.sendfile(whole.fileno(), part.fileno(), 0, os.path.getsize(path))
        self._log_path = log_path
        self._qmp = None
        self._since = 0  # of the console: where the boot that counts begins
        super().__init__([*wrap, *arguments(runtime_dir=self.directory, initrd=initrd,
                                            nics=self.nics, memory=memory, cpus=cpus,
                                            hugepages=hugepages, iommu=iommu, append=append,
                                            extra=extra)],
                         name, env=env, cpu=cpu, user=user, log_path=log_path)
        self.shell = Shell(self, SHELL, self._socket(SHELL), self._log(SHELL))
        self.programs = []
        if ready:
            self.wait_ready()

    def _socket(self, number):
        return os.path.join(self.directory, f't{number}')

    def _log(self, number):
        return self._log_path and re.sub(r'\.log$', '', self._log_path) + f'.tty{number}.log'

    # --- is it there? -----------------------------------------------------------------------

    def assert_runs(self):
        """QEMU lives and the kernel has not said otherwise."""
        if not self.alive:
            raise ProcError(f'{self.name}: QEMU ended with {self.popen.poll()}:\n'
                            + self.output()[-3000:])
        if DEAD.search(self.output(self._since)):
            raise ProcError(f'{self.name}: the guest died:\n' + self.output(self._since)[-6000:])

    def wait_end(self):
        """A terminal closed: QEMU is on its way out, or not at all."""
        try:
            self.wait(5)
        except ProcError:
            pass

    def wait_ready(self, timeout=60):
        self.shell.wait_ready(timeout)

    # --- commands ---------------------------------------------------------------------------

    def run(self, command, timeout=20):
        """Run a shell command that has to succeed; what it wrote."""
        return self.shell.run(command, timeout)

    def status(self, command, timeout=20):
        """(exit status, what it wrote)"""
        return self.shell.status(command, timeout)

    def program(self, argv, kind=Program, env=None):
        """Start a program that is talked to. Two may run at a time."""
        for number in range(FIRST_PROGRAM, LAST_PROGRAM + 1):
            if not any(p.number == number and p.alive for p in self.programs):
                break
        else:
            raise ValueError('both terminals are taken')
        for old in [p for p in self.programs if p.number == number]:
            old.close()
            self.programs.remove(old)
        new = kind(self, number, self._socket(number), self._log(number))
        self.programs.append(new)
        return new.launch(argv, env)

    def testpmd(self, devices, *, plugin=True, lcores='0@0,1@0', mem=96, eal=(), ready=True,
                **options):
        """dpdk-testpmd on these devices: a BDF, with arguments behind it, each. `options` are
        those of harness.testpmd.prompt_options()."""
        argv = ['dpdk-testpmd', '--lcores', lcores, '-m', str(mem)]
        if plugin:
            argv += ['-d', DRIVER]
        for device in devices:
            argv += ['-a', device]
        argv += [*eal, '--', *prompt_options(**options)]
        program = self.program(argv, GuestTestpmd)
        if ready:
            program.wait_ready()
        return program

    def bdf(self, index):
        """PCI address of a device."""
        nic = self.nics[index]
        if not nic.hotplug:
            return f'0000:00:{index + 3:02x}.0'
        return f'0000:{1 + sum(n.hotplug for n in self.nics[:index]):02x}:00.0'

    def interface(self, index):
        """The kernel's name of a device that its virtio_net drives."""
        return self.run(f'ls /sys/bus/pci/devices/{self.bdf(index)}/virtio*/net').strip()

    def bind(self, index, driver):
        """Give a device to another driver of the guest's kernel, such as uio_pci_generic."""
        bdf = self.bdf(index)
        self.run(f'cd /sys/bus/pci/devices/{bdf}; [ ! -e driver ] || echo {bdf} >driver/unbind; '
                 f'echo {driver} >driver_override; echo {bdf} >/sys/bus/pci/drivers_probe; '
                 f'[ "$(basename "$(readlink driver)")" = {driver} ]')

    # --- its life ---------------------------------------------------------------------------

    @property
    def qmp(self):
        if self._qmp is None:
            self._qmp = Qmp(os.path.join(self.directory, 'qmp'))
        return self._qmp

    def reset(self, timeout=60):
        """Push the reset button and wait for the guest to be back."""
        self._since, at = self.mark(), self.shell.mark()
        self.qmp.ask('system_reset')
        self.qmp.wait_event('RESET')
        self.shell.wait_ready(timeout, at)

    def _hang_up(self):
        for terminal in (*self.programs, self.shell):
            terminal.close()
        self.programs = []
        if self._qmp:
            self._qmp.close()
            self._qmp = None

    def kill9(self):
        code = super().kill9()
        self._hang_up()
        return code

    def close(self, grace=5):
        super().close(grace)
        self._hang_up()


def boot(rig, nics=(), *, name='guest', ready=True, **options):
    """A machine of a rig; ready() when its shell takes commands."""
    machine = rig.add(Machine, name, nics=nics, **options)
    if ready:
        machine.wait_ready()
    return machine
