# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A child process whose output is waited for, never slept for.

Output comes over a pseudo terminal, so that stdio in the child flushes line by line; input is a
pipe, so that closing it ends an interactive child. Each child leads its own session and is
ended by its own id.
"""

import ctypes
import os
import re
import signal
import subprocess
import termios
import threading
import time
import tty

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
# Time-outs are for an idle machine of ours; they only end what hangs, so any may take longer.
SLOWEST = 4


class ProcError(AssertionError):
    """A process did not do what was waited for; carries the end of its output."""


def wait_until(condition, timeout, what, interval=0.02):
    """Poll a condition that has no event of its own (a counter in another process)."""
    timeout *= SLOWEST
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise ProcError(f'not within {timeout} s: {what() if callable(what) else what}')
        time.sleep(interval)


def tail(text, lines=40):
    return '\n'.join(text.splitlines()[-lines:])


class Stream:
    """Text that another thread adds to, and that is waited for."""

    def __init__(self, name):
        self.name = name
        self._text = ''
        self._cond = threading.Condition()
        self._eof = False

    def feed(self, data):
        """Bytes that arrived; none at the end."""
        with self._cond:
            if data:
                self._text += data.decode('utf-8', 'replace').replace('\r', '')
            else:
                self._eof = True
            self._cond.notify_all()

    def output(self, since=0):
        with self._cond:
            return self._text[since:]

    def mark(self):
        """A position in the output, to wait for what comes after it."""
        with self._cond:
            return len(self._text)

    def expect(self, regex, timeout=10, since=0):
        """Wait for the output to match; return the match. Fails at once when the child ends."""
        return self.expect_within(regex, SLOWEST * timeout, since)

    def expect_within(self, regex, timeout, since=0):
        """The same where to wait in vain is no failure yet: no longer than that."""
        pattern = re.compile(regex, re.M)
        deadline = time.monotonic() + timeout
        with self._cond:
            while True:
                match = pattern.search(self._text, since)
                if match:
                    return match
                left = deadline - time.monotonic()
                if self._eof or left <= 0:
                    why = 'ended without' if self._eof else f'did not within {timeout} s print'
                    raise ProcError(f'{self.name} {why} /{regex}/; its last output:\n'
                                    + tail(self._text))
                self._cond.wait(left)


class Proc(Stream):
    """Start, talk to, wait for and end one process."""

    def __init__(self, argv, name, *, env=None, cpu=None, user=None, log_path=None):
        super().__init__(name)
        self.argv = [str(a) for a in argv]
        self.log_path = log_path
        full_env = dict(os.environ, LC_ALL='C', TERM='dumb')
        full_env.update(env or {})
        cpus = None if cpu is None else ({cpu} if isinstance(cpu, int) else set(cpu))
        master, slave = os.openpty()
        tty.setraw(slave, termios.TCSANOW)

        def in_child():
            # Not even a test run that is killed leaves pollers behind.
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if cpus:
                os.sched_setaffinity(0, cpus)

        argv_run = self.argv
        if user is not None:
            argv_run = ['setpriv', '--reuid', str(user), '--regid', str(user), '--clear-groups',
                        '--no-new-privs', '--pdeathsig', 'KILL', '--'] + argv_run
        try:
            self.popen = subprocess.Popen(argv_run, stdin=subprocess.PIPE, stdout=slave,
                                          stderr=slave, env=full_env, start_new_session=True,
                                          preexec_fn=in_child)
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        self.pid = self.popen.pid
        self._master = master
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        log = open(self.log_path, 'wb') if self.log_path else None
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the slave side is gone
                data = b''
            self.feed(data)
            if not data:
                break
            if log:
                log.write(data)
                log.flush()
        os.close(self._master)
        if log:
            log.close()

    # --- input ------------------------------------------------------------------------------

    def send(self, line):
        try:
            self.popen.stdin.write((line + '\n').encode())
            self.popen.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise ProcError(f'{self.name} is gone, could not send "{line}"; its last output:\n'
                            + tail(self.output())) from None

    # --- life -------------------------------------------------------------------------------

    @property
    def alive(self):
        return self.popen.poll() is None

    def wait(self, timeout=10):
        """Wait for the end; return the exit code (negative: the signal)."""
        timeout *= SLOWEST
        try:
            code = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ProcError(f'{self.name} did not end within {timeout} s; its last output:\n'
                            + tail(self.output())) from None
        self._reader.join(5)
        return code

    def signal(self, number):
        if self.alive:
            os.kill(self.pid, number)

    def kill9(self):
        """Die without a chance to clean up, and be reaped."""
        self.signal(signal.SIGKILL)
        return self.wait(10)

    def close(self, grace=5):
        """Whatever state it is in: gone and reaped afterwards."""
        if self.alive:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                self.popen.wait(grace)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.pid, signal.SIGKILL)  # its session: the child and its own children
        except (ProcessLookupError, PermissionError):
            pass
        self.popen.wait(10)
        self._reader.join(5)
        try:
            self.popen.stdin.close()
        except OSError:
            pass


def threads(pid):
    """{tid: name} of a process."""
    found = {}
    for tid in os.listdir(f'/proc/{pid}/task'):
        try:
            with open(f'/proc/{pid}/task/{tid}/comm', encoding='utf-8') as f:
                found[int(tid)] = f.read().strip()
        except FileNotFoundError:
            pass
    return found


def fd_count(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))
