# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""doc/performance.md's tables from results that are made up."""

import json

import perfdoc
import pytest
from results import Failure

ABOUT = {'date': '2026-12-01', 'cpu': 'made up', 'kernel': '6.1', 'dpdk': 'DPDK 22.11.11',
         'pages': '2 MB', 'build': 'abc'}
DOCUMENT = '''# Speed

Prose before.

<!-- table: round round-64 -->
old
<!-- end of table -->

Prose <!-- a remark --> between.

<!-- table: other -->
as it was
<!-- end of table -->
<!-- table: round -->
<!-- end of table -->
Prose behind.
'''


def row(case, **more):
    return {'case': case, 'unit': 'Mpps', 'ours': 8.5, 'peer': 4.25, 'peer_name': 'stock',
            'ratio': 2.0, 'spread': [1.9, 2.25], 'pairs': 10, 'state': 'far shared', 'target': 2.0,
            'dropped': 3, **more}


@pytest.fixture
def document(tmp_path, monkeypatch):
    monkeypatch.setenv('SLUICE_BUILD', str(tmp_path))
    (tmp_path / 'bench').mkdir()
    rows = [row('round-64'), row('round-640', target=None), row('round-64-256', ratio=1.75)]
    (tmp_path / 'bench/round.json').write_text(
        json.dumps({'bench': 'round', 'about': ABOUT, 'rows': rows}), encoding='ascii')
    path = tmp_path / 'performance.md'
    path.write_text(DOCUMENT, encoding='utf-8')
    return path


def lines_of(document, begin):
    text = document.read_text(encoding='utf-8')
    return text[text.index(begin):].partition('<!-- end of table -->')[0].splitlines()


def test_tables_are_written_and_prose_stays(document):
    said = perfdoc.refresh(str(document))
    assert [line.rpartition(': ')[2] for line in said] == [
        'written', 'left as it is, nothing was measured', 'written']
    text = document.read_text(encoding='utf-8')
    for prose in ('# Speed\n\nProse before.\n', '\n\nProse <!-- a remark --> between.\n\n',
                  '<!-- table: other -->\nas it was\n<!-- end of table -->\n', 'Prose behind.\n'):
        assert prose in text
    assert 'old' not in text
    some = lines_of(document, '<!-- table: round round-64 -->')
    assert [line.split()[1] for line in some[5:]] == ['round-64', 'round-64-256']
    assert some[1] == ('2026-12-01, made up, kernel 6.1, switch on DPDK 22.11.11, pages of 2 MB; '
                       'build abc.')
    assert some[5] == ('| round-64 | far shared | 8.5 | 4.25 | Mpps | **2.000** | 1.900..2.250 | 2 '
                       '| met | 10 (3) | stock |')
    assert '| missed by 0.25, within the spread |' in some[6]
    every = lines_of(document, '<!-- table: round -->')
    assert len(every) == 8 and '| - | - |' in every[6]


def test_writing_again_changes_nothing(document):
    perfdoc.refresh(str(document))
    once = document.read_text(encoding='utf-8')
    perfdoc.refresh(str(document))
    assert document.read_text(encoding='utf-8') == once


@pytest.mark.parametrize('text, said', [
    ('no table\n', 'has no <!-- table: BENCH --> to be written'),
    ('<!-- table: round -->\nx\n', 'a table has no end'),
    ('<!-- table: round -->\nx\n<!-- table: round -->\n<!-- end of table -->\n',
     'a table has no end'),
])
def test_a_document_without_whole_tables_is_refused(document, text, said):
    document.write_text(text, encoding='utf-8')
    with pytest.raises(Failure, match=said):
        perfdoc.refresh(str(document))
    assert document.read_text(encoding='utf-8') == text
