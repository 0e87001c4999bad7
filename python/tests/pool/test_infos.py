"""The infos of a step behave as the list of n dicts that they are said to be."""

from __future__ import annotations

import copy
import json
import operator
import pickle

from sandpool.pool.infos import Infos


def infos() -> Infos:
    return Infos({1: {"lives": 3}}, 4)


PLAIN = [{}, {"lives": 3}, {}, {}]


def test_reads_as_a_list_of_dicts() -> None:
    assert infos() == PLAIN
    assert isinstance(infos(), list)
    assert len(infos()) == 4
    assert repr(infos()) == repr(PLAIN)
    assert json.dumps(infos()) == json.dumps(PLAIN)
    assert (infos()[1:], infos()[-1], list(infos()), [*infos()]) == (PLAIN[1:], {}, PLAIN, PLAIN)
    assert (list(reversed(infos())), operator.add(infos(), [{}]), infos() * 2) == (PLAIN[::-1], [*PLAIN, {}], PLAIN * 2)
    assert [info.get("lives") for info in infos()] == [None, 3, None, None]
    assert ({"lives": 3} in infos(), infos().index({"lives": 3}), infos().count({})) == (True, 1, 3)


def test_every_row_has_a_dict_of_its_own_however_it_is_reached() -> None:
    by_index = infos()
    by_index[0]["seen"] = True
    assert by_index == [{"seen": True}, {"lives": 3}, {}, {}]
    for reached in (
        list(infos()),
        infos()[:],
        infos().copy(),
        tuple(infos()),
        list(reversed(infos())),
        operator.add(infos(), []),
        infos() * 1,
    ):
        reached[0]["seen"] = True
        assert sum("seen" in info for info in reached) == 1
    popped = infos()
    popped.pop()["seen"] = True
    assert popped == PLAIN[:3]


def test_what_was_written_stays() -> None:
    written = infos()
    written[3]["seen"] = True
    written[0] = {"mine": 1}
    written.append({})
    assert list(written) == [{"mine": 1}, {"lives": 3}, {}, {"seen": True}, {}]
    assert written[3] is written[3]


def test_copies_are_plain_lists() -> None:
    for copied in (copy.copy(infos()), copy.deepcopy(infos()), pickle.loads(pickle.dumps(infos()))):
        assert type(copied) is list
        assert copied == PLAIN
        copied[0]["seen"] = True
        assert copied[2] == {}
