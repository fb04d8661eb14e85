# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The distribution's dpdk-testpmd, driven at its prompt and read through its telemetry socket."""

import itertools
import re
import time

from . import build
from .proc import SLOWEST, Proc, ProcError, wait_until
from .telemetry import Telemetry, socket_path

PROMPT = r'testpmd> '
COMMENTS = itertools.count(1)
MBUFS = 8192


def prompt_options(*, ring=256, queues=1, mbufs=MBUFS, mbuf_size=None, mbcache=None, topology=None,
                   fwd=None, burst=None, max_pkt_len=None, scatter=(), flush=False, extra=()):
    """What stands behind -- on the command line.

    `scatter`: ports that receive over several buffers (started later, by Testpmd).
    """
    argv = ['-i', '--nb-cores=1', f'--rxd={ring}', f'--txd={ring}', f'--rxq={queues}',
            f'--txq={queues}', f'--total-num-mbufs={mbufs}', '--disable-link-check']
    if not flush:  # frames of a capture are not to be thrown away at the start
        argv.append('--no-flush-rx')
    optional = {'mbuf-size': mbuf_size, 'mbcache': mbcache, 'port-topology': topology,
                'forward-mode': fwd, 'burst': burst, 'max-pkt-len': max_pkt_len}
    argv += [f'--{key}={value}' for key, value in optional.items() if value is not None]
    if scatter:
        argv.append('--disable-device-start')
    return argv + list(extra)


def arguments(*, prefix, vdevs, cpu=1, plugin=False, huge_dir=None, mem=None, program=None,
              eal=(), **options):
    """The command line. Main lcore and the one forwarding lcore share a CPU. Memory is cleared when
    a process starts, so it gets what its pool takes and some more.

    `plugin`: with our driver; a path: with that file of it.
    """
    if mem is None:
        mem = 64 + options.get('mbufs', MBUFS) * ((options.get('mbuf_size') or 2176) + 320) // 2**20
    argv = [program or build.testpmd(), '--lcores', f'0@{cpu},1@{cpu}', '--no-pci', '-m', str(mem),
            '--file-prefix=' + prefix, '--single-file-segments']
    argv += ['--huge-dir', huge_dir] if huge_dir else ['--no-huge']
    if plugin:
        argv += ['-d', build.plugin_option(plugin)[0]]
    for vdev in vdevs:
        argv += ['--vdev', vdev]
    return [*argv, *eal, '--', *prompt_options(**options)]


class Prompt:
    """What is done at testpmd's prompt, wherever it runs; the rest is a Stream's."""

    def cmd(self, line, timeout=20):
        """Run one command at the prompt; return what it printed."""
        at = self.mark()
        self.send(line)
        # Behind the echo of this very command: a prompt before it is of something else.
        match = self._wait_prompt(re.escape(line) + r'[\s\S]*?' + PROMPT, at, timeout)
        text = match.group()
        return text.split('\n', 1)[1] if '\n' in text else text

    def _wait_prompt(self, pattern, since, timeout):
        """testpmd writes its prompt a character at a time, so a log line of another thread may cut
        it in pieces. Then a comment makes it write another one: a new one each time, for it may
        only have been slow, and then there is a prompt too many before the next command."""
        deadline = time.monotonic() + SLOWEST * timeout
        while True:
            try:
                return self.expect_within(pattern, min(3, timeout), since)
            except ProcError:
                if not self.alive or time.monotonic() > deadline:
                    raise
            comment = f'# {next(COMMENTS)}'
            self.send(comment)
            pattern = rf'[\s\S]*{comment}\n[\s\S]*?' + PROMPT

    def cmds(self, *lines):
        for line in lines:
            self.cmd(line)

    # --- forwarding -------------------------------------------------------------------------

    def start(self, tx_first=None):
        text = self.cmd('start' + (f' tx_first {tx_first}' if tx_first else ''))
        if 'not started' in text.lower() or 'Please stop' in text:
            raise ProcError(f'{self.name}: start refused: {text}')

    def stop(self):
        """Stop forwarding; {port: {'rx', 'rx_dropped', 'tx', 'tx_dropped'}} of this run."""
        text = self.cmd('stop')
        result = {}
        for block in re.split(r'Forward statistics for port', text)[1:]:
            port = int(block.split()[0])
            rx = re.search(r'RX-packets:\s*(\d+)\s+RX-dropped:\s*(\d+)', block)
            tx = re.search(r'TX-packets:\s*(\d+)\s+TX-dropped:\s*(\d+)', block)
            result[port] = {'rx': int(rx[1]), 'rx_dropped': int(rx[2]),
                            'tx': int(tx[1]), 'tx_dropped': int(tx[2])}
        return result

    def restart_port(self, port=0):
        text = self.cmd(f'port stop {port}') + self.cmd(f'port start {port}')
        if re.search(r'[Ff]ail|Please (stop|remove)', text):
            raise ProcError(f'{self.name}: port {port} did not restart: {text}')

    def burst_mode(self, direction, port=0, queue=0):
        """'rx' or 'tx'; None where the driver does not say."""
        match = re.search(r'^Burst mode: (.*)$', self.cmd(f'show {direction}q info {port} {queue}'),
                          re.M)
        return re.sub(r' \(per queue\)$', '', match[1]).strip() if match else None

    def mbufs_free(self, pool='mb_pool_0'):
        """Objects in the pool and in its caches."""
        text = self.cmd('dump_mempool ' + pool)
        cached = re.search(r'total_cache_count=(\d+)', text)
        common = re.search(r'common_pool_count=(\d+)', text)
        return (int(cached[1]) if cached else 0) + int(common[1])


