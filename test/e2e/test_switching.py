# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""What a learning switch does with a frame. Every test ends with the ledger adding up."""

import os
import signal

import pytest

from harness import features, frames, matrix, pcap
from harness.gate import Gate
from harness.proc import wait_until
from harness.switch import losses
from harness.testpmd import sluice_features

A, B, C = '02:51:00:00:00:0a', '02:51:00:00:00:0b', '02:51:00:00:00:0c'
NOWHERE = '02:51:00:00:00:99'
BASE = matrix.DEFAULT_CASE


class Star:
    """Three of our devices in one testpmd, each with a capture that it receives into; what a
    device sends comes from captures that are played when their step is due."""

    def __init__(self, rig, steps, switch_options=(), ports=('pa', 'pb', 'pc'), case=None,
                 cases=None, lcores=None, port_extra=None, **testpmd_options):
        self.rig, self.ports, self.steps = rig, ports, steps
        case = case or BASE
        paths = [rig.path(p) for p in ports]
        self.switch = rig.switch(
            [matrix.switch_port(p, path, case, **(port_extra or {}))
             for p, path in zip(ports, paths)], options=switch_options, lcores=lcores)
        vdevs = [matrix.sluice_vdev(i, path, (cases or {}).get(ports[i], case))
                 for i, path in enumerate(paths)]
        self.sinks = [rig.path(f'out-{p}.pcap') for p in ports]
        # Ports 0..n-1 are ours, n..2n-1 the sinks, then one source a step.
        number = 0
        for sink in self.sinks:
            vdevs.append(rig.pcap_vdev(number, [], [sink]))
            number += 1
        for i, (_, content) in enumerate(steps):
            vdevs.append(rig.pcap_vdev(number, [rig.capture(f'step{i}.pcap', content)]))
            number += 1
        self.guest = rig.testpmd('star', cpu=1, plugin=True, fwd='io', vdevs=vdevs,
                                 **testpmd_options)
        for i, port in enumerate(ports):
            mine = (cases or {}).get(port, case)
            features.assert_features(self.switch.wait_up(port), matrix.wanted_features(mine), port)
            features.assert_features(sluice_features(self.guest, f'net_sluice_user{i}'),
                                     matrix.wanted_features(mine), f'our driver {i}')
            matrix.assert_sluice_modes(self.guest, mine, ports=(i,))

    def play(self, step, want):
        """Play one step; wait until the sinks hold `want` frames each; return what is new."""
        sender = self.ports.index(self.steps[step][0])
        before = [len(pcap.read(s)) for s in self.sinks]
        count = len(self.ports)
        order = []
        for i in range(count):
            partner = 2 * count + step if i == sender else count + i
            order += [i, partner]
        self.guest.cmd('set portlist ' + ','.join(map(str, order)))
        sent = self.guest.stats(sender)['opackets']
        self.guest.start()
        self.guest.wait_stat(sender, 'opackets', sent + len(self.steps[step][1]))
        for i, name in enumerate(self.ports):
            if i != sender:
                self.guest.wait_stat(count + i, 'opackets', before[i] + want.get(name, 0))
        self.switch.assert_ledger()  # all taken frames are delivered or counted
        self.switch.wait_learned({frames.mac_text(frame[6:12]): self.steps[step][0]
                                  for frame in self.steps[step][1] if len(frame) >= 14})
        self.guest.stop()
        return {name: pcap.read(s)[before[i]:]
                for i, (name, s) in enumerate(zip(self.ports, self.sinks))}


@pytest.mark.check
def test_flooded_then_learned(rig):
    """Broadcast and unknown go to all but the source; what has spoken is then sent to alone."""
    broadcast = frames.stream(frames.BROADCAST, A, 1, 20, [60, 1500])
    unknown = frames.stream(B, A, 2, 20, [64, 1514])
    answer = frames.stream(A, B, 3, 20, 60)
    star = Star(rig, [('pa', broadcast + unknown), ('pb', answer), ('pa', unknown)])

    got = star.play(0, {'pb': 40, 'pc': 40})
    frames.assert_same(got['pb'], broadcast + unknown, 'flooded to b')
    frames.assert_same(got['pc'], broadcast + unknown, 'flooded to c')
    assert got['pa'] == [], 'the source got its own frames back'
    assert star.switch.settled('pa')['replicas'] == 40

    frames.assert_same(star.play(1, {'pa': 20})['pa'], answer, 'a was learned')
    got = star.play(2, {'pb': 20})
    frames.assert_same(got['pb'], unknown, 'b was learned')
    assert got['pc'] == [], 'c got what b alone was to get'
    assert star.switch.settled('pa')['replicas'] == 40
    star.switch.quit()


