# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""sluice-traffic, the instrument of test/bench: what it sends, what it makes of what arrives, and
that it agrees with the switch's ledger to the last frame."""

import re
import signal
import struct

import pytest

from harness import build, matrix, pcap, traffic
from harness.proc import wait_until
from harness.traffic import Traffic

RING = 'net_ring0'
LOOP = f'--tx {RING} --rx {RING} '
MACS = ('02:51:00:00:00:01', '02:51:00:00:00:02')

# (what, options): through a ring of its own everything comes back, in order, once.
LOSSLESS = [
    ('paced', '--rate 50k --count 10000'),
    ('one by one', '--rate 20k --burst 1 --count 2000'),
    ('bursts', '--rate 500k --shape bursts:100 --count 20000 --flows 7'),
    ('on and off', '--rate 200k --shape on-off:5:5 --count 10000'),
    ('moved when late', '--rate 300k --when-late shift --count 30000'),
    ('as fast as it goes', '--count 240000 --size imix --warmup 0.05'),
    ('closed loop', '--window 5 --count 20000 --flows 3'),
    ('every byte checked', '--verify --size 64-9600 --count 9537 --flows 11'),
    ('frames of several mbufs', '--verify --size 8000-65535 --window 20 --count 2311 --flows 3'),
    ('calls timed', '--rate 50k --count 5000 --time-calls'),
    ('queues', '--queues 4 --flows 1001 --count 40000 --verify --size 64,1514'),
    ('one sequence', '--sequence global --flows 65536 --count 140000'),
]


def start(rig, options, vdevs=(RING,), **more):
    """What the other side still has is waited for, though it may have lost its CPU."""
    if '--tx' in options and '--rx' in options:
        options += ' --drain 1000'
    return rig.add(Traffic, 'traffic', options=options, vdevs=vdevs, **more)


def number(options, name):
    match = re.search(rf'--{name} (\d+)', options)
    return int(match[1]) if match else 1


def assert_nothing_wrong(receiver, but=()):
    """Nothing lost, doubled, out of order, bad or foreign."""
    for key in ('lost', 'loss_events', 'longest_loss', 'too_late', 'reordered', 'max_distance',
                'duplicates', 'bad_length', 'bad_header', 'bad_content', 'bad_number', 'foreign',
                'late_warmup', 'before_sent'):
        assert key in but or receiver[key] == 0, f'{key}: {receiver[key]}'


def assert_lossless(result, count, flows=1, queues=1):
    sender, receiver = result['sender'], result['receiver']
    assert sender['offered'] == sender['sent'] == receiver['received'] == count
    assert sender['sent_bytes'] == receiver['received_bytes']
    assert receiver['latency_ns']['count'] == count
    assert sum(n for _, n in receiver['latency_ns']['buckets']) == count
    assert_nothing_wrong(receiver)
    listed = result['flows']
    if flows <= 1024:
        assert [f['flow'] for f in listed] == list(range(flows))
        assert sum(f['received'] for f in listed) == count
        for queue in range(queues):  # the flows of a queue take turns
            sent = [f['sent'] for f in listed[queue::queues]]
            assert max(sent) - min(sent) <= 1


@pytest.mark.check
@pytest.mark.stock
@pytest.mark.parametrize('what,options', LOSSLESS, ids=[w.replace(' ', '-') for w, _ in LOSSLESS])
def test_a_ring_loses_nothing(rig, what, options):
    result = start(rig, LOOP + options).result()
    assert_lossless(result, number(options, 'count'), number(options, 'flows'),
                    number(options, 'queues'))
    if '--rate' in options:
        late = result['sender']['lateness_ns']
        assert late['count'] == number(options, 'count')  # each frame had its own deadline
    if '--time-calls' in options:
        calls = result['receiver']['rx_calls']
        assert calls['gave_cycles']['count'] == result['receiver']['calls'] > 0
        assert calls['empty_ns']['count'] > 0
    if 'imix' in options:
        assert result['sender']['sent_bytes'] == 240000 // 12 * (7 * 60 + 4 * 590 + 1514)


@pytest.mark.check
@pytest.mark.stock
def test_what_the_port_does_not_take_is_refused(rig):
    """Nobody empties the ring: it takes what it holds, and in an open loop the rest is refused."""
    result = start(rig, f'--tx {RING} --rate 1M --count 5000 --tx-descs 64').result()
    sender, (port,) = result['sender'], result['ports']
    assert sender['offered'] == 5000
    assert 0 < sender['sent'] < 5000
    assert sender['sent'] + sender['refused'] == 5000
    assert sender['sent'] == port['opackets']
    assert sender['short_calls'] > 0 and sender['retries'] == 0


