from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transher.graph.graph import SIDES
from transher.kernels import Known
from transher.models import MODELS
from transher.models.embeddings import Embeddings


@pytest.mark.parametrize("name", ["transher", "distmult"])
@given(
    seed=st.integers(0, 1000),
    entities=st.integers(1, 40),
    count=st.integers(1, 12),
    width=st.sampled_from([1, 1 << 20]),
)
@settings(max_examples=25)
def test_the_top_is_that_of_a_full_sort_with_lower_ids_first(
    name: str, seed: int, entities: int, count: int, width: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = MODELS[name](2, 6.0)
    # Few distinct rows, so that scores tie.
    rows = torch.randint(1, 3, (entities, 2), generator=generator).float()
    scorer = Embeddings(model, rows, torch.randn(2, model.relation_width, generator=generator))
    anchors, relations = torch.zeros(3, dtype=torch.int64), torch.tensor([0, 1, 0])
    excluded = Known(torch.tensor([0, 1, 1]), torch.tensor([1, 1, 2]), torch.tensor([0, entities - 1]))
    for side in SIDES:
        everything = scorer.scores(anchors, relations, side)
        everything[0, 0] = everything[2, entities - 1] = -torch.inf
        in_chunks = model.best(scorer.query(anchors, relations, side), scorer.chunks(width), count, excluded)
        for scores, ids in (in_chunks, scorer.best(anchors, relations, side, count, excluded)):
            for row in range(3):
                order = sorted(range(entities), key=lambda i: (-everything[row, i].item(), i))
                order = [i for i in order if everything[row, i] > -torch.inf][:count]
                assert ids[row][ids[row] >= 0].tolist() == order
                assert scores[row, : len(order)].tolist() == pytest.approx(everything[row, order].tolist(), abs=1e-5)
