#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Thirty seconds of Sluice: packets through driver, switch and driver, a sudden death of the switch
in the middle, a ledger that adds up, and the same stream through the stock pair.

Two CPUs, one poller each: the switch on the first, one dpdk-testpmd with two ports on the second.
"""

import argparse
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'e2e'), HERE]
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from harness import build  # noqa: E402
from harness.proc import ProcError, wait_until  # noqa: E402
from harness.rig import Rig  # noqa: E402
from harness.switch import difference  # noqa: E402
from ledger import Direction, Guest, add_up, merge, switch_drops  # noqa: E402

RING = 256
TURN = 256  # frames a worker may have in its hands when it dies
MACS = ('02:51:00:00:00:0a', '02:51:00:00:00:0b')
MIX = [60] * 7 + [590] * 4 + [1514]
SECONDS = {'before': 6, 'again': 3, 'outage': 1.5, 'after': 5, 'stock': 4}
GUEST = {'pa': 0, 'pb': 2}  # testpmd's port number of our device at each switch port


class DemoFailed(Exception):
    """Something did not do what the demo is there to show."""


def check(condition, what):
    if not condition:
        raise DemoFailed(what)


class Demo:
    def __init__(self, rig):
        self.rig = rig
        self.begin = time.monotonic()
        self.switch = None
        self.guest = None

    def say(self, text):
        print(f'{time.monotonic() - self.begin:5.1f} s  {text}', flush=True)

    # --- the pieces -------------------------------------------------------------------------

    def start_switch(self):
        self.switch = self.rig.switch([f'{p},path={self.rig.path(p)}' for p in GUEST], cpu=0)

    def sources(self):
        """An endless stream for each side, addressed to the other."""
        return [self.rig.stream_source(i, MACS[1 - i], MACS[i], i, sizes=MIX, count=48)
                for i in (0, 1)]

    def start_guest(self):
        streams = self.sources()
        vdevs = []
        for i, port in enumerate(GUEST):
            vdevs += [f'net_sluice_user{i},path={self.rig.path(port)},mac={MACS[i]},'
                      f'queue_size={RING}', streams[i]]
        self.guest = self.rig.testpmd('testpmd', cpu=1, plugin=True, fwd='io', ring=RING,
                                      vdevs=vdevs)
        for i in (0, 1):
            self.say(self.guest.expect(rf'net_sluice_user{i}: negotiated [^\]]*\]').group())

    def stream(self, on):
        """Start the two-way stream, or stop it and let what is under way arrive."""
        if on:
            self.guest.cmds('set portlist 0,1,2,3', 'set fwd io')
            self.guest.start()
            return
        self.guest.stop()
        self.guest.cmds('set portlist 0,2', 'set fwd rxonly')
        self.guest.start()

        def drained():
            counters = {p: self.switch.counters(p) for p in GUEST}
            return all(difference(c) == 0 for c in counters.values()) and \
                self.moved() == self.moved()
        wait_until(lambda: drained() and drained(), 10, 'the stream drains', interval=0.1)
        self.guest.stop()

    def moved(self):
        return [self.guest.stats(p)[k] for p in GUEST.values() for k in ('ipackets', 'opackets')]

    def snapshot(self):
        return {p: Guest(self.guest, n) for p, n in GUEST.items()}

    # --- what is shown ----------------------------------------------------------------------

    def watch(self, seconds, note=''):
        """One line a second: packets sent and received by each port since the line before."""
        last = self.moved()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.05:
            pause = min(1.0, left)
            time.sleep(pause)
            now = self.moved()
            delta = [b - a for a, b in zip(last, now)]
            last = now
            up = ['up' if self.guest.link_up(p) else 'DOWN' for p in GUEST.values()]
            self.say(f'a: {up[0]:<4} received {delta[0]:>9} sent {delta[1]:>9}    '
                     f'b: {up[1]:<4} received {delta[2]:>9} sent {delta[3]:>9}   {note}')

    def directions(self, was, now, lost):
        return [Direction('a to b', now['pa'], now['pb'], was['pa'], was['pb'], lost['pa']),
                Direction('b to a', now['pb'], now['pa'], was['pb'], was['pa'], lost['pb'])]

    def show(self, title, directions, bound=0):
        print(f'\n{title}\n  {"":<10} {"sent":>12}   {"received":>12}', flush=True)
        for direction in [*directions, add_up(directions)]:
            print(direction.row())
        for direction in directions:
            check(abs(direction.remainder) <= bound, f'{title}: {direction.name}: remainder '
                  f'{direction.remainder:+d}, allowed {bound}')

    def show_switch(self, counters, was, now):
        """The switch's own ledger, its copies, and who had to wake whom."""
        print('\nthe switch: taken + replicas = delivered + dropped')
        for name, c in counters.items():
            dropped = sum(v for k, v in c.items() if k.startswith('drop_'))
            print(f'  {name:<10} {c["rx_packets"]:>12} + {c["replicas"]} = {c["delivered"]:>12} + '
                  f'{dropped:<9} {difference(c):>+4}')
            check(difference(c) == 0, f'ledger of switch port {name}: {difference(c):+d}')
        total = {k: sum(c[k] for c in counters.values()) for k in counters['pa']
                 if isinstance(counters['pa'][k], int)}
        gap = difference(total)
        print(f'  {"sum":<10} {total["rx_packets"]:>12} + {total["replicas"]} = '
              f'{total["delivered"]:>12} + '
              f'{sum(v for k, v in total.items() if k.startswith("drop_")):<9} {gap:>+4}')
        check(gap == 0, f'ledger of the switch: {gap:+d}')
        check(total['tx_packets'] == total['delivered'], 'the switch delivered '
              f'{total["delivered"]} frames, its ports got {total["tx_packets"]}')
        check(total['bytes_delivered'] > 0, 'the switch delivered nothing')
        ratio = total['bytes_copied'] / total['bytes_delivered']
        packets = max(1, total['tx_packets'])
        print(f'\n  bytes copied / bytes delivered  {ratio:.2f}   (counted in the copy routine)')
        kicks = sum(now[p].kicks - was[p].kicks for p in GUEST)
        sent = max(1, sum(now[p].sent - was[p].sent for p in GUEST))
        print(f'  kicks a packet sent             {kicks / sent:.6f}   (by the driver)\n'
              f'  calls a packet delivered        {total["calls"] / packets:.6f}   (by the switch; '
              f'{total["calls_suppressed"]} more were not wanted)')
        check(abs(ratio - 1) < 0.005, f'{ratio:.3f} bytes copied for each byte delivered')

    # --- the story --------------------------------------------------------------------------

    def run(self):
        self.say('start the switch (CPU 0), then testpmd with two of our devices (CPU 1)')
        self.start_switch()
        self.start_guest()
        for port in GUEST:
            self.switch.wait_up(port)
        start = self.snapshot()
        self.stream(True)
        self.watch(SECONDS['before'])
        self.stream(False)
        quiet = self.snapshot()
        before = {p: self.switch.counters(p) for p in GUEST}
        self.show('phase 1, before the kill', self.directions(
            start, quiet, {p: switch_drops(c) for p, c in before.items()}))
        self.show_switch(before, start, quiet)

        print()
        self.stream(True)
        self.watch(SECONDS['again'])
        last = {p: self.switch.counters(p) for p in GUEST}
        self.switch.kill9()
        self.say('the switch was killed with -9 in mid-stream')
        self.watch(SECONDS['outage'], 'no switch')
        self.start_switch()
        self.say('the switch was started again')
        for number in GUEST.values():
            self.guest.wait_moves(number, 'ipackets')
        self.say('traffic came back by itself')
        packets = sum(self.moved()[0::2])
        begin = time.monotonic()
        self.watch(SECONDS['after'])
        ours = (sum(self.moved()[0::2]) - packets) / (time.monotonic() - begin) / 1e6
        self.stream(False)
        end = self.snapshot()
        after = {p: self.switch.counters(p) for p in GUEST}
        lost = {p: merge(switch_drops(after[p]), minus(switch_drops(last[p]),
                                                       switch_drops(before[p]))) for p in GUEST}
        # What was in flight when the switch died: a ring on each side, and the worker's turn;
        # and what it dropped between our last look and its end.
        self.show('phase 2, over the death of the switch (the remainder was in flight)',
                  self.directions(quiet, end, lost), bound=2 * RING + TURN)
        self.show_switch(after, quiet, end)
        self.guest.quit()
        self.switch.quit()
        self.say('both ended cleanly')
        return ours

    def run_stock(self):
        """The same stream: testpmd with two net_virtio_user - testpmd with two net_vhost, io."""
        socks = [self.rig.path(f'stock{i}') for i in (0, 1)]
        streams = self.sources()
        host = self.rig.testpmd('vhost', cpu=0, fwd='io', ring=RING, vdevs=[
            f'net_vhost{i},iface={socks[i]},queues=1,client=0' for i in (0, 1)])
        guest = self.rig.testpmd('virtio', cpu=1, fwd='io', ring=RING, vdevs=[
            v for i in (0, 1) for v in (f'net_virtio_user{i},path={socks[i]},mac={MACS[i]},'
                                        f'queue_size={RING}', streams[i])])
        host.start()
        guest.start()
        for port in (0, 2):
            guest.wait_moves(port, 'ipackets')
        self.guest = guest
        packets, begin = sum(self.moved()[0::2]), time.monotonic()
        self.watch(SECONDS['stock'], 'stock')
        rate = (sum(self.moved()[0::2]) - packets) / (time.monotonic() - begin) / 1e6
        guest.stop()
        guest.quit()
        host.quit()
        return rate


