# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""What notifications cost two ends that sleep, and how few of them there need be."""

import time

from experiment import Column, Compare, Curve, Experiment, Part
from harness.proc import ProcError, threads
from harness.traffic import Traffic
from open_loop import OURS, STOCK, ended, port
from rigs import GUEST_CPU, HOST_CPU

FINDING = '''
A patch to Linux's vhost_net (2017): while a thread transmits for a device it takes no receive
wakeups of that device, since wakeups of somebody who is awake cost both ends and lead to nothing.
No figure is repeated here, it depends on a socket in a kernel; the rule is.
'''

METHOD = '''
Two processes, each with one thread on a CPU of its own, both of which sleep when they find nothing
to do: `sluice-vswitch` with `--idle sleep` and a port that sends everything back, and
`sluice-traffic --sleep` on our driver, which sends and receives. So each frame of 60 bytes crosses
a ring in both directions; a *kick* is a notification from the driver to the switch, a *call* one
from the switch to the driver. Each is a system call of who makes it, and wakes who sleeps.

*suppressed* is what both do by default: who is awake asks for none. *armed* is the rule before
that: rings stay armed while they are polled (`--suppress-kicks off` at the switch, `--keep-armed`
at `sluice-traffic`, whose receiver first slept in the warm-up). With EVENT_IDX an armed switch lets
its event follow after each turn; the driver's stays where the receiver last slept, which by itself
is suppression. *net_virtio_user* is DPDK's driver under receive interrupts, at our switch. *at
most* is what is asked for: not more than one notification a frame in each direction, and at
saturation one for 1000 frames.

Rates up to 1M are an open loop (a stall of the sender moves its schedule); *max* is a closed one,
with 512 frames under way in rings of 1024. Kicks are counted by the driver (those of
*net_virtio_user*, which does not, by the switch, the warm-up included), calls by the switch;
CPU time is that of the two threads, system calls included. A frame that did not come back and that
no counter names fails the trial. A *lost wakeup* is a time-out of a sleep (0.1 s) that found a
frame.
'''

LIMITS = '''
The tables and curves over the load and the patience take the machine as it was: their rates at
*max* are no comparison, those under *Saturation* are. An eventfd between two processes is cheap: no
hypervisor is entered for a kick, no interrupt is injected for a call. Behind KVM each costs more,
so what suppression saves is more there. CPUs here are virtual: how long a wakeup takes is the
host's doing, and while the switch comes out of its sleep each burst of a fast sender finds the ring
armed still (with EVENT_IDX it does not); that is what is left of the kicks at 1M. Above 200 kpps
the sender's next frame is due before a sleep is worth it, so its receiver does not sleep, and asks
for no calls: there the calls show nothing. Both threads do nothing but this: an application with
work of its own sleeps less.
'''

LIMIT = 'at most'
WINDOW, RING = 512, 1024
WARM_UP, DRAIN = 0.1, 0.15
SECONDS = {'1k': 1.0}     # else MEASURE: enough frames to count
MEASURE = 0.5
# The driver, EVENT_IDX, and whether who polls asks for no notifications.
SETTINGS = {'suppressed': (OURS, False, True), 'armed': (OURS, False, False),
            'suppressed, EVENT_IDX': (OURS, True, True), 'armed, EVENT_IDX': (OURS, True, False),
            'net_virtio_user': (STOCK, False, True)}
LOADS = ['1k', '10k', '100k', '1M', 'max']
PATIENCE = [0, 10, 20, 50, 100, 200]


class SleepingSwitch:
    """A switch whose worker sleeps, and what it did."""

    def __init__(self, place, name, suppress=True, usecs=None):
        rig = place.rig
        self.paths = {event: rig.path(f'{name}{int(event)}') for event in (False, True)}
        options = ['--idle', 'sleep', '--suppress-kicks', 'on' if suppress else 'off']
        if usecs is not None:
            options += ['--idle-usecs', str(usecs)]
        self.process = rig.switch(
            [f'p{int(event)},path={path},loopback=on,event_idx={"on" if event else "off"}'
             for event, path in self.paths.items()],
            name=name, cpu=HOST_CPU, mem=64, options=options)
        worker, = (tid for tid, name in threads(self.process.pid).items() if 'worker' in name)
        self._schedstat = f'/proc/{self.process.pid}/task/{worker}/schedstat'

    def look(self, event):
        """Counters of a port and of the worker, and the CPU time of that in seconds."""
        return {**self.process.counters(f'p{int(event)}'), **self.process.workers()[0],
                'cpu': self._cpu_seconds()}

    def _cpu_seconds(self):
        with open(self._schedstat, encoding='ascii') as f:
            return int(f.read().split()[0]) / 1e9