def test_multicast_is_flooded(rig):
    content = frames.stream('01:00:5e:00:00:01', A, 1, 10, 60)
    star = Star(rig, [('pa', content)])
    got = star.play(0, {'pb': 10, 'pc': 10})
    frames.assert_same(got['pb'], content, 'b')
    frames.assert_same(got['pc'], content, 'c')


@pytest.mark.check
def test_a_frame_for_its_own_port_is_filtered(rig):
    hello = frames.stream(frames.BROADCAST, A, 1, 1, 60)
    home = frames.stream(A, NOWHERE, 2, 10, 60)
    star = Star(rig, [('pa', hello), ('pa', home)])
    star.play(0, {'pb': 1, 'pc': 1})
    got = star.play(1, {})
    assert got == {'pa': [], 'pb': [], 'pc': []}
    assert losses(star.switch.settled('pa')) == {'drop_filtered': 10}


def test_a_station_that_moves_is_followed(rig):
    here = frames.stream(frames.BROADCAST, A, 1, 1, 60)
    there = frames.stream(frames.BROADCAST, A, 2, 1, 60)
    to_a = frames.stream(A, C, 3, 10, 60)
    star = Star(rig, [('pa', here), ('pb', there), ('pc', to_a)])
    star.play(0, {'pb': 1, 'pc': 1})
    star.play(1, {'pa': 1, 'pc': 1})
    got = star.play(2, {'pb': 10})
    frames.assert_same(got['pb'], to_a, 'the new port')
    assert got['pa'] == []


def test_addresses_age(rig):
    hello = frames.stream(frames.BROADCAST, B, 1, 1, 60)
    to_b = frames.stream(B, A, 2, 5, 60)
    again = frames.stream(B, A, 3, 5, 60)
    star = Star(rig, [('pb', hello), ('pa', to_b), ('pa', again)], ['--ageing', '4'])
    star.play(0, {'pa': 1, 'pc': 1})

    def forgotten():
        return B not in str(star.switch.telemetry.ask('/sluice/fdb,0'))
    got = star.play(1, {'pb': 5})['pc']
    # Where this took longer than an address is known for, it says nothing.
    assert got == [] or forgotten()
    wait_until(forgotten, 15, 'the address of b is forgotten')
    assert len(star.play(2, {'pb': 5, 'pc': 5})['pc']) == 5


def test_a_frame_that_fits_no_buffer_blocks_nobody(rig):
    """A jumbo frame for a receiver with small buffers is counted; the frames behind it pass."""
    sizes = [4000, 60, 60, 4000, 60]
    content = [frames.frame(frames.BROADCAST, A, 1, i, s) for i, s in enumerate(sizes)]
    small = dict(BASE, mrg_rxbuf=False)
    star = Star(rig, [('pa', content)], cases={'pb': small}, ports=('pa', 'pb'))
    got = star.play(0, {'pb': 3})
    frames.assert_same(got['pb'], [f for f in content if len(f) == 60], 'the small ones')
    counters = star.switch.settled('pb')
    assert losses(counters) == {'todrop_too_big': 2}


def test_runts_are_counted(rig):
    content = [bytes(range(13)), *frames.stream(frames.BROADCAST, A, 1, 3, 60)]
    star = Star(rig, [('pa', content)], ports=('pa', 'pb'))
    got = star.play(0, {'pb': 3})
    frames.assert_same(got['pb'], content[1:], 'b')
    assert losses(star.switch.settled('pa')) == {'drop_runt': 1}


def test_loopback_gives_a_port_its_own_frames(rig):
    content = frames.stream(B, A, 1, 50, [60, 1500])
    star = Star(rig, [('pa', content)], ports=('pa',), port_extra={'loopback': 'on'})
    # The one port is sender and receiver: play it with its sink as the place to receive.
    star.guest.cmd('set portlist 0,2')
    star.guest.start()
    star.guest.wait_stat(0, 'ipackets', 50)
    ledger = star.switch.assert_ledger()
    star.guest.stop()
    assert ledger['pa']['delivered'] == 50 and losses(ledger['pa']) == {}


