"""The rules' kernels in plain Python: the truth in tests, and what runs where there is no native module. Nothing is
sampled, so it is for small graphs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import product
from math import exp, log1p

import torch
from torch import Tensor

Body = tuple[int, ...]
_NONE, _LONGEST = -1, 3
_SURE = 0.9999
_TOP = 16  # strongest rules of a candidate that count
_END, _ANSWER, _VALUE, _SUPPORT, _PAIRS, _SAMPLED = 0, 1, 5, 6, 7, 8


class ReferenceRows:
    def __init__(self, rows: Iterable[Iterable[int]], width: int) -> None:
        self._rows = torch.tensor([list(row) for row in rows], dtype=torch.int32).reshape(-1, width)

    def count(self) -> int:
        return len(self._rows)

    def copy_to(self, out: Tensor, /) -> None:
        out.copy_(self._rows)


class ReferenceSteps:
    """As `NativeSteps`."""

    def __init__(self, triples: Tensor, entities: int, relations: int, /) -> None:
        self.entities, self.relations = entities, relations
        self.targets: dict[tuple[int, int], set[int]] = defaultdict(set)  # of an entity and an end
        self.ends: dict[int, set[int]] = defaultdict(set)  # of an entity
        for head, relation, tail in triples.tolist():
            if head != tail:
                for source, end, target in ((head, relation, tail), (tail, relation + relations, head)):
                    self.targets[source, end].add(target)
                    self.ends[source].add(end)

    def turned(self, end: int) -> int:
        return (end + self.relations) % (2 * self.relations)

    def reached(self, origin: int, body: Body) -> set[int]:
        """Where simple paths over a body lead."""
        paths: list[Body] = [(origin,)]
        for end in body:
            paths = [
                (*path, target)
                for path in paths
                for target in self.targets.get((path[-1], end), ())
                if target not in path
            ]
        return {path[-1] for path in paths}

    def sources(self, end: int) -> list[int]:
        return [entity for entity in sorted(self.ends) if end in self.ends[entity]]

    def find_bodies(
        self, threads: int, triples: Tensor, least_support: int, fan_out: int, seed: int, /
    ) -> ReferenceRows:
        seen: Counter[tuple[Body, int]] = Counter()
        for head, relation, tail in triples.tolist():
            for body in self._between(head, tail) if head != tail else ():
                if body != (relation,):
                    seen[body, relation] += 1
        rows = [
            (*_padded(self._counted(body)), relation, count)
            for (body, relation), count in sorted(seen.items())
            if count >= least_support
        ]
        return ReferenceRows(rows, _LONGEST + 2)

    def _between(self, head: int, tail: int) -> set[Body]:
        found = set()
        paths: list[tuple[Body, Body]] = [((head,), ())]
        for _ in range(_LONGEST):
            paths = [
                ((*path, target), (*body, end))
                for path, body in paths
                for end in self.ends.get(path[-1], ())
                for target in self.targets[path[-1], end]
                if target not in path
            ]
            found |= {body for path, body in paths if path[-1] == tail}
            paths = [(path, body) for path, body in paths if path[-1] != tail]
        return found

    def _counted(self, body: Body) -> Body:
        """The body in the direction in which it is counted."""
        other = tuple(self.turned(end) for end in reversed(body))
        here, there = len(self.sources(body[0])), len(self.sources(other[0]))
        return other if (here < there if here != there else other < body) else body

    def count_bodies(
        self,
        threads: int,
        bodies: Tensor,
        least_support: int,
        least_confidence: float,
        caution: float,
        origins: int,
        pairs: int,
        seed: int,
        /,
    ) -> ReferenceRows:
        rows = []
        for given in bodies.tolist():
            body = _trimmed(given)
            turned = tuple(self.turned(end) for end in reversed(body))
            found = [(x, y) for x in self.sources(body[0]) for y in self.reached(x, body)]
            support = Counter(end for x, y in found for end in self.ends[x] if y in self.targets[x, end])
            for end, count in sorted(support.items()):
                forwards = end < self.relations
                if body == (end,) or (body == turned and not forwards):
                    continue
                conclusion, own = (end, body) if forwards else (self.turned(end), turned)
                if count >= least_support and count / (len(found) + caution) >= least_confidence:
                    rows.append((conclusion, _NONE, *_padded(own), _NONE, count, len(found), 0))
        return ReferenceRows(rows, 9)

    def find_constants(
        self,
        threads: int,
        first: int,
        last: int,
        least_support: int,
        least_confidence: float,
        caution: float,
        most: int,
        /,
    ) -> ReferenceRows:
        rows = []
        for end, answer in product(range(first, last), range(self.entities)):
            holders = self.targets.get((answer, self.turned(end)), set())
            support: Counter[tuple[int, int]] = Counter()
            for x in holders:
                support.update((step, _NONE) for step in self.ends[x] if step != end)
                support.update((step, value) for step in self.ends[x] for value in self.targets[x, step])
            for (step, value), count in sorted(support.items()):
                pairs = sum(1 for x in range(self.entities) if x != answer and self.holds(x, step, value))
                sure = count / (pairs + caution)
                if (step, value) != (end, answer) and count >= least_support and sure >= least_confidence:
                    rows.append((end, answer, step, _NONE, _NONE, value, count, pairs, 0))
        rows.sort(key=lambda row: (-row[_SUPPORT] / (row[_PAIRS] + caution), row))
        return ReferenceRows(rows[:most], 9)

    def holds(self, x: int, step: int, value: int) -> bool:
        targets = self.targets.get((x, step), set())
        return bool(targets) if value == _NONE else value in targets


class ReferenceIndex:
    """As `NativeRuleIndex`."""

    def __init__(
        self, steps: ReferenceSteps, rules: Tensor, caution: float, weights: Tensor, powers: Tensor, decay: float, /
    ) -> None:
        self._steps, self._rules, self._caution = steps, rules.tolist(), caution
        self._weights, self._powers, self._decay = weights.tolist(), powers.tolist(), decay
        self._by_relation: dict[int, list[int]] = defaultdict(list)
        for number, rule in enumerate(self._rules):
            self._by_relation[rule[_END] % max(1, steps.relations)].append(number)

    def score(self, threads: int, anchors: Tensor, relations: Tensor, tails: bool, scores: Tensor, /) -> None:
        for row, (anchor, relation) in enumerate(zip(anchors.tolist(), relations.tolist(), strict=True)):
            for candidate in range(self._steps.entities):
                triple = (anchor, relation, candidate) if tails else (candidate, relation, anchor)
                scores[row, candidate] = self._combined(self._firing(*triple))

    def explain(self, threads: int, triples: Tensor, scores: Tensor, numbers: Tensor, confidences: Tensor, /) -> None:
        numbers.fill_(_NONE)
        confidences.zero_()
        for row, triple in enumerate(triples.tolist()):
            found = self._firing(*triple)
            scores[row] = self._combined(found)
            for place, (strength, _, number) in enumerate(found[: numbers.shape[1]]):
                numbers[row, place], confidences[row, place] = number, 1 - exp(-strength)

    def _combined(self, found: list[tuple[float, float, int]]) -> float:
        return sum(worth * self._decay**place for place, (_, worth, _) in enumerate(found[:_TOP]))

    def _firing(self, head: int, relation: int, tail: int) -> list[tuple[float, float, int]]:
        """Strength, worth and number of the rules that predict a triple, the strongest first."""
        if head == tail:
            return []
        known = int(tail in self._steps.targets.get((head, relation), ()))
        found = []
        for number in self._by_relation[relation]:
            rule = self._rules[number]
            if self._fires(rule, head, tail):
                taken = 0 if rule[_SAMPLED] else known
                sure = (rule[_SUPPORT] - taken) / (rule[_PAIRS] + self._caution)
                strength, kind = -log1p(-min(max(sure, 0), _SURE)), _kind(rule)
                found.append((strength, self._weights[kind] * strength ** self._powers[kind], number))
        return sorted(found, key=lambda one: (-one[0], -one[1], one[2]))

    def _fires(self, rule: list[int], head: int, tail: int) -> bool:
        if rule[_ANSWER] == _NONE:
            return tail in self._steps.reached(head, _trimmed(rule[2:5]))
        x, answer = (head, tail) if rule[_END] < self._steps.relations else (tail, head)
        return answer == rule[_ANSWER] and self._steps.holds(x, rule[2], rule[_VALUE])


def _kind(rule: list[int]) -> int:
    if rule[_ANSWER] == _NONE:
        return len(_trimmed(rule[2:5])) - 1
    return 4 if rule[_VALUE] == _NONE else 3


def _padded(body: Body) -> Body:
    return body + (_NONE,) * (_LONGEST - len(body))


def _trimmed(body: Iterable[int]) -> Body:
    return tuple(end for end in body if end != _NONE)