@pytest.mark.check
@pytest.mark.stock
def test_what_a_ring_cannot_hold_of_an_absence(rig):
    """The receiver is away for longer than the ring lasts: the rest is refused, nothing lost."""
    rate, capacity = 100000, 1023  # of net_ring's
    result = start(rig, f'{LOOP} --rate {rate} --count 40000 --away 20000 --away-every 60000 '
                   '--seed 3').result()
    sender, receiver = result['sender'], result['receiver']
    assert_nothing_wrong(receiver)
    assert sender['sent'] == receiver['received']
    due = receiver['away_us'] * rate / 1e6
    beyond = due - receiver['absences'] * capacity
    # At its ends an absence is a burst longer or shorter. Of what is due while the whole program
    # has no CPU, some comes in an absence for what was due before it, or the other way round.
    loop, = result['stalls']
    assert receiver['absences'] >= 3
    assert sender['refused'] > 0
    assert abs(sender['refused'] - beyond) <= (receiver['absences'] * 64
                                               + loop['total_us'] * rate / 1e6)
    assert receiver['silence']['us'] >= 20000


@pytest.mark.stock
@pytest.mark.parametrize('mbufs,why', [('', 'short_calls'), ('--mbufs 2000', 'no_mbuf')],
                         ids=['ring-full', 'no-mbufs'])
def test_long_frames_that_were_refused(rig, mbufs, why):
    """Their mbufs are used again, for frames of the other size."""
    result = start(rig, LOOP + '--rate 200k --count 20000 --queues 2 --flows 2 --size 64,20000 '
                   f'--verify --away 20000 --away-every 20000 {mbufs}').result()
    sender, receiver = result['sender'], result['receiver']
    assert sender['refused'] > 0 and sender[why] > 0
    assert sender['sent'] == receiver['received'] > 0
    assert sender['sent_bytes'] == receiver['received_bytes']
    assert_nothing_wrong(receiver)


@pytest.mark.check
@pytest.mark.stock
def test_without_a_rate_nothing_is_refused(rig):
    """Time ends it: what was never taken was never offered."""
    result = start(rig, f'--tx {RING} --duration 0.5').result()
    sender, (port,) = result['sender'], result['ports']
    assert sender['offered'] == sender['sent'] == port['opackets'] > 0
    assert sender['refused'] == 0 and sender['retries'] > 0


@pytest.mark.stock
def test_a_window_is_given_up(rig):
    """Nothing ever comes back (and what comes is not ours): a closed loop goes on all the same."""
    result = start(rig, '--tx net_null0 --rx net_null0 --window 8 --count 24', ['net_null0']).result()
    sender, receiver = result['sender'], result['receiver']
    assert sender['sent'] == 24
    assert sender['window_resets'] == 2
    assert sender['written_off'] == 16
    assert receiver['received'] == 0 and receiver['lost'] == sender['sent']
    assert receiver['foreign'] == receiver['frames'] > 0


def capture(rig, options):
    """What the program sends, as bytes."""
    path = rig.path('sent.pcap')
    result = start(rig, f'--tx net_pcap0 {options}', [f'net_pcap0,tx_pcap={path}']).result()
    sent = pcap.read(path)
    assert len(sent) == result['sender']['sent'] == number(options, 'count')
    return sent


def ones_sum(data):
    """RFC 1071."""
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return total


