# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""An application that sleeps on receive interrupts is woken for every frame, whatever the moment;
and while it sleeps, its backend may go and come."""

import signal

import pytest

from harness import build, features
from harness.proc import Proc, wait_until
from harness.rx_sleep import RxSleep, Sender, program
from harness.testpmd import sluice_features, vhost_features
from harness.traffic import Traffic

MAC = '02:51:00:00:00:0a'
COUNT = 10000
FEWER = 2000
SINGLE = 5
SEED = 20261130


def senders(count):
    return [f'02:51:00:00:01:{i:02x}' for i in range(count)]


def vdev(path, **more):
    args = {'path': path, 'mac': MAC, **more}
    return 'net_sluice_user0,' + ','.join(f'{k}={v}' for k, v in args.items())


def switch_with(rig, port_options=''):
    switch = rig.switch([f'pa,path={rig.path("a")}{port_options}', f'pb,path={rig.path("b")}'])
    return switch


def sleeper(rig, device, *options):
    return rig.add(RxSleep, 'sleep', vdev=device, options=['--echo', '--linger-us', '100', *options])


def assert_woken_for_all(seen, count):
    assert seen['frames'] == seen['echoed'] == count
    assert seen['missed'] == 0
    assert seen['not_echoed'] == 0
    # It did sleep, not only poll.
    assert seen['wakes'] >= count // 4


@pytest.mark.parametrize('event_idx, queues', [(0, 1), (1, 2)])
def test_no_frame_is_slept_over(rig, event_idx, queues):
    """Each frame finds the application at another moment: polling, arming, asleep."""
    word = 'on' if event_idx else 'off'
    switch = switch_with(rig, f',event_idx={word},queues={queues}')
    app = sleeper(rig, vdev(rig.path('a'), event_idx=event_idx, queues=queues),
                  '--queues', str(queues))
    app.wait_ready()
    sender = Sender(rig.path('b'), MAC, senders(16), SEED + 2 * event_idx + queues)
    for port in ('pa', 'pb'):
        switch.wait_up(port)
    features.assert_features(sluice_features(app, 'net_sluice_user0'),
                             {'EVENT_IDX': bool(event_idx)}, 'our driver')
    sender.send(COUNT)
    app.wait_asleep()
    counters = app.xstats()
    armed = sum(counters[f'rx_q{q}_intr_armed'] for q in range(queues))
    at_once = sum(counters[f'rx_q{q}_intr_at_once'] for q in range(queues))
    print(f'armed {armed} times, {at_once} of these in vain')
    seen = app.result()
    assert_woken_for_all(seen, COUNT)
    assert all(n > 0 for n in seen['frames_by_queue'])
    assert armed >= seen['sleeps'] * queues
    assert 0 < at_once < armed
    switch.assert_ledger()
    sender.close()
    switch.quit()


@pytest.mark.parametrize('event_idx', [0, 1])
def test_woken_by_stock_vhost(rig, event_idx):
    """The same behind net_vhost of the distribution: its calls, not ours."""
    host = rig.testpmd('vhost', cpu=0, fwd='io', vdevs=[
        f'net_vhost0,iface={rig.path("a")},queues=1', f'net_vhost1,iface={rig.path("b")},queues=1'])
    app = sleeper(rig, vdev(rig.path('a'), event_idx=event_idx))
    app.wait_ready()
    features.assert_features(vhost_features(host), {'EVENT_IDX': bool(event_idx)}, 'stock vhost')
    sender = Sender(rig.path('b'), MAC, senders(1), SEED + 7 + event_idx)
    host.wait_link(True, 1)
    host.start()
    sender.send(FEWER)
    assert_woken_for_all(app.result(), FEWER)
    sender.close()
    assert host.quit() == 0


STATIC = {'coalesce': 'static', 'coalesce_frames': 16, 'coalesce_usecs': 2000}
ADAPTIVE = {'coalesce': 'adaptive'}
MODERATED = pytest.mark.parametrize('event_idx, moderation', [(0, STATIC), (1, ADAPTIVE)],
                                    ids=['static', 'adaptive'])


@MODERATED
def test_no_frame_is_slept_over_when_moderated(rig, event_idx, moderation):
    """A timer may end each sleep instead of the frame."""
    switch = switch_with(rig, ',event_idx=' + ('on' if event_idx else 'off'))
    app = sleeper(rig, vdev(rig.path('a'), event_idx=event_idx, **{**moderation, **(
        {'coalesce_usecs': 100} if moderation is STATIC else {})}))
    sender = Sender(rig.path('b'), MAC, senders(1), SEED + 20 + event_idx)
    for port in ('pa', 'pb'):
        switch.wait_up(port)
    sender.send(FEWER)
    seen = app.result()
    assert seen['frames'] == seen['echoed'] == FEWER
    assert seen['missed'] == seen['not_echoed'] == 0
    switch.assert_ledger()
    sender.close()
    switch.quit()


@MODERATED
def test_a_stream_wakes_less_often_than_it_has_frames(rig, event_idx, moderation):
    """Sent by a device that polls, evenly: each frame would wake the application. The sender stays
    until enough have come: what is in the ring when it ends may be lost with it."""
    sender = rig.add(Traffic, 'traffic', options='--tx net_vhost0 --rate 40k --duration 600',
                     vdevs=[f'net_vhost0,iface={rig.path("a")}'], cpu=0)
    app = rig.add(RxSleep, 'sleep', vdev=vdev(rig.path('a'), event_idx=event_idx, **moderation))
    app.wait_ready()
    wait_until(lambda: app.xstats()['rx_q0_good_packets'] >= COUNT, 20, 'frames come')
    counters = app.xstats()
    assert counters['rx_q0_intr_held'] > 0
    assert (counters['rx_q0_coalesce_changes'] > 0) == (moderation is ADAPTIVE)
    seen = app.result()
    sender.signal(signal.SIGTERM)
    assert COUNT <= seen['frames'] <= sender.result()['sender']['sent']
    assert seen['missed'] == 0
    assert seen['wakes'] < seen['frames'] * 3 // 4


@MODERATED
def test_single_frames_wake_although_moderated(rig, event_idx, moderation):
    """On an idle link, after a load, each frame by itself: no timer is involved."""
    switch = switch_with(rig, ',event_idx=' + ('on' if event_idx else 'off'))
    app = rig.add(RxSleep, 'sleep', vdev=vdev(rig.path('a'), event_idx=event_idx, **moderation))
    sender = Sender(rig.path('b'), MAC, senders(1), SEED)
    for port in ('pa', 'pb'):
        switch.wait_up(port)
    sender.stream(FEWER, 25)
    app.wait_asleep(FEWER)
    before = app.xstats()
    for single in range(1, SINGLE + 1):
        sender.stream(1, 0)
        app.wait_asleep(FEWER + single)
    after = app.xstats()
    assert after['rx_q0_good_packets'] == FEWER + SINGLE
    assert after['rx_q0_intr_events'] == before['rx_q0_intr_events'] + SINGLE
    assert after['rx_q0_intr_held'] == before['rx_q0_intr_held']
    assert after['rx_q0_coalesce_profile'] == 0
    seen = app.result()
    assert seen['frames'] == FEWER + SINGLE
    assert seen['missed'] == 0
    switch.assert_ledger()
    sender.close()
    switch.quit()


@pytest.mark.check
@pytest.mark.parametrize('server', [0, 1])
@pytest.mark.parametrize('event_idx', [0, 1])
def test_backend_that_dies_while_it_sleeps(rig, event_idx, server):
    """Killed and started again, three times: whoever slept is woken by what comes afterwards."""
    mode = 'client' if server else 'server'
    word = 'on' if event_idx else 'off'
    app = None
    for i in range(4):
        switch = switch_with(rig, f',event_idx={word},mode={mode}')
        if app is None:
            app = sleeper(rig, vdev(rig.path('a'), event_idx=event_idx, server=server))
            app.wait_ready()
        app.wait_link(True)
        app.wait_asleep()
        sender = Sender(rig.path('b'), MAC, senders(1), SEED + i)
        switch.wait_up('pb')
        sender.send(200)
        app.wait_asleep()
        switch.kill9()
        sender.close()
        app.wait_link(False)
    assert_woken_for_all(app.result(), 800)


def test_asleep_without_any_backend(rig):
    """It starts, sleeps, and ends at once when told to."""
    app = sleeper(rig, vdev(rig.path('a')))
    app.wait_ready()
    app.wait_asleep()
    seen = app.result()
    assert seen['frames'] == seen['missed'] == seen['wakes'] == 0


@pytest.mark.check
@pytest.mark.parametrize('options, says', [
    (['--count', 'many'], r'--count: a number from 0 to \d+, not "many"'),
    (['--count'], r'--count: a number from 0 to \d+, not ""'),
    (['--queues', '0'], r'--queues: a number from 1 to 16, not "0"'),
    (['--queues', '17'], r'--queues: a number from 1 to 16, not "17"'),
    (['--eco'], r'--eco: no such option: see --help'),
    ([], r'no port: give one, as --vdev or -a'),
], ids=lambda value: ' '.join(value) if isinstance(value, list) else '')
def test_what_it_is_told_is_wrong(rig, options, says):
    app = rig.add(RxSleep, 'sleep', options=options)
    assert app.wait() != 0
    app.expect(r'^rx_sleep: ' + says + '$', 1)


def test_its_help(rig):
    del rig
    with open(program(), 'rb'):
        pass
    child = Proc([program(), '--help'], 'help')
    assert child.wait() == 0
    child.expect(r'^Usage: rx_sleep ')
    child.close()
    assert build.missing() is None