def difference(after, before, keys):
    return {key: after[key] - before[key] for key in keys}


class Sleepers:
    """One trial after the other between a switch and a sluice-traffic."""

    def __init__(self, place):
        self.place = place

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return None

    def trial(self, switch, driver, event, load, more=''):
        """Frames there and back; the figures of a variant."""
        seconds = SECONDS.get(load, MEASURE)
        devargs = f',event_idx={int(event)}' if driver == OURS else ''
        before = switch.look(event)
        traffic = self.place.rig.add(
            Traffic, 'traffic', cpu=GUEST_CPU, plugin=driver == OURS, huge_dir=self.place.huge_dir,
            vdevs=[f'{driver},path={switch.paths[event]},queue_size={RING}{devargs}'],
            options=f'--tx {driver} --rx {driver} --rate {load} --warmup {WARM_UP} '
            f'--duration {seconds} --drain {DRAIN * 1000:.0f} --when-late shift --sleep '
            f'--rx-descs {RING} --tx-descs {RING} {more}'
            + (f' --window {WINDOW}' if load == 'max' else ''))
        with ended(self.place.rig, traffic):
            traffic.expect('^sluice-traffic: running$', 20)
            begun, first = time.monotonic(), switch.look(event)
            time.sleep(max(0, seconds - (time.monotonic() - begun)))
            last = switch.look(event)
            result = traffic.result()
        return figures(result, port(result, driver), switch.look(event), before,
                       difference(last, first, ('rx_packets', 'calls', 'sleeps', 'spurious_wakes',
                                                'cpu')))


def figures(result, driver, after, before, during):
    """`before` and `after` are of the whole run of the guest, `during` of a time within it."""
    receiver, sent = result['receiver'], result['sender']['sent']
    loop, = result['stalls']
    whole = difference(after, before, ('rx_packets', 'kicks', 'todrop_no_buffers'))
    if receiver['lost'] > whole['todrop_no_buffers']:
        raise ProcError(f'{receiver["lost"]} frames did not come back, the switch dropped '
                        f'{whole["todrop_no_buffers"]}')
    own = driver.get('xstats', {})
    if 'tx_q0_kicks' in own:
        kicks = (own['tx_q0_kicks'] + own['rx_q0_kicks']) / sent
    else:
        kicks = whole['kicks'] / whole['rx_packets']
    packets = during['rx_packets']
    return {
        'kicks': kicks * 1000, 'calls': during['calls'] / packets * 1000,
        'kpps': receiver['received'] / receiver['seconds'] / 1e3,
        'switch_us': during['cpu'] / packets * 1e6, 'guest_us': loop['cpu_s'] / sent * 1e6,
        'cpu_us': during['cpu'] / packets * 1e6 + loop['cpu_s'] / sent * 1e6,
        'p50_us': receiver['latency_ns']['p50'] / 1e3,
        'switch_sleeps': during['sleeps'] / packets * 1000,
        'switch_spurious': during['spurious_wakes'] / packets * 1000,
        'guest_wakes': receiver['sleep']['wakes'] / sent * 1000,
        'lost': receiver['lost'], 'missed': receiver['sleep']['missed'],
    }


class Loads(Sleepers):
    """Points are loads, variants the settings of both ends."""

    def __init__(self, place, part):
        del part
        super().__init__(place)
        self.switches = {suppress: SleepingSwitch(place, f'sup{int(suppress)}', suppress)
                         for suppress in (True, False)}

    def measure(self, variant, point, seed):
        del seed  # nothing is random but the machine
        if variant == LIMIT:
            limit = 1 if point == 'max' else 1000
            return {'kicks': limit, 'calls': limit, 'missed': 0}
        driver, event, suppress = SETTINGS[variant]
        return self.trial(self.switches[suppress], driver, event, point,
                          '' if suppress else '--keep-armed')


