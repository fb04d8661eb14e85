# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Bad command lines, device arguments and configuration files: one line that names the thing and
the remedy, a non-zero exit, nothing left behind."""

import os
import re

import pytest

from harness.proc import wait_until
from harness.shim import compile_shared

pytestmark = pytest.mark.check

LONG = '/tmp/' + 'x' * 103  # 108 bytes

# (what, device arguments, what the error line must contain). {s}: a path in the test's directory.
DEVARGS = [
    ('no path', '', ['path']),
    ('path without a value', 'path', ['path']),
    ('path that is empty', 'path=', ['path']),
    ('path too long', f'path={LONG}', ['path', '107']),
    ('unknown key', 'path={s},colour=red', ['colour']),
    ('key in capitals', 'path={s},QUEUES=1', ['QUEUES']),
    ('queues not a number', 'path={s},queues=two', ['queues', 'two']),
    ('queues zero', 'path={s},queues=0', ['queues', '0']),
    ('queues negative', 'path={s},queues=-1', ['queues', '-1']),
    ('queues too many', 'path={s},queues=100000', ['queues', '100000']),
    ('queues without a value', 'path={s},queues=', ['queues']),
    ('queues with a tail', 'path={s},queues=2x', ['queues', '2x']),
    ('queue_size not a power of two', 'path={s},queue_size=300', ['queue_size', '300']),
    ('queue_size too large', 'path={s},queue_size=65536', ['queue_size', '65536']),
    ('queue_size zero', 'path={s},queue_size=0', ['queue_size', '0']),
    ('queue_size not a number', 'path={s},queue_size=big', ['queue_size', 'big']),
    ('server not 0 or 1', 'path={s},server=2', ['server', '2']),
    ('server not a number', 'path={s},server=yes', ['server', 'yes']),
    ('mrg_rxbuf not 0 or 1', 'path={s},mrg_rxbuf=7', ['mrg_rxbuf', '7']),
    ('in_order not 0 or 1', 'path={s},in_order=on', ['in_order', 'on']),
    ('indirect not 0 or 1', 'path={s},indirect=-1', ['indirect', '-1']),
    ('event_idx not 0 or 1', 'path={s},event_idx=x', ['event_idx', 'x']),
    ('mac cut', 'path={s},mac=00:11:22', ['mac', '00:11:22']),
    ('mac multicast', 'path={s},mac=01:00:00:00:00:01', ['mac', '01:00:00:00:00:01']),
    ('refill unknown', 'path={s},refill=always', ['refill', 'always', 'budget']),
    ('refill_budget zero', 'path={s},refill_budget=0', ['refill_budget', '0']),
    ('refill_budget not a number', 'path={s},refill_budget=lots', ['refill_budget', 'lots']),
    ('coalesce unknown', 'path={s},coalesce=auto', ['coalesce', 'auto', 'adaptive']),
    ('coalesce static alone', 'path={s},coalesce=static', ['static', 'coalesce_frames']),
    ('coalesce_usecs without static', 'path={s},coalesce_usecs=9', ['coalesce_usecs', 'static']),
    ('coalesce_frames zero', 'path={s},coalesce=static,coalesce_frames=0,coalesce_usecs=9',
     ['coalesce_frames', '0']),
    ('packed ring', 'path={s},packed_vq=1', ['packed_vq']),
    ('directory that is not there', 'path={s}/no/where,server=1', ['no/where']),
]

# (what, options after --, what the error line must contain)
OPTIONS = [
    ('no port', '', ['--port']),
    ('unknown option', '--colour red', ['colour']),
    ('option without a value', '--port', ['port']),
    ('word that is no option', 'hello', ['hello']),
    ('port without a name', '--port path={s}', ['name']),
    ('port without path or dev', '--port pa', ['pa', 'path']),
    ('port with path and dev', '--port pa,path={s},dev=net_null0', ['pa', 'dev']),
    ('port key unknown', '--port pa,path={s},colour=red', ['colour']),
    ('port path empty', '--port pa,path=', ['path']),
    ('port path too long', f'--port pa,path={LONG}', ['107']),
    ('port name twice', '--port pa,path={s} --port pa,path={s}2', ['pa', 'another name']),
    ('port path twice', '--port pa,path={s} --port pb,path={s}', ['{s}']),
    ('port name too long', '--port ' + 'n' * 200 + ',path={s}', ['name']),
    ('port name with a line break', '--port p\na,path={s}', ['p\\na', 'letters, digits']),
    ('port key with an escape', '--port pa,path={s},\x1b[1m=1', ['\\x1b[1m']),
    ('port mode unknown', '--port pa,path={s},mode=both', ['mode', 'both']),
    ('port owner unknown', '--port pa,path={s},owner=nobodyatall', ['owner', 'nobodyatall']),
    ('port group unknown', '--port pa,path={s},group=nogroupatall', ['group', 'nogroupatall']),
    ('port perm not octal', '--port pa,path={s},perm=0899', ['perm', '0899']),
    ('port perm too large', '--port pa,path={s},perm=7777777', ['perm', '7777777']),
    ('port queues zero', '--port pa,path={s},queues=0', ['queues', '0']),
    ('port queues too many', '--port pa,path={s},queues=17', ['queues', '16']),
    ('port queues not a number', '--port pa,path={s},queues=many', ['queues', 'many']),
    ('port mtu too small', '--port pa,path={s},mtu=10', ['mtu', '10']),
    ('port mtu not a number', '--port pa,path={s},mtu=big', ['mtu', 'big']),
    ('port switch not on or off', '--port pa,path={s},mrg_rxbuf=1', ['mrg_rxbuf', 'on']),
    ('port loopback not on or off', '--port pa,path={s},loopback=perhaps', ['loopback', 'perhaps']),
    ('port dev that is not there', '--port up,dev=net_nothing0', ['net_nothing0', '--vdev']),
    ('port dev with a path key', '--port up,dev=net_null0,perm=0600', ['perm']),
    ('port in no directory', '--port pa,path={s}/no/where', ['no/where']),
    ('ageing negative', '--port pa,path={s} --ageing -1', ['ageing', '-1']),
    ('ageing not a number', '--port pa,path={s} --ageing soon', ['ageing', 'soon']),
    ('coalesce unknown', '--port pa,path={s} --coalesce sometimes', ['coalesce', 'sometimes']),
    ('coalesce static without frames', '--port pa,path={s} --coalesce static,usecs=5', ['frames']),
    ('coalesce key unknown', '--port pa,path={s} --coalesce static,frames=8,usecs=5,x=1', ['x']),
    ('report in no directory', '--port pa,path={s} --report {s}/no/where', ['no/where']),
    ('config that is not there', '--config {s}.conf', ['{s}.conf']),
    ('config that is a directory', '--config /tmp', ['/tmp']),
]


# (what, text of the file, line of the error, what else the line must contain)
CONFIGS = [
    ('syntax', 'ports = (\n  { name = "pa"; path = "{s}"; }\n  oops\n);\n', 3, []),
    ('not closed', 'ports = ( { name = "pa"; path = "{s}";\n', 2, []),
    ('unknown setting', 'ports = ( { name = "pa"; path = "{s}"; } );\ncolour = "red";\n', 2,
     ['colour']),
    ('unknown key of a port', 'ports = (\n { name = "pa"; path = "{s}";\n  colour = 1; }\n);\n', 3,
     ['colour']),
    ('port without a name', 'ports = (\n  { path = "{s}"; }\n);\n', 2, ['name']),
    ('port name twice', 'ports = (\n { name = "pa"; path = "{s}"; },\n'
     ' { name = "pa"; path = "{s}2"; }\n);\n', 3, ['pa']),
    ('wrong type', 'ports = (\n { name = "pa"; path = "{s}";\n queues = "two"; }\n);\n', 3,
     ['queues']),
    ('out of range', 'ports = (\n { name = "pa"; path = "{s}";\n queues = 17; }\n);\n', 3,
     ['queues', '16']),
    ('ports is no list', '\nports = 3;\n', 2, ['ports']),
    ('ageing of a wrong type', 'ports = ( { name = "pa"; path = "{s}"; } );\nageing = "x";\n', 2,
     ['ageing']),
    ('include that is not there', '@include "nothing.conf"\n', 1, []),
]


def ids(table):
    return [row[0].replace(' ', '-') for row in table]


def fill(text, rig):
    return text.replace('{s}', rig.path('s'))


def left_behind(rig):
    return [n for n in os.listdir(rig.dir)
            if not n.endswith(('.log', '.conf', '.so')) and n != 'run']


def assert_one_line(text, who, words):
    """Exactly one line of ours is an error, and it has the words."""
    lines = [line for line in text.splitlines() if re.match(who, line)]
    hits = [line for line in lines if all(w in line for w in words)]
    assert hits, f'no line of {who} with {words}:\n{text}'
    print(hits[0])
    assert len(lines) == 1, 'more than one line:\n' + '\n'.join(lines)


@pytest.mark.parametrize('what,args,words', DEVARGS, ids=ids(DEVARGS))
def test_device_arguments(rig, what, args, words):
    guest = rig.testpmd('sluice', plugin=True, ready=False, mbufs=2048, mem=64,
                        vdevs=['net_sluice_user0' + (',' + fill(args, rig) if args else '')])
    assert guest.wait(30) != 0
    assert_one_line(guest.output(), r'net_sluice_user0: |.*net_sluice.*: ',
                    [fill(w, rig) for w in words])
    assert left_behind(rig) == []


def test_another_dpdk(rig):
    """INTERNAL symbols carry no ABI promise: the driver is for the DPDK that it was built with."""
    guest = rig.testpmd('sluice', plugin=True, ready=False, mbufs=2048, mem=64,
                        vdevs=[f'net_sluice_user0,path={rig.path("s")}'],
                        env={'LD_PRELOAD': compile_shared('other_dpdk.c', rig.dir)})
    assert guest.wait(30) != 0
    assert_one_line(guest.output(), r'net_sluice_user0: ', ['22.77', 'build the driver again'])
    assert left_behind(rig) == []


@pytest.mark.parametrize('what,options,words', OPTIONS, ids=ids(OPTIONS))
def test_switch_options(rig, what, options, words):
    switch = rig.switch([], ready=False, mem=64, vdevs=['net_null0'],
                        options=fill(options, rig).split(' ') if options else [])
    assert switch.wait(30) > 0
    assert_one_line(switch.output(), 'sluice-vswitch: ', [fill(w, rig) for w in words])
    assert left_behind(rig) == []


@pytest.mark.parametrize('what,text,line,words', CONFIGS, ids=ids(CONFIGS))
def test_configuration_files(rig, what, text, line, words):
    path = rig.path('bad.conf')
    with open(path, 'w', encoding='ascii') as f:
        f.write(fill(text, rig))
    switch = rig.switch([], ready=False, mem=64, options=['--config', path])
    assert switch.wait(30) > 0
    assert_one_line(switch.output(), 'sluice-vswitch: |.*bad.conf', [f'bad.conf:{line}:', *words])
    assert left_behind(rig) == []


def test_what_has_no_effect_is_said_once(rig):
    """Arguments of net_virtio_user that make no sense here: taken, with one line."""
    switch = rig.switch([f'pa,path={rig.path("s")}'])
    guest = rig.testpmd('sluice', plugin=True, vdevs=[
        f'net_sluice_user0,path={rig.path("s")},cq=1,speed=10000,vectorized=0,packed_vq=0'])
    switch.wait_up('pa')
    lines = [x for x in guest.output().splitlines() if 'no effect' in x]
    assert len(lines) == 1 and 'speed' in lines[0], lines
    switch.quit()


def test_help_and_version(rig):
    for option, words in (('--help', ['64 ports', '16 queue pairs', '--port', '--ageing']),
                          ('--version', ['sluice'])):
        switch = rig.switch([], ready=False, mem=64, options=[option])
        assert switch.wait(30) == 0
        for word in words:
            assert word in switch.output()


def test_no_standard_files(rig):
    """Started by a daemon that closed them all: what is printed goes into no file of others."""
    closed = ['sh', '-c', 'exec "$@" 0<&- 1>&- 2>&-', 'sh']
    switch = rig.switch([f'a,path={rig.path("s")}'], ready=False, mem=64, wrap=closed)
    wait_until(lambda: os.path.exists(rig.path('s')), 30, 'the socket')
    for number in range(3):
        assert os.readlink(f'/proc/{switch.pid}/fd/{number}') == '/dev/null'
    assert switch.port_names() == ['a']
    switch.quit()
    assert not os.path.exists(rig.path('s'))
