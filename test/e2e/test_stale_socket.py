# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""What happens to the path of a listening socket: stale ones go, live ones and files stay."""

import grp
import os
import pwd
import socket
import stat

import pytest

from harness import vhost_user as vu

pytestmark = pytest.mark.check


def test_a_stale_socket_is_replaced(rig):
    path = rig.path('s')
    first = rig.switch([f'pa,path={path}'])
    first.kill9()
    assert stat.S_ISSOCK(os.lstat(path).st_mode), 'nothing was left to be stale'
    second = rig.switch([f'pa,path={path}'])
    with vu.Frontend(path) as frontend:
        frontend.features()
    second.quit()
    assert not os.path.lexists(path), 'the socket outlived a clean exit'


def test_a_live_socket_is_refused(rig):
    path = rig.path('s')
    first = rig.switch([f'pa,path={path}'])
    second = rig.switch([f'pa,path={path}'], ready=False)
    assert second.wait(20) != 0
    assert path in second.output()
    with vu.Frontend(path) as frontend:  # the first one still has it
        frontend.features()
    first.quit()


@pytest.mark.parametrize('kind', ['file', 'directory', 'fifo', 'symlink'])
def test_what_is_not_a_socket_is_never_unlinked(rig, kind):
    path = rig.path('s')
    if kind == 'file':
        with open(path, 'w', encoding='ascii') as f:
            f.write('precious')
    elif kind == 'directory':
        os.mkdir(path)
    elif kind == 'fifo':
        os.mkfifo(path)
    else:
        with open(rig.path('target'), 'w', encoding='ascii') as f:
            f.write('precious')
        os.symlink(rig.path('target'), path)
    before = os.lstat(path)
    switch = rig.switch([f'pa,path={path}'], ready=False)
    assert switch.wait(20) != 0
    assert path in switch.output()
    after = os.lstat(path)
    assert (before.st_ino, before.st_mode, before.st_size) == \
        (after.st_ino, after.st_mode, after.st_size)


def test_a_server_mode_driver_keeps_the_same_rules(rig):
    path = rig.path('s')
    for _ in range(2):
        guest = rig.testpmd('sluice', plugin=True, vdevs=[
            f'net_sluice_user0,path={path},server=1'])
        assert stat.S_ISSOCK(os.lstat(path).st_mode)
        guest.kill9()
    with open(rig.path('f'), 'w', encoding='ascii') as f:
        f.write('precious')
    guest = rig.testpmd('sluice', plugin=True, ready=False, vdevs=[
        f'net_sluice_user0,path={rig.path("f")},server=1'])
    guest.expect('net_sluice_user0.*' + rig.path('f'))
    guest.wait(20)
    with open(rig.path('f'), encoding='ascii') as f:
        assert f.read() == 'precious'


def test_owner_group_and_mode(rig):
    if os.geteuid() != 0:
        pytest.skip('root needed to give a socket away')
    nobody = pwd.getpwnam('nobody')
    group = grp.getgrgid(nobody.pw_gid).gr_name
    switch = rig.switch([f'pa,path={rig.path("a")},owner=nobody,group={group},perm=0640',
                         f'pb,path={rig.path("b")},perm=0600'])
    a, b = os.stat(rig.path('a')), os.stat(rig.path('b'))
    assert (a.st_uid, a.st_gid, stat.S_IMODE(a.st_mode)) == (nobody.pw_uid, nobody.pw_gid, 0o640)
    assert (b.st_uid, stat.S_IMODE(b.st_mode)) == (0, 0o600)
    switch.quit()


def test_the_longest_path_works_and_one_more_is_refused(rig):
    longest = rig.dir + '/' + 'x' * (107 - len(rig.dir) - 1)
    assert len(longest) == 107
    switch = rig.switch([f'pa,path={longest}'])
    link = rig.path('short')
    os.symlink(longest, link)
    with vu.Frontend(link) as frontend:
        frontend.features()
    switch.quit()
    refused = rig.switch([f'pa,path={longest}y'], ready=False)
    assert refused.wait(20) != 0
    assert '107' in refused.output()
    with pytest.raises(OSError):
        socket.socket(socket.AF_UNIX).bind(longest + 'y')