class Patience(Sleepers):
    """Points are how long a worker polls on before it sleeps, variants are loads."""

    def __init__(self, place, part):
        super().__init__(place)
        self.switches = {usecs: SleepingSwitch(place, f'idle{usecs}', usecs=usecs)
                         for usecs in part.points}

    def measure(self, variant, point, seed):
        del seed
        return self.trial(self.switches[point], OURS, False, variant)


COUNTS = [Column('kicks', 'kicks, of 1000 frames', '{:.2f}'),
          Column('calls', 'calls, of 1000 frames', '{:.2f}'),
          Column('kpps', 'kpps', '{:.0f}'),
          Column('switch_us', 'CPU of the switch, us a frame', '{:.2f}'),
          Column('guest_us', 'CPU of the guest, us a frame', '{:.2f}'),
          Column('p50_us', 'there and back, p50, us', '{:.1f}')]
MORE = [*COUNTS, Column('switch_sleeps', 'sleeps of the switch, of 1000', '{:.2f}'),
        Column('guest_wakes', 'wakes of the guest, of 1000', '{:.2f}'),
        Column('lost', 'dropped', '{:.0f}'), Column('missed', 'lost wakeups', '{:.0f}')]
OURS_ONLY = ('suppressed', 'suppressed, EVENT_IDX')


def limits(unit):
    """No more than are needed, and none lost."""
    return [*(Compare(f'{figure}, {variant}', figure, variant, LIMIT, unit, 1, better='less',
                      any_state=True)
              for variant in OURS_ONLY for figure in ('kicks', 'calls')),
            *(Compare(f'lost wakeups, {variant}', 'missed', variant, LIMIT, 'a run', 1,
                      better='less', how='total', pool=True, any_state=True)
              for variant in OURS_ONLY)]


LOADS_PART = Part(
    'loads', 'Notifications and what they cost, over the load', [*SETTINGS, LIMIT], LOADS, Loads,
    rounds=4, columns=MORE, any_state=True,
    comparisons=[*limits('of 1000 frames'),
                 Compare('CPU of both, flags', 'cpu_us', 'suppressed', 'armed', 'us a frame',
                         better='less')],
    curves=[Curve('kicks', 'Kicks', 'kicks', 'load, packets a second', 'kicks of 1000 frames',
                  log_y=True, any_state=True),
            Curve('calls', 'Calls', 'calls', 'load, packets a second', 'calls of 1000 frames',
                  log_y=True, any_state=True),
            Curve('cpu', 'CPU time of both ends', 'cpu_us', 'load, packets a second',
                  'us a frame', log_y=True, any_state=True)])
SATURATION_PART = Part(
    'saturation', 'Saturation', [*SETTINGS, LIMIT], LOADS[-1:], Loads, rounds=12, columns=MORE,
    comparisons=[
        *limits('of 1000 frames'),
        *(Compare(f'{what}, {kind}', figure, ours, peer, unit, target, better=better)
          for what, figure, unit, target, better in (
              ('throughput', 'kpps', 'kpps', 1, 'more'),
              ('CPU of both', 'cpu_us', 'us a frame', None, 'less'))
          for kind, ours, peer in (
              ('flags', 'suppressed', 'armed'),
              ('EVENT_IDX', 'suppressed, EVENT_IDX', 'armed, EVENT_IDX'))),
        Compare('throughput against DPDK', 'kpps', 'suppressed', 'net_virtio_user', 'kpps')])
PATIENCE_PART = Part(
    'patience', 'How long to poll on before a sleep (--idle-usecs)', ['10k', '100k', 'max'],
    PATIENCE, Patience, rounds=3, columns=COUNTS, any_state=True,
    curves=[Curve('patience-cpu', 'CPU time of the switch', 'switch_us', '--idle-usecs',
                  'us a frame', log_y=True, any_state=True),
            Curve('patience-latency', 'There and back, p50', 'p50_us', '--idle-usecs', 'us',
                  log_y=True, any_state=True)])

EXPERIMENT = Experiment('wakeups', 'Wakeups: suppression between two ends that sleep', FINDING,
                        METHOD, LIMITS, [LOADS_PART, SATURATION_PART, PATIENCE_PART], huge_mb=640)
