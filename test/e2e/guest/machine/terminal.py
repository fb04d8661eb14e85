# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Serial ports of a guest: a shell at one, programs that are talked to at the others."""

import base64
import itertools
import re
import shlex
import socket
import threading
import time

from harness.proc import SLOWEST, ProcError, Stream, wait_until
from harness.testpmd import PROMPT, Prompt

GRACE = 15  # what a command gets beyond its limit, for the guest to say that it did not end
LONGEST = 3000  # of a command in base64: the terminal's buffer holds 4095


class GuestError(AssertionError):
    """A command in the guest failed."""


class Terminal(Stream):
    """One serial port, by its socket. Whatever is waited for: a guest that dies ends it."""

    def __init__(self, machine, number, path, log_path=None):
        super().__init__(f'{machine.name}, terminal {number}')
        self.machine, self.number = machine, number
        self.argv = [f'/dev/ttyS{number}']
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        wait_until(lambda: self._connected(path), 20, f'QEMU makes {path}')
        self._socket.settimeout(None)
        self._log = open(log_path, 'wb') if log_path else None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _connected(self, path):
        self.machine.assert_runs()
        try:
            self._socket.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def _read(self):
        while True:
            try:
                data = self._socket.recv(65536)
            except OSError:
                data = b''
            self.feed(data)
            if not data:
                break
            if self._log:
                self._log.write(data)
                self._log.flush()

    def send(self, line):
        try:
            self._socket.sendall(line.encode() + b'\n')
        except OSError:
            self.machine.assert_runs()
            raise ProcError(f'{self.name} is gone, could not send "{line}"') from None

    def _expect(self, regex, timeout, since):
        try:
            return super().expect_within(regex, timeout, since)
        except ProcError:
            return None

    def expect_within(self, regex, timeout, since=0):
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            match = self._expect(regex, max(0, min(0.5, left)), since)
            if match:
                return match
            if self._eof:
                self.machine.wait_end()
            self.machine.assert_runs()
            if self._eof or left <= 0:
                raise ProcError(f'{self.name} did not within {timeout} s print /{regex}/; its '
                                f'last output:\n{self.output()[-2000:]}\nthe console:\n'
                                f'{self.machine.output()[-2000:]}')

    def close(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._reader.join(5)
        self._socket.close()
        if self._log:
            self._log.close()
            self._log = None


class Shell(Terminal):
    """The port at which the guest's first process takes commands."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._numbers = itertools.count(1)

    def wait_ready(self, timeout, since=0):
        # With the end of the line, which would be taken for output of the first command.
        self.expect(r'^@ready\n', timeout, since)

    def status(self, command, timeout=20):
        """Run it by sh; (exit status, what it wrote). 137 when it did not end in time."""
        number = next(self._numbers)
        code = base64.b64encode(command.encode()).decode()
        if len(code) > LONGEST:
            raise ValueError('a command too long for a terminal: put a file into the guest')
        at = self.mark()
        self.send(f'{number} {timeout} {code}')
        match = self.expect(rf'([\s\S]*?)\n@{number} (\d+)\n', timeout + GRACE, at)
        return int(match[2]), match[1]

    def run(self, command, timeout=20):
        """Run a command that has to succeed; what it wrote."""
        timeout *= SLOWEST
        status, text = self.status(command, timeout)
        if status:
            why = f'did not end within {timeout} s' if status == 137 else f'exit status {status}'
            raise GuestError(f'{self.machine.name}: {command}: {why}\n{text[-3000:]}')
        return text


class Program(Terminal):
    """A program at a serial port of its own; output and input as of a Proc."""

    def launch(self, argv, env=None):
        """Start it. `pid` is its process in the guest."""
        command = ' '.join(shlex.quote(str(word)) for word in argv)
        self.argv = [str(word) for word in argv]
        self._since = self.mark()
        tty = f'/dev/ttyS{self.number}'
        settings = ' '.join(f'{key}={shlex.quote(value)}' for key, value in (env or {}).items())
        self.machine.run(
            f'stty -F {tty} raw -echo; '
            f'(setsid env {settings} {command} <{tty} >{tty} 2>&1 & echo $! >/run/{self.number}; '
            f'wait $!; printf "\\n@ended %s\\n" $? >{tty}) >/dev/null 2>&1 &')
        self.pid = int(self.machine.run(f'until [ -s /run/{self.number} ]; do usleep 10000; done; '
                                        f'cat /run/{self.number}; rm /run/{self.number}'))
        return self

    def output(self, since=0):
        return super().output(max(since, self._since))

    @property
    def alive(self):
        return not re.search(r'^@ended \d+\n', self.output(), re.M)

    def wait(self, timeout=20):
        """Its exit status, as the shell tells it (137: SIGKILL)."""
        return int(self.expect(r'^@ended (\d+)\n', timeout, self._since)[1])

    def kill9(self):
        self.machine.run(f'kill -9 {self.pid}')
        return self.wait()


class GuestTestpmd(Prompt, Program):
    """dpdk-testpmd in a guest: the same commands as on the host, counters from its prompt."""

    __test__ = False

    def wait_ready(self, timeout=60):
        self._wait_prompt(PROMPT, self._since, timeout)

    def stats(self, port=0):
        """The basic counters, by their names in DPDK."""
        text = self.cmd(f'show port stats {port}')
        names = {'RX-packets': 'ipackets', 'RX-missed': 'imissed', 'RX-bytes': 'ibytes',
                 'RX-errors': 'ierrors', 'RX-nombuf': 'rx_nombuf', 'TX-packets': 'opackets',
                 'TX-errors': 'oerrors', 'TX-bytes': 'obytes'}
        return {names[key]: int(value) for key, value in re.findall(r'(\S+):\s+(\d+)', text)
                if key in names}

    def xstats(self, port=0):
        text = self.cmd(f'show port xstats {port}')
        return {key: int(value) for key, value in re.findall(r'^(\w+): (\d+)$', text, re.M)}

    def wait_stat(self, port, key, at_least, timeout=60):
        """Wait until a basic counter reaches a value; return the counter."""
        seen = {}

        def reached():
            seen.update(self.stats(port))
            return seen[key] >= at_least
        wait_until(reached, timeout, lambda: f'{self.name}: port {port}: {key} of {at_least}: '
                   f'{seen}', interval=0.1)
        return seen[key]

    def wait_moves(self, port=0, key='ipackets', by=1000, timeout=60):
        return self.wait_stat(port, key, self.stats(port)[key] + by, timeout)

    def link_up(self, port=0):
        return 'Link status: up' in self.cmd(f'show port info {port}')

    def wait_link(self, up, port=0, timeout=20):
        wait_until(lambda: self.link_up(port) == up, timeout,
                   f'{self.name}: link of port {port} {"up" if up else "down"}', interval=0.1)

    def quit(self, timeout=30):
        self.send('quit')
        return self.wait(timeout)