@pytest.mark.stock
@pytest.mark.parametrize('verify', ['', ' --verify'], ids=['plain', 'verify'])
def test_frames_as_they_leave(rig, verify):
    sent = capture(rig, '--count 1250 --size 64-688 --flows 5 --stream 513 '
                   f'--src-mac {MACS[0]} --dst-mac {MACS[1]}{verify}')
    tuples = {}
    for i, frame in enumerate(sent):
        dst, src, kind = struct.unpack_from('!6s6sH', frame)
        assert dst == bytes.fromhex(MACS[1].replace(':', ''))
        assert src == bytes.fromhex(MACS[0].replace(':', ''))
        assert kind == 0x0800 and frame[14] == 0x45 and frame[23] == 17
        assert len(frame) == 64 + i % 625
        ip_length, = struct.unpack_from('!H', frame, 16)
        udp_length, udp_sum = struct.unpack_from('!HH', frame, 38)
        assert ip_length == len(frame) - 14 and udp_length == len(frame) - 34
        assert ones_sum(frame[14:34]) == 0xffff
        pseudo = frame[26:34] + struct.pack('!HH', 17, udp_length)
        assert udp_sum != 0 and ones_sum(pseudo + frame[34:]) == 0xffff
        _, stream, flow, sequence = struct.unpack_from('<HHHI', frame, 42)
        assert (stream, flow, sequence) == (513, i % 5, i // 5)
        tuples.setdefault(flow, set()).add(frame[26:38])
    assert [len(t) for t in tuples.values()] == [1] * 5  # a flow has one 5-tuple,
    assert len(set.union(*tuples.values())) == 5         # and no other flow has it


@pytest.mark.check
@pytest.mark.stock
def test_faults_are_counted(rig):
    """A capture of what was sent, with known faults made in it, is received."""
    frames = dict(enumerate(capture(rig, '--count 1000 --size 80 --verify')))
    late = frames.pop(600)
    for gone in [*range(10, 20), 500]:
        del frames[gone]
    frames[700] = frames[700][:75] + bytes([frames[700][75] ^ 1]) + frames[700][76:]
    frames[800] = frames[800][:79]
    frames[900] = frames[900][:35] + bytes([frames[900][35] ^ 1]) + frames[900][36:]
    came = []
    for i, frame in frames.items():
        came += [frame] * (3 if i == 30 else 1)
        if i == 650:
            came += [late, bytes(60)]
    source = rig.capture('faulty.pcap', came)
    result = start(rig, '--rx net_pcap0 --count 986 --duration 60 --drain 0 --verify --size 80',
                   [f'net_pcap0,rx_pcap={source}']).result()
    receiver = result['receiver']
    assert receiver['frames'] == len(came)
    assert receiver['received'] == 1000 - 11 - 3
    assert (receiver['lost'], receiver['loss_events'], receiver['longest_loss']) == (14, 5, 10)
    assert (receiver['reordered'], receiver['max_distance']) == (1, 50)
    assert receiver['duplicates'] == 2
    assert (receiver['bad_content'], receiver['bad_length'], receiver['bad_header']) == (1, 1, 1)
    assert receiver['foreign'] == 1
    assert [g['frames'] for g in receiver['gaps']] == [10, 1, 1, 1, 1, 1]  # 600 seemed lost
    assert_nothing_wrong(receiver, but=('lost', 'loss_events', 'longest_loss', 'reordered',
                                        'max_distance', 'duplicates', 'bad_content',
                                        'bad_length', 'bad_header', 'foreign'))


@pytest.mark.stock
def test_sender_and_receiver_in_two_processes(rig):
    """Stock virtio-user and vhost between them. The sender stays until enough have come: what is in
    the ring when it ends is lost with it."""
    sock, frames = rig.path('s'), 200
    receiver = start(rig, f'--rx net_vhost0 --count {frames} --duration 30 --flows 3 --verify '
                     '--size 64', [f'net_vhost0,iface={sock},client=0'], cpu=0)
    receiver.expect('binding succeeded', 20)
    sender = start(rig, '--tx net_virtio_user0 --rate 10k --duration 600 --flows 3 --verify '
                   '--size 64', [f'net_virtio_user0,path={sock},queue_size=256'], cpu=1)
    received = receiver.result()['receiver']
    sender.signal(signal.SIGTERM)
    sent = sender.result()['sender']
    assert frames <= received['received'] <= sent['sent']
    assert_nothing_wrong(received)
    assert received['latency_ns']['min'] > 0


SLEEPERS = [('net_virtio_user0', ''), ('net_sluice_user0', ''),
            ('net_sluice_user0', '--keep-armed')]


@pytest.mark.check
@pytest.mark.stock
@pytest.mark.parametrize('driver,options', SLEEPERS,
                         ids=[d.split('_')[1] + o.replace('--', '-') for d, o in SLEEPERS])
def test_a_receiver_that_sleeps(rig, driver, options):
    """Frames a millisecond apart: each that the ring took arrives, and none waits for the end of a
    sleep. The first may find no ring yet. The sender stays until enough have come."""
    if driver == 'net_sluice_user0' and build.missing():
        pytest.skip(build.missing() + ' is not built')
    sock = rig.path('s')
    sender = start(rig, '--tx net_vhost0 --rate 1k --duration 600',
                   [f'net_vhost0,iface={sock},client=0'], cpu=0)
    sender.expect('binding succeeded', 20)
    receiver = start(rig, f'--rx {driver} --count 1200 --duration 60 --sleep {options}',
                     [f'{driver},path={sock},queue_size=256'], cpu=1,
                     plugin=driver == 'net_sluice_user0')
    received = receiver.result()['receiver']
    sender.signal(signal.SIGTERM)
    sent = sender.result()['sender']
    assert 1200 <= received['received'] <= sent['sent']
    assert_nothing_wrong(received)
    sleep = received['sleep']
    assert sleep['sleeps'] == sleep['wakes'] + sleep['deadlines'] + sleep['timeouts']
    assert 0 < sleep['wakes'] <= sleep['sleeps']
    assert sleep['missed'] == 0


@pytest.mark.stock
def test_a_signal_ends_it(rig):
    process = start(rig, LOOP + '--rate 100k --duration 100')
    process.expect('^sluice-traffic: running$', 20)
    wait_until(lambda: process.stats()['opackets'] > 0, 20, 'it sends')
    process.signal(signal.SIGINT)
    result = process.result()
    count = result['sender']['sent']
    assert 0 < count < 100 * 100000
    assert_lossless(result, count)


@pytest.mark.check
@pytest.mark.stock
def test_as_an_ordinary_user(user_rig):
    if not build.readable_by_others(traffic.program()):
        pytest.skip(f'{traffic.program()} cannot be read by other users')
    process = start(user_rig, LOOP + '--rate 100k --count 5000')
    assert_lossless(process.result(), 5000)


@pytest.mark.check
@pytest.mark.stock
@pytest.mark.parametrize('options,words,status', [
    ('', ['no port', '--tx'], 2),
    ('--tx 7', ['no port 7', '--vdev'], 2),
    ('--tx net_ring7', ['net_ring7', '--vdev'], 2),
    (LOOP + '--rate quick', ['--rate', 'quick', 'max'], 2),
    (LOOP + '--json /tmp/no/where', ['--json', '/tmp/no/where'], 2),
    (LOOP + '--queues 17 --flows 17', ['net_ring0', '--queues 16'], 1),
    (LOOP + '--mbufs 10000000', ['10000000 mbufs', '-m'], 1),
    (LOOP + '--mbufs 100 --size 65535', ['--mbufs', 'needs 256'], 1),
    (LOOP + '--sleep', ['--sleep', 'net_ring0', 'no receive interrupts'], 1),
], ids=lambda v: None if isinstance(v, (list, int)) else v.replace(LOOP, '').strip() or 'none')
def test_bad_input(rig, options, words, status):
    process = start(rig, options, json_file=False)
    assert process.wait(20) == status
    lines = [x for x in process.output().splitlines() if x.startswith('sluice-traffic: ')]
    assert len(lines) == 1 and all(w in lines[0] for w in words), process.output()


def switch_with(rig, *ports):
    return rig.switch([matrix.switch_port(p, rig.path(p), matrix.DEFAULT_CASE, **more)
                       for p, more in ports])


def drops(counters, prefix='drop_'):
    return {k: v for k, v in counters.items() if k.startswith(prefix) and v}


@pytest.mark.check
def test_a_closed_loop_through_the_switch(rig):
    """There and back by the same port: nothing lost, nothing out of order."""
    switch = switch_with(rig, ('loop', {'loopback': 'on'}))
    port = 'net_sluice_user0'
    result = start(rig, f'--tx {port} --rx {port} --window 64 --count 100000 --size 64,1514 '
                   '--verify --flows 9', [f'{port},path={rig.path("loop")}'], plugin=True).result()
    assert_lossless(result, 100000, 9)
    assert result['sender']['window_resets'] == 0
    counters = switch.assert_ledger()['loop']
    assert counters['rx_packets'] == counters['tx_packets'] == 100000
    assert drops(counters) == {}
    switch.quit()


@pytest.mark.check
def test_every_frame_lost_is_one_that_the_switch_counted(rig):
    """A receive ring that is too small for what is sent at once. Instrument and ledger agree."""
    switch = switch_with(rig, ('loop', {'loopback': 'on'}))
    port = 'net_sluice_user0'
    result = start(rig, f'--tx {port} --rx {port} --rate max --count 200000 --burst 512 '
                   '--tx-descs 1024 --rx-descs 64 --flows 4',
                   [f'{port},path={rig.path("loop")}'], plugin=True).result()
    sender, receiver = result['sender'], result['receiver']
    counters = switch.assert_ledger()['loop']
    print(f'sent {sender["sent"]}, received {receiver["received"]}, lost {receiver["lost"]} in '
          f'{receiver["loss_events"]} events; the switch: {drops(counters)}')
    assert sender['sent'] == 200000 == counters['rx_packets']
    assert receiver['received'] == counters['tx_packets']
    assert receiver['lost'] > 0
    assert drops(counters) == {'drop_no_buffers': receiver['lost']}
    assert_nothing_wrong(receiver, but=('lost', 'loss_events', 'longest_loss'))
    switch.quit()


LOOP_OURS = '--tx net_sluice_user0 --rx net_sluice_user0 '


def loop_through_switch(rig, options, **more):
    """What the program and what the switch say of frames that go there and back."""
    switch = rig.switch([f'loop,path={rig.path("loop")},loopback=on'])
    result = start(rig, LOOP_OURS + options, [f'net_sluice_user0,path={rig.path("loop")}'],
                   plugin=True, **more).result()
    counters = switch.assert_ledger()['loop']
    switch.quit()
    return result, counters


@pytest.mark.check
@pytest.mark.parametrize('buffers', ['', '--mbuf-size 512'], ids=['2048', '512'])
def test_frames_of_64_kb_come_back_byte_for_byte(rig, buffers):
    result, counters = loop_through_switch(
        rig, f'--size 64,9000,65535,30001 --verify --window 4 --count 2000 {buffers}', mem=384)
    assert_lossless(result, 2000)
    assert counters['rx_packets'] == counters['tx_packets'] == 2000
    port, = result['ports']
    assert port['scatter'] and port['rx_room'] == (512 if buffers else 2048)
    assert port['xstats']['rx_q0_good_packets'] == 2000
    assert port['xstats']['rx_q0_good_bytes'] == 500 * (64 + 9000 + 65535 + 30001)


DISTURBED = [('--away 4000 --away-every 20000', 'absences'),
             ('--starve 10000 --starve-every 30000 --time-calls', 'starvations')]


@pytest.mark.check
@pytest.mark.parametrize('options,what', DISTURBED, ids=[what for _, what in DISTURBED])
def test_what_a_disturbed_receiver_loses(rig, options, what):
    """No buffers, be it that nobody polls or that there are no mbufs: the switch counted each."""
    result, counters = loop_through_switch(
        rig, f'--rate 100k --shape bursts:8 --when-late shift --count 50000 --rx-descs 64 '
        f'--tx-descs 1024 {options}')
    sender, receiver = result['sender'], result['receiver']
    assert receiver[what] > 0 and receiver['lost'] > 0
    assert sender['sent'] == counters['rx_packets']
    assert receiver['received'] == counters['tx_packets']
    assert drops(counters) == {'drop_no_buffers': receiver['lost']}
    assert_nothing_wrong(receiver, but=('lost', 'loss_events', 'longest_loss'))
    if what == 'starvations':
        assert receiver['starve_taken'] > 0 and receiver['starve_kept'] > 0
        assert 0 < receiver['rx_calls']['after_dry_cycles']['count'] <= receiver[what]
        assert result['ports'][0]['rx_nombuf'] > 0


@pytest.mark.check
def test_a_sleeper_that_sends_too(rig):
    """It wakes for its own frames and for those that come back, and burns no CPU in between."""
    result, counters = loop_through_switch(
        rig, '--rate 1k --count 500 --sleep --tx-descs 1024 --rx-descs 1024')
    assert_lossless(result, 500)
    assert counters['rx_packets'] == counters['tx_packets'] == 500
    sleep = result['receiver']['sleep']
    assert sleep['sleeps'] == sleep['wakes'] + sleep['deadlines'] + sleep['timeouts']
    assert sleep['wakes'] > 0 and sleep['missed'] == 0
    loop, = result['stalls']
    assert 0 < loop['cpu_s'] < loop['wall_s']


def test_from_one_guest_to_another(rig):
    """Two ports, the address of the receiver announced, more than its ring can take at times."""
    switch = switch_with(rig, ('pa', {}), ('pb', {}))
    vdevs = [f'net_sluice_user{i},path={rig.path(p)},mac={MACS[i]}'
             for i, p in enumerate(('pa', 'pb'))]
    result = start(rig, '--tx net_sluice_user0 --rx net_sluice_user1 --announce --rate 1M '
                   '--shape bursts:600 --count 60000 --size imix --tx-descs 1024',
                   vdevs, plugin=True).result()
    sender, receiver = result['sender'], result['receiver']
    ledger = switch.assert_ledger()
    assert sender['offered'] == sender['sent'] + sender['refused'] == 60000
    assert ledger['pa']['rx_packets'] == sender['sent']
    assert ledger['pb']['rx_packets'] == 1  # the announcement
    assert receiver['received'] == ledger['pb']['tx_packets']
    assert receiver['lost'] == sum(drops(ledger['pa']).values())
    assert drops(ledger['pb'], 'todrop_').get('todrop_no_buffers', 0) == receiver['lost']
    switch.quit()