class Testpmd(Prompt, Proc):
    __test__ = False  # not a test class, whatever its name begins with

    def __init__(self, runtime_dir, name, *, log_path=None, user=None, ready=True, wrap=(),
                 env=None, **options):
        self.runtime_dir = runtime_dir
        self._telemetry = None
        self._scatter = options.get('scatter', ())
        plugin = options.get('plugin')
        loader_env = build.plugin_option(plugin)[1] if plugin else {}
        super().__init__([*wrap, *arguments(prefix=name, **options)], name,
                         env={'RUNTIME_DIRECTORY': runtime_dir, **loader_env, **(env or {})},
                         cpu=options.get('cpu', 1), user=user, log_path=log_path)
        if ready:
            self.wait_ready()

    def wait_ready(self, timeout=30):
        self._wait_prompt(PROMPT, 0, timeout)
        if self._scatter:  # an offload of some ports only: not every driver here has it
            for port in self._scatter:
                self.cmd(f'port config {port} rx_offload scatter on')
            text = self.cmd('port start all')
            if re.search(r'[Ff]ail', text):
                raise ProcError(f'{self.name}: ports did not start:\n' + self.output()[-3000:])

    # --- what it counts ---------------------------------------------------------------------

    @property
    def telemetry(self):
        if self._telemetry is None:
            self._telemetry = Telemetry(socket_path(self.runtime_dir, self.name))
        return self._telemetry

    def stats(self, port=0):
        return self.telemetry.ask(f'/ethdev/stats,{port}')

    def xstats(self, port=0):
        return self.telemetry.ask(f'/ethdev/xstats,{port}')

    def link_up(self, port=0):
        return self.telemetry.ask(f'/ethdev/link_status,{port}').get('status') == 'UP'

    def wait_link(self, up, port=0, timeout=20):
        wait_until(lambda: self.link_up(port) == up, timeout,
                   lambda: f'{self.name}: link of port {port} {"up" if up else "down"}')

    def wait_stat(self, port, key, at_least, timeout=20):
        """Wait until a basic counter reaches a value; return the counter."""
        def reached():
            value = self.stats(port)[key]
            return (value,) if value >= at_least else None
        return wait_until(reached, timeout, lambda: f'{self.name}: port {port}: {key} '
                          f'{self.stats(port)[key]} of {at_least}')[0]

    def wait_moves(self, port=0, key='ipackets', by=1000, timeout=20):
        """Traffic flows: the counter grows by `by` from now."""
        return self.wait_stat(port, key, self.stats(port)[key] + by, timeout)

    def mac(self, port=0):
        return self.telemetry.ask(f'/ethdev/info,{port}')['mac_addr'].lower()

    # --- end --------------------------------------------------------------------------------

    def quit(self, timeout=20):
        if self._telemetry:
            self._telemetry.close()
            self._telemetry = None
        self.send('quit')
        return self.wait(timeout)

    def close(self, grace=5):
        if self._telemetry:
            self._telemetry.close()
            self._telemetry = None
        super().close(grace)

    def kill9(self):
        if self._telemetry:
            self._telemetry.close()
            self._telemetry = None
        return super().kill9()


def last_features(process, pattern):
    """The link may be up before the line is written: wait for the first, take the last."""
    process.expect(pattern, 10)
    return int(re.findall(pattern, process.output())[-1], 16)


def vhost_features(process):
    """The features that stock librte_vhost logged last."""
    return last_features(process, r'negotiated Virtio features: (0x[0-9a-f]+)')


def sluice_features(process, device):
    """The features that our driver logged last for a device."""
    return last_features(process, rf'{re.escape(device)}: negotiated features (0x[0-9a-f]+)')