def test_two_workers_share_a_receive_queue(rig):
    """Two workers deliver to one port at once; each sender's order is kept, nothing is lost."""
    from_a = frames.stream(C, A, 1, 100, [60, 300])
    from_b = frames.stream(C, B, 2, 100, [60, 300])
    hello = frames.stream(frames.BROADCAST, C, 3, 1, 60)
    case = dict(BASE, ring=1024)
    star = Star(rig, [('pc', hello), ('pa', from_a), ('pb', from_b)], case=case,
                lcores='0@0,1@0,2@0', ring=1024)
    star.play(0, {'pa': 1, 'pb': 1})
    # Both senders in one go.
    star.guest.cmd('set portlist 0,7,1,8,2,5')
    star.guest.start()
    star.guest.wait_stat(5, 'opackets', 200)
    star.switch.assert_ledger()
    star.guest.stop()
    got = pcap.read(star.sinks[2])
    for number, content in ((1, from_a), (2, from_b)):
        mine = [f for f in got if frames.parse(f)[2] == number]
        frames.assert_same(mine, content, f'stream {number}')


@pytest.mark.check
@pytest.mark.parametrize('ours', [True, False], ids=['sluice', 'stock-virtio-user'])
def test_capture_through_an_uplink_and_back(rig, ours):
    """net_pcap uplink -> switch -> macswap -> switch -> uplink, byte for byte."""
    content = frames.stream(A, B, 1, 100, [60, 64, 128, 1000, 1514])
    source, sink = rig.capture('in.pcap', content), rig.path('out.pcap')
    gate = Gate(rig)
    case = dict(BASE, event_idx=False)
    switch = rig.switch([matrix.switch_port('guest', rig.path('s'), case), 'up,dev=net_pcap0'],
                        vdevs=[rig.pcap_vdev(0, [source], [sink])], env=gate.env)
    vdev = matrix.sluice_vdev if ours else matrix.virtio_vdev
    guest = rig.testpmd('guest', cpu=1, plugin=ours, fwd='macswap', topology='loop',
                        vdevs=[vdev(0, rig.path('s'), case)])
    features.assert_features(switch.wait_up('guest'), matrix.wanted_features(case), 'switch')
    if ours:
        matrix.assert_sluice_modes(guest, case)
    else:
        matrix.show_stock_modes(guest)
    guest.start()
    gate.open()
    switch.wait_counter('up', 'tx_packets', 100)
    assert guest.stop()[0] == {'rx': 100, 'rx_dropped': 0, 'tx': 100, 'tx_dropped': 0}
    ledger = switch.assert_ledger()
    assert not losses(ledger['up']) and not losses(ledger['guest'])
    switch.quit()
    frames.assert_same(pcap.read(sink), [frames.swapped(f) for f in content], 'back at the uplink')


@pytest.mark.check
def test_the_report_is_the_ledger(rig):
    content = frames.stream(B, A, 1, 30, 60)
    report = rig.path('report.json')
    switch = rig.switch([f'pa,path={rig.path("a")}', f'pb,path={rig.path("b")}'], report=report)
    guest = rig.testpmd('guest', plugin=True, fwd='io', vdevs=[
        f'net_sluice_user0,path={rig.path("a")}',
        rig.pcap_vdev(0, [rig.capture('in.pcap', content)], [rig.path('x.pcap')]),
        f'net_sluice_user1,path={rig.path("b")}', rig.pcap_vdev(1, [], [rig.path('y.pcap')])])
    matrix.assert_through_switch(switch, guest, BASE, {'pa': 0, 'pb': 2})
    guest.start()
    guest.wait_stat(3, 'opackets', 30)
    ledger = switch.assert_ledger()
    said = switch.quit()
    ports = said['ports']
    if isinstance(ports, list):
        ports = {p['name']: p for p in ports}
    for name in ('pa', 'pb'):
        for key in ('rx_packets', 'tx_packets', 'replicas', 'delivered'):
            assert ports[name][key] == ledger[name][key], (name, key)
    table = switch.output()
    assert 'pa' in table and 'pb' in table and 'difference' in table.lower()


@pytest.mark.check
@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_that_stops_it_leaves_the_ledger(rig, number):
    switch = rig.switch([f'pa,path={rig.path("a")}'], report=rig.path('report.json'))
    said = switch.quit(number)
    assert list(said['ports']) == ['pa']
    assert 'difference' in switch.output().lower()
    assert not os.path.exists(rig.path('a'))


def test_a_signal_that_is_ignored_stays_so(rig):
    """As under nohup."""
    switch = rig.switch([f'pa,path={rig.path("a")}'], wrap=['env', '--ignore-signal=HUP'])
    switch.signal(signal.SIGHUP)
    switch.signal(signal.SIGHUP)
    for _ in range(20):  # the control thread answers after it would have seen the signal
        assert switch.port_names() == ['pa']
    switch.quit()
