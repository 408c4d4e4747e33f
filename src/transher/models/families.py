"""The two families that most models belong to: scaled L1 distances and dot products."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from torch import Tensor
from torch.nn.functional import normalize

from transher import kernels
from transher.graph.graph import Side
from transher.kernels import Chunk, Known, Positions, native
from transher.models.model import Asked, Model, Query
from transher.scorer import known_answers, refuse_nan


class ScaledL1Model(Model):
    """γ − Σ_i |q_i − s_i e_i|, with the query (q, s)."""

    # On FB15k-237 a tenth of the gradients gave the validation MRR of all, and this kernel gains by it.
    defaults: ClassVar[Mapping[str, Any]] = {"training.gradient_share": 0.1}
    holds_scores = False
    can_drop = True

    def cross(self, query: Query, candidates: Tensor) -> Tensor:
        q, s = query
        return self.gamma - kernels.scaled_l1_cross(q, s, candidates)

    def pairs(self, query: Query, candidates: Tensor) -> Tensor:
        q, s = query
        return self.gamma - kernels.scaled_l1_pairs(q, s, candidates)

    def _own_negatives(self, query: Query, seen: Tensor, negatives: Tensor) -> Tensor:
        """As in Model; rows are read where they lie."""
        q, s = query
        return self.gamma - kernels.scaled_l1_listed(q, s, seen, negatives)

    def count_better(self, query: Query, asked: Asked, chunks: Iterable[Chunk], known: Known) -> tuple[Tensor, Tensor]:
        """As in Model, by a kernel that holds no scores and stops at the answer's distance. By distance, which is finer
        than the score: γ − distance rounds neighbours together."""
        q, s = (part[asked.query] for part in query)
        limits = kernels.scaled_l1_pairs(q, s, asked.rows)
        refuse_nan(limits)
        own = Known(known.starts[asked.query], known.ends[asked.query], known.ids)
        better, tied = kernels.scaled_l1_count(q, s, limits, chunks, own)
        # An answer that is not among the known ones has been met as a candidate, and ties with itself.
        return better, tied - (~known_answers(known, asked.query, asked.ids)).long()

    def best(self, query: Query, chunks: Iterable[Chunk], size: int, excluded: Known) -> tuple[Tensor, Tensor]:
        """As in Model, by distance."""
        q, s = query
        distances, ids = kernels.scaled_l1_top(q, s, chunks, size, excluded)
        return self.gamma - distances, ids

    def columns(self, side: Side) -> kernels.Columns | None:
        """Where a relation's row holds the parts of the query, for the native batch; None if it is no such row."""
        return None

    def batch_scores(
        self,
        entity_rows: Tensor,
        relation_rows: Tensor,
        positions: Positions,
        side: Side,
        keep: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """As in Model; in one native operation where it serves."""
        columns = self.columns(side)
        own = len(positions.negatives) == len(positions.anchors) > 1
        if columns is None or own or not native.serves(entity_rows, relation_rows, keep):
            return super().batch_scores(entity_rows, relation_rows, positions, side, keep)
        return kernels.scaled_l1_batch(entity_rows, relation_rows, positions, keep, columns, self.gamma)


class DotModel(Model):
    """Σ_i q_i e_i, with the query (q,): one matrix product for BLAS."""

    # As ComplEx is trained since Lacroix et al. (2018); on a very large graph with a sample of the entities. The
    # self-adversarial loss with a large γ, as in the authors' baselines, leaves these models at chance on small graphs.
    defaults: ClassVar[Mapping[str, Any]] = {
        "model.init": "N_N_N",
        "model.reciprocal": True,
        "training.loss": "cross-entropy",
        "training.sampled_softmax": True,
        "training.weighting": "none",
        "training.optimizer": "adagrad",
        "training.lr": 0.1,
    }
    can_drop = True
    by_dot_product = True

    def cross(self, query: Query, candidates: Tensor) -> Tensor:
        (q,) = query
        return q @ candidates.T

    def pairs(self, query: Query, candidates: Tensor) -> Tensor:
        (q,) = query
        return (q * candidates).sum(-1)


def joined_directions(model: Model, entities: Tensor, relations: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """`Model.joined_rows` where entities count by direction: a mean of M wants distances divided by M. M unit
    rows side by side are √M long, which divides by √M already, and the relations do the rest. A translation is not
    multiplied by an entity."""
    scaled = relations * share**0.5
    translation = model.translation(scaled)
    if translation is not None:
        translation.mul_(share**0.5)
    return normalize(entities), scaled
