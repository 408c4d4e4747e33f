"""Mining in blocks: reproducible, resumable, and of any graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import make_graph

from transher.errors import InputError
from transher.graph.graph import Graph
from transher.graph.known import KnownTriples
from transher.kernels.rules import Column, Worth, confidences
from transher.rules import Rules, mine
from transher.rules.storage import RULES_FILE, load_mining, load_rules, save_counted, save_rules


def test_the_same_blocks_give_the_same_rules(ring: Graph) -> None:
    once, again = (mine(ring.trained, blocks=6, seed=4).rules for _ in range(2))
    assert np.array_equal(once, again)


def test_a_ring_is_understood(ring: Graph) -> None:
    mining = mine(ring.trained, seconds=1e9)
    assert mining.place.finished
    backwards = [0, -1, 3 + 1, -1, -1]  # r0(x, y) ⇐ r1(y, x)
    two_on = [2, -1, 0, 0, -1]  # r2(x, y) ⇐ r0(x, z), r0(z, y)
    found = mining.rules[:, : Column.VALUE].tolist()
    assert backwards in found
    assert two_on in found


@pytest.mark.parametrize("stop", range(1, 8))
def test_a_resumed_mining_finds_what_one_without_a_stop_finds(ring: Graph, stop: int, tmp_path: Path) -> None:
    stopped = mine(ring.trained, blocks=stop, seed=1)
    save_counted(tmp_path, stopped.place)
    save_rules(tmp_path, Rules(stopped.rules, ring.trained), stopped.place, stopped.seed)
    resumed = load_mining(tmp_path, ring.trained, seed=1)
    while resumed.advance():
        pass
    whole = mine(ring.trained, seconds=1e9, seed=1)
    assert sorted(map(tuple, resumed.rules.tolist())) == sorted(map(tuple, whole.rules.tolist()))
    assert resumed.place.blocks == whole.place.blocks


@pytest.mark.parametrize(
    "triples",
    [
        np.empty((0, 3), np.int32),
        np.array([[0, 0, 0]], np.int32),  # an entity with itself
        np.array([[0, 0, 1]], np.int32),
        np.array([[0, 0, 1]] * 5 + [[1, 0, 0]], np.int32),
    ],
)
def test_any_graph_can_be_mined(triples: np.ndarray) -> None:
    known = KnownTriples(triples, 3, 2)
    rules = Rules(mine(known, seconds=1e9).rules, known)
    assert rules.reasons(np.array([[0, 0, 1]])).numbers.shape == (1, 8)


def test_a_graph_without_relations_has_no_rules() -> None:
    assert len(mine(KnownTriples(np.empty((0, 3), np.int32), 0, 0)).rules) == 0


def test_rules_come_back_from_disk(ring: Graph, tmp_path: Path) -> None:
    mining = mine(ring.trained, seconds=1e9)
    worth = Worth((1.5, 0.3, 2.0, 1.0, 0.1), (0.5, 1.0, 0.7, 0.1, 2.0), 0.75)
    save_rules(tmp_path, Rules(mining.rules, ring.trained, worth), mining.place, 0)
    back = load_rules(tmp_path, ring.trained)
    assert sorted(map(tuple, back.rows.tolist())) == sorted(map(tuple, mining.rules.tolist()))
    assert back.worth == worth


def test_rules_of_another_graph_are_refused(ring: Graph, tmp_path: Path) -> None:
    mining = mine(ring.trained, seconds=1e9)
    save_rules(tmp_path, Rules(mining.rules, ring.trained), mining.place, 0)
    with pytest.raises(InputError, match="is of a graph with 60 entities"):
        load_rules(tmp_path, make_graph([(0, 0, 1)]).trained)


def test_a_file_that_was_cut_short_is_refused(ring: Graph, tmp_path: Path) -> None:
    mining = mine(ring.trained, seconds=1e9)
    save_rules(tmp_path, Rules(mining.rules, ring.trained), mining.place, 0)
    path = tmp_path / RULES_FILE
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="not a Parquet file"):
        load_rules(tmp_path, ring.trained)


def test_the_most_confident_closed_rules_of_each_relation_are_kept(
    ring: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = mine(ring.trained, seconds=1e9).rules
    monkeypatch.setattr("transher.rules.mining._MOST_CLOSED", 4)
    kept = mine(ring.trained, seconds=1e9).rules
    closed, all_closed = (rules[rules[:, Column.ANSWER] < 0] for rules in (kept, everything))
    for relation in range(3):
        own, all_own = (confidences(rules[rules[:, Column.END] == relation]) for rules in (closed, all_closed))
        assert sorted(own) == sorted(all_own)[-4:]
    assert np.array_equal(kept[kept[:, Column.ANSWER] >= 0], everything[everything[:, Column.ANSWER] >= 0])
