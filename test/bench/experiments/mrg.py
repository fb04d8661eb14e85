# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Mergeable receive buffers against chains for 64 KB frames, and against small buffers."""

import os
import signal
import time
from functools import partial

import open_loop
from experiment import Column, Compare, Curve, Experiment, Part
from harness.proc import wait_until
from harness.traffic import Traffic
from open_loop import OURS, SENDER, STOCK
from rigs import GUEST_CPU, HOST_CPU

FINDING = '''
Mergeable receive buffers came to QEMU and Linux in 2008. A guest that must be ready for packets
of 64 KB had to post a chain of 65 KB for each packet, however short, so that a ring of 256
entries held a dozen of them. With merging 1 Gb/s became 2, and in another measurement, with 256
entries, 0.7 became 1.7: 2.4 times as much.
'''

METHOD = '''
The receiver is `sluice-traffic` behind our driver, with a ring of 256 entries and mbufs of 2 KB.
*merged* and *chains* are ready for frames of 65,535 bytes: *merged* with MRG_RXBUF, one mbuf a
ring entry; *chains* with `mrg_rxbuf=0`, where each buffer is a chain of 32 mbufs and takes 32
entries. *small* is the ceiling: no merging and an MTU of 1500, so it takes no longer frame.
*stock* is `net_virtio_user` with merging and an MTU of 9000, about the longest that it can have.
The sender is `sluice-traffic` on a stock `net_vhost` port, which is the device end of the ring.
Each has a CPU of its own. Sizes are without the check sequence of the frame: 64 is 60 bytes, 1500
is 1514, 9000 is 9014, *64k* is 65,535, *imix* is 7 of 60, 4 of 590 and 1 of 1514.

*Frames that a ring holds*: 512 frames come at once while the receiver is away; those that were
taken are counted, and each of them is received afterwards. *As fast as it goes*: the sender tries
each frame until it is taken; received frames, a second of sending. *Absences*: the same at 1514
bytes, with a receiver that polls for 20 microseconds in the mean (seeded, uniform in 10 to 30),
then is away for a time: what it gets then is what the ring has gathered, as in a guest that must
be scheduled first. The ring is the limit, for either kind of buffer, where the absence is longer
than filling it takes: at 200 and 1000 microseconds; there the target is 2.4. *Paced*: an open
loop of 200,000 frames a second, or 2.4 Gb/s of longer ones; the receiver is away for 500
microseconds, with pauses in between of 5 ms in the mean. What the ring had no buffers for is
dropped.
'''

LIMITS = '''
Both kinds of buffer take the same memory a ring, for the number of entries is the limit; what
differs is how much of it a frame takes. With indirect tables a ring could hold 256 chains, and 17
MB of buffers in them: then memory would be wasted instead of entries (our driver posts receive
chains direct). There is no guest kernel here, no TCP and no segmentation offload, which is where
frames of 64 KB come from. One of them takes as many entries in either mode: merging gains nothing
there. The ratio under absences grows with the absence until it is that of what the rings hold,
32; 2.4 is what the scheduling of one machine made of it. Without absences it is the cost of 32
descriptors a frame, on both sides, and of a ring of 8 buffers whose ends wait for each other.
'''

RING, BUFFER, HEADER, ETHERNET = 256, 2048, 12, 18
# What a receiver may be: its driver, whether buffers are merged, and its MTU.
VARIANTS = {'merged': (OURS, 1, 65517), 'chains': (OURS, 0, 65517), 'small': (OURS, 0, 1500),
            'stock': (STOCK, 1, 9000)}
SIZES = {'64': 60, '1500': 1514, '9000': 9014, '64k': 65535, 'imix': 'imix'}
LONGEST = {**SIZES, 'imix': 1514}
PACED = {'64': 200000, '1500': 200000, '9000': 33000, '64k': 4600, 'imix': 200000}
AWAY, AWAY_EVERY = 500, 5000  # of *paced*, in microseconds
PRESENT = 20                  # between two absences of *absences*, in the mean
PUBLISHED = 2.4
NO_SLOWER = 0.97


def takes(variant, size):
    return LONGEST[size] <= VARIANTS[variant][2] + ETHERNET


