"""Finding rules in a graph's triples, a block of work after the other, until time is up or nothing is left to look at.

Rules with constants are counted end by end. Bodies of closed rules come from the paths between head and tail of sampled
triples, round after round with more of them; the bodies that join the largest share of a relation's sample are counted
first. What a block does depends on the triples, the seed and the blocks before it, and on nothing else: the first n
blocks give the same rules on every machine, with any number of threads, and with stops in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from transher.graph.known import KnownTriples
from transher.kernels.rules import Column, Rows, Steps, confidences

SECONDS = 600.0  # of mining, unless told otherwise
_LEAST_SUPPORT = 3
_LEAST_CONFIDENCE = 0.003  # of a closed rule: where there is nothing better, weak ones order the candidates
_LEAST_CONSTANT = 0.1  # of a rule with constants: there are far more of them
_CONSTANT_BLOCKS = 32
_MOST_CONSTANT = 4_000_000  # 36 bytes each, and twice that in an index
_MOST_CLOSED = 2_000  # of a relation. Small, dense graphs have tens of thousands: they took ten times as long to apply,
# and the weakest ones said nothing that the others did not. FB15k-237 gained by it, too.
_FIRST_SAMPLE = 100  # triples of a relation in the first round; four times as many in each that follows
_MOST_SAMPLED = 200_000  # triples in a round
_FAN_OUT, _WIDER, _WIDEST = 48, 1.5, 500  # in the first round, its growth from round to round, and its bound
_ROUNDS = 20
_BODIES = 2_000  # in a block
_ORIGINS, _PAIRS = 300, 20_000  # of a body
_BITS = 21  # of an end in a packed body


@dataclass
class Place:
    """Where a mining stands: all that it takes, besides the rules, to go on from there."""

    blocks: int = 0  # done
    constants: int = 0  # blocks of rules with constants that are done
    round: int = 0
    bodies: int = 0  # of this round that were counted
    finished: bool = False
    seconds: float = 0.0  # of mining, all sessions together
    counted: list[NDArray[np.int64]] = field(default_factory=list)  # bodies of each earlier round


class Mining:
    """Rules of the triples of a graph, as far as they have been mined. `rules` are rows as of `transher.kernels.rules`,
    at most four million with constants, and two thousand closed ones for each relation."""

    def __init__(
        self, trained: KnownTriples, *, seed: int = 0, rules: Rows | None = None, place: Place | None = None
    ) -> None:
        self.seed = seed
        self.place = place or Place()
        self.entity_count, self.relation_count = trained.entity_count, trained.relation_count
        index = trained.answers("tail")
        heads, relations = index.pairs()
        self._triples = np.stack([heads, relations, index.answers], axis=1).astype(np.int64).reshape(-1, 3)
        self._largest_degree = int(trained.degrees.max(initial=0))
        self._steps = Steps(self._triples, self.entity_count, self.relation_count)
        self._parts = [np.empty((0, len(Column)), np.int32) if rules is None else rules]
        self._queue: Rows | None = None

    @property
    def rules(self) -> Rows:
        """What was found so far: (n, 9)."""
        if len(self._parts) > 1:
            self._parts = [_trimmed(np.concatenate(self._parts))]
        return self._parts[0]

    @property
    def count(self) -> int:
        """How many rules were found so far."""
        return sum(len(part) for part in self._parts)

    def advance(self) -> bool:
        """Do the next block; whether there was one."""
        if self.place.finished:
            return False
        started = time.monotonic()
        blocks = min(_CONSTANT_BLOCKS, 2 * self.relation_count)
        # In turns, so that a mining that is stopped early has rules of both kinds; later rounds find less and less.
        if self.place.constants < blocks and (self.place.blocks % 2 == 0 or self.place.round > 0):
            self._constants(blocks)
        elif not self._closed():
            if self.place.constants < blocks:
                self._constants(blocks)
            else:
                self.place.finished = True
        self.place.blocks += 1
        self.place.seconds += time.monotonic() - started
        return True

    def _constants(self, blocks: int) -> None:
        done, ends = self.place.constants, 2 * self.relation_count
        found = self._steps.find_constants(
            done * ends // blocks,
            (done + 1) * ends // blocks,
            least_support=_LEAST_SUPPORT,
            least_confidence=_LEAST_CONSTANT,
            most=2 * _MOST_CONSTANT // blocks,
        )
        self._parts.append(found)
        self.place.constants += 1

    def _closed(self) -> bool:
        """Count the next bodies; whether there were any."""
        place = self.place
        while self._queue is None or place.bodies >= len(self._queue):
            if self._queue is not None:
                place.counted.append(_packed(self._queue))
                place.round, place.bodies, self._queue = place.round + 1, 0, None
            sample = self._sample(place.round)
            if sample is None:
                return False
            self._queue = self._bodies(sample)
        found = self._steps.count_bodies(
            self._queue[place.bodies : place.bodies + _BODIES],
            least_support=_LEAST_SUPPORT,
            least_confidence=_LEAST_CONFIDENCE,
            origins=_ORIGINS,
            pairs=_PAIRS,
            seed=self.seed % (1 << 63),
        )
        self._parts.append(found)
        place.bodies += _BODIES
        return True

    def _sample(self, number: int) -> NDArray[np.int64] | None:
        """The triples of a round, as many of each relation; None once the round before had all."""
        counts = np.bincount(self._triples[:, 1], minlength=self.relation_count)
        present = int((counts > 0).sum())
        wanted = [
            min(_FIRST_SAMPLE * 4.0 ** max(one, 0), max(_FIRST_SAMPLE, _MOST_SAMPLED // max(1, present)))
            for one in (number - 1, number)
        ]
        saw_all = wanted[0] >= counts.max(initial=0) and self._fan_out(number - 1) >= self._largest_degree
        if not present or number == _ROUNDS or (number and saw_all):
            return None
        keys = np.random.default_rng([self.seed, number]).random(len(self._triples))
        relations = self._triples[:, 1]
        order = np.lexsort((keys, relations))
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        place_in_relation = np.arange(len(order)) - starts[relations[order]]
        chosen: NDArray[np.int64] = self._triples[order[place_in_relation < wanted[1]]]
        return chosen

    def _fan_out(self, number: int) -> int:
        """How many steps from an entity are looked at in a round."""
        return min(_WIDEST, int(_FAN_OUT * _WIDER ** min(number, _ROUNDS)))

    def _bodies(self, sample: NDArray[np.int64]) -> Rows:
        """The new bodies (n, 3) that join triples of a sample, in the order in which they are counted."""
        found = self._steps.find_bodies(
            sample,
            least_support=_LEAST_SUPPORT,
            fan_out=self._fan_out(self.place.round),
            seed=(self.seed + 1_000_003 * self.place.round) % (1 << 63),
        )
        sizes = np.bincount(sample[:, 1], minlength=self.relation_count)
        shares = found[:, 4] / sizes[found[:, 3]]
        bodies = found[:, :3]
        keys, first, which = np.unique(_packed(bodies), return_index=True, return_inverse=True)
        best = np.zeros(len(keys))
        np.maximum.at(best, which.reshape(-1), shares)
        bodies = bodies[first]
        best *= np.array([8.0, 4.0, 2.0, 1.0])[(bodies >= 0).sum(axis=1)]  # short ones first
        counted = np.concatenate([np.empty(0, np.int64), *self.place.counted])
        fresh = np.flatnonzero(~np.isin(keys, counted, assume_unique=True))
        return bodies[fresh[np.lexsort((keys[fresh], -best[fresh]))]]


def mine(
    trained: KnownTriples,
    *,
    seconds: float = SECONDS,
    blocks: int | None = None,
    seed: int = 0,
    progress: Callable[[Mining], None] | None = None,
) -> Mining:
    """Mine rules for so many seconds, or so many blocks, which gives the same rules each time. Threads are those that
    torch may use. Memory: some 40 bytes for each triple, 36 for each rule, and 64 MB for each thread.

    progress: hears of the mining after each block.
    """
    mining = Mining(trained, seed=seed)
    while mining.place.seconds < seconds and (blocks is None or mining.place.blocks < blocks):
        if not mining.advance():
            break
        if progress is not None:
            progress(mining)
    return mining


def _packed(bodies: Rows) -> NDArray[np.int64]:
    """One number for each body (n, 3)."""
    first, second, third = (bodies.astype(np.int64) + 1).T
    packed: NDArray[np.int64] = first << 2 * _BITS | second << _BITS | third
    return packed


def _trimmed(rules: Rows) -> Rows:
    """The most confident ones, where there are more than are kept: closed ones of each relation, and those with
    constants."""
    closed = rules[:, Column.ANSWER] < 0
    kept = np.ones(len(rules), np.bool_)
    for kind, groups, most in (
        (closed, rules[:, Column.END], _MOST_CLOSED),
        (~closed, np.zeros(len(rules), np.int32), _MOST_CONSTANT),
    ):
        places = np.flatnonzero(kind)
        if len(places) > most:
            order = places[np.lexsort((-confidences(rules[places]), groups[places]))]
            own = groups[order]
            kept[order[np.arange(len(order)) - np.searchsorted(own, own) >= most]] = False
    return rules if bool(kept.all()) else rules[kept]