def minus(now, then):
    return {k: v - then.get(k, 0) for k, v in now.items() if v - then.get(k, 0)}


def terminated(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', default='build', help='build directory (default: build)')
    parser.add_argument('--no-stock', action='store_true', help='leave the stock pair out')
    options = parser.parse_args()
    os.environ['SLUICE_BUILD'] = os.path.realpath(options.build)
    signal.signal(signal.SIGTERM, terminated)
    rig = None
    try:
        gone = build.missing()
        check(not gone, f'{gone} is not there: run make')
        check(os.cpu_count() >= 2, 'two CPUs are needed, one for each poller')
        rig = Rig()
        demo = Demo(rig)
        ours = demo.run()
        print(f'\nthe stream, received by both sides: {ours:.2f} Mpps through driver, switch, driver',
              flush=True)
        if not options.no_stock:
            stock = demo.run_stock()
            print(f'the same stream through the stock pair: {stock:.2f} Mpps\n'
                  'One look each, one after the other, and what testpmd reads from a file bounds both: '
                  'no\ncomparison; that is make bench CASE=vm2vm-64-256.')
        failure = None
    except (DemoFailed, ProcError) as error:
        failure = str(error)
    except KeyboardInterrupt:
        failure = 'interrupted'
    except Exception as error:  # pylint: disable=broad-except
        failure = f'{type(error).__name__}: {error}'
    finally:
        if rig:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            rig.close()
    if failure is None:
        print('demo: OK')
        return 0
    first, *rest = failure.splitlines()
    print('\n'.join(rest + [f'demo: FAILED: {first}']))
    return 1


if __name__ == '__main__':
    sys.exit(main())
