# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""One trial of an open loop: a paced sluice-traffic on a stock net_vhost port on one CPU, which is
the device end of the ring, and a sluice-traffic behind a virtio driver on the other.

The sender never waits for the receiver: what the ring has no buffers for is *refused*.
"""

import os
import signal
from contextlib import contextmanager

from harness.proc import wait_until
from harness.traffic import Traffic
from rigs import GUEST_CPU, HOST_CPU

SENDER, OURS, STOCK = 'net_vhost0', 'net_sluice_user0', 'net_virtio_user0'
WARM_UP = 0.1  # the receiver begins to poll some milliseconds after the link is up


@contextmanager
def ended(rig, *processes):
    """Processes of one trial: of the rig no longer when they ended as they should."""
    yield
    for process in processes:
        process.close()
        rig.processes.remove(process)


def trial(place, driver, devargs, *, sender, receiver, ring, seconds, mem=256):
    """Run it; returns what the sender and what the receiver wrote.

    `driver` is OURS or STOCK, `devargs` what its vdev is given besides socket and ring; `sender`
    and `receiver` are options of sluice-traffic, as strings. The receiver is told to end when the
    sender has ended, so it runs for a little longer.
    """
    rig = place.rig
    sock = rig.path(f'open{len(os.listdir(rig.dir))}')
    more = {'mem': mem, 'huge_dir': place.huge_dir}
    # A stock vhost that listens looks for who came only once a second.
    words = ',' + devargs if devargs else ''
    receive = rig.add(Traffic, 'receiver', cpu=GUEST_CPU, plugin=driver == OURS, **more,
                      vdevs=[f'{driver},path={sock},queue_size={ring},server=1{words}'],
                      options=f'--rx {driver} --rx-descs {ring} --duration 3600 --drain 0 '
                      f'{receiver}')
    wait_until(lambda: os.path.exists(sock), 10, f'{receive.name} listens', 0.005)
    send = rig.add(Traffic, 'sender', cpu=HOST_CPU, **more,
                   vdevs=[f'{SENDER},iface={sock},queues=1,client=1'],
                   options=f'--tx {SENDER} --duration {seconds:.3f} --warmup {WARM_UP} {sender}')
    with ended(rig, send, receive):
        sent = send.result(seconds + 40)
        receive.signal(signal.SIGTERM)
        return sent, receive.result()


def stalls(*results):
    """Of all loops: the longest, and how long they stood still in all, in microseconds."""
    loops = [loop for result in results for loop in result['stalls']]
    longest = max((entry['us'] for loop in loops for entry in loop['longest']), default=0)
    return longest, sum(loop['total_us'] for loop in loops)


def port(result, name):
    """The counters of a port, the driver's own among them."""
    return next(p for p in result['ports'] if p['name'] == name)