def entries_of_a_frame(variant):
    """Of the longest one where nothing is merged; else a frame takes what it needs."""
    _, merged, mtu = VARIANTS[variant]
    return 1 if merged else -(-(HEADER + mtu + ETHERNET) // (BUFFER + HEADER))


def receiver_of(variant, size):
    return f'--size {SIZES[size]} --mtu {VARIANTS[variant][2]} --mbuf-size {BUFFER}'


class Trials:
    """Each with two processes of its own."""

    def __init__(self, place, part):
        del part
        self.place = place

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def trial(self, variant, size, seconds, sender, receiver=''):
        driver, merged, _ = VARIANTS[variant]
        sent, received = open_loop.trial(
            self.place, driver, f'mrg_rxbuf={merged}', ring=RING, seconds=seconds,
            sender=f'--size {SIZES[size]} {sender}',
            receiver=f'{receiver_of(variant, size)} {receiver}')
        return sent['sender'], received['receiver']


class Holds(Trials):
    """More frames at once than any ring takes, for a receiver that is not there. The sender must
    not end before they were received: its driver would take the ring with it."""

    def measure(self, variant, size, seed):
        if not takes(variant, size):
            return {}
        rig, (driver, merged, _) = self.place.rig, VARIANTS[variant]
        sock = rig.path(f'holds{len(os.listdir(rig.dir))}')
        sender = rig.add(
            Traffic, 'sender', cpu=HOST_CPU, huge_dir=self.place.huge_dir,
            vdevs=[f'{SENDER},iface={sock},client=0'],
            options=f'--tx {SENDER} --size {SIZES[size]} --shape bursts:{2 * RING} --rate 100 '
                    '--duration 3600')
        wait_until(lambda: os.path.exists(sock), 10, 'the sender listens', 0.005)
        receiver = rig.add(
            Traffic, 'receiver', cpu=GUEST_CPU, huge_dir=self.place.huge_dir, plugin=True,
            vdevs=[f'{driver},path={sock},queue_size={RING},mrg_rxbuf={merged}'],
            options=f'--rx {driver} --rx-descs {RING} {receiver_of(variant, size)} --drain 20 '
                    f'--duration 3600 --away 10000000 --away-every 1 --seed {seed}')
        with open_loop.ended(rig, sender, receiver):
            for process in sender, receiver:
                process.expect('^sluice-traffic: running$', 20)
            time.sleep(0.1)  # the burst takes less than a millisecond
            receiver.signal(signal.SIGTERM)
            received = receiver.result()['receiver']['received']
            sender.signal(signal.SIGTERM)
            sent = sender.result()['sender']
        assert sent['sent'] == received and sent['offered'] == 2 * RING, \
            f'{sent["offered"]} frames at once, {sent["sent"]} taken, {received} received'
        a_frame = entries_of_a_frame(variant)
        posted = RING // a_frame * a_frame * BUFFER / 1024
        return {'held': received, 'posted': posted, 'each': posted / received}


class Rate(Trials):
    def measure(self, variant, size, seed):
        del seed
        return self.rate(variant, size) if takes(variant, size) else {}

    def rate(self, variant, size, receiver=''):
        sent, received = self.trial(variant, size, 0.3, '--rate max', receiver)
        return {'mpps': received['received'] / sent['seconds'] / 1e6,
                'gbps': received['received_bytes'] * 8 / sent['seconds'] / 1e9}


class Absences(Rate):
    """Of so many microseconds."""

    def measure(self, variant, away, seed):
        return self.rate(variant, '1500',
                         f'--away {away} --away-every {PRESENT} --seed {seed}' if away else '')


class Paced(Trials):
    def measure(self, variant, size, seed):
        if not takes(variant, size):
            return {}
        sent, received = self.trial(
            variant, size, 0.4, f'--rate {PACED[size]} --when-late shift',
            f'--away {AWAY} --away-every {AWAY_EVERY} --seed {seed}')
        return {'dropped': 100 * sent['refused'] / sent['offered'], 'refused': sent['refused'],
                'kpps': sent['offered'] / sent['seconds'] / 1e3, 'absences': received['absences']}


ALL = list(VARIANTS)
OWN = ['merged', 'chains', 'small']
SPEED = [Column('mpps', 'Mpps', '{:.4g}'), Column('gbps', 'Gb/s', '{:.4g}')]
faster = partial(Compare, figure='mpps', ours='merged', unit='Mpps')
LONG_ABSENCES, SHORT_ABSENCES = [200, 1000], [0, 10, 50]

EXPERIMENT = Experiment(
    'mrg', 'Merging: what a receiver costs that is ready for 64 KB', FINDING, METHOD, LIMITS,
    [Part('holds', 'Frames that a ring of 256 entries holds', OWN, list(SIZES), Holds, rounds=3,
          any_state=True,
          columns=[Column('held', 'frames held', '{:.0f}'),
                   Column('posted', 'buffers posted, KB', '{:.0f}'),
                   Column('each', 'KB a frame held', '{:.4g}')],
          comparisons=[Compare('merged / chains,', 'held', 'merged', 'chains', 'frames',
                               any_state=True)]),
     Part('rate', 'As fast as it goes', ALL, list(SIZES), Rate, rounds=4, long_rounds=12,
          columns=SPEED,
          comparisons=[faster('merged / chains,', peer='chains'),
                       faster('merged / stock,', peer='stock',
                              points=['64', '1500', '9000', 'imix'])],
          curves=[Curve('rate', 'As fast as it goes', 'gbps', 'bytes of a frame',
                        'Gb/s received')]),
     Part('ceiling', 'The same for the shortest frames, against small buffers',
          ['merged', 'small'], ['64'], Rate, rounds=9, long_rounds=25, columns=SPEED,
          comparisons=[faster('merged / small, 64', peer='small', target=NO_SLOWER)]),
     Part('absences', 'As fast as it goes, 1514 bytes, with absences of the receiver',
          ['merged', 'chains'], SHORT_ABSENCES + LONG_ABSENCES, Absences, rounds=4,
          long_rounds=12, columns=SPEED,
          comparisons=[faster('merged / chains, us:', peer='chains', target=PUBLISHED,
                              points=LONG_ABSENCES),
                       faster('merged / chains, us:', peer='chains', points=SHORT_ABSENCES)],
          curves=[Curve('absences', '1514 bytes, the receiver away after each 20 us', 'gbps',
                        'absence, us', 'Gb/s received', log_y=True)]),
     Part('paced', 'Paced, the receiver away for 500 us now and then', OWN, list(SIZES), Paced,
          rounds=3, long_rounds=12, any_state=True,
          columns=[Column('dropped', 'dropped, %', '{:.3g}'),
                   Column('kpps', 'offered, kpps', '{:.4g}'),
                   Column('absences', 'absences', '{:.0f}')],
          comparisons=[Compare('merged / chains,', 'dropped', 'merged', 'chains', '% dropped',
                               better='less', how='total', any_state=True)])],
    huge_mb=640)
