from __future__ import annotations

import pytest
import torch
from tests.conftest import make_graph

from transher.answering.answers import Answering, Question
from transher.models import MODELS
from transher.models.embeddings import Embeddings


@pytest.mark.parametrize("known", ["mark", "hide"])
@pytest.mark.parametrize("asked", ["tail", "head"])
def test_an_entity_answers_a_question_about_itself_only_where_the_relation_has_such_facts(
    asked: str, known: str
) -> None:
    graph = make_graph([(0, 0, 1), (1, 0, 2), (3, 1, 3), (0, 1, 1)])  # r1 joins e003 with itself, r0 nobody
    torch.manual_seed(0)
    model = MODELS["transher"](4, 6.0)
    scorer = Embeddings(model, torch.randn(4, 4), torch.randn(2, model.relation_width))
    given = "head" if asked == "tail" else "tail"
    for relation, itself in ((0, False), (1, True)):
        question = Question(**{"head": None, "tail": None, given: 0}, relation=relation, top=4, known=known)  # type: ignore[arg-type]
        (answers,) = Answering(scorer, graph, None).answer([question])
        found = answers.triples[:, 2 if asked == "tail" else 0].tolist()
        hidden = {1} if known == "hide" and asked == "tail" else set()
        assert sorted(found) == sorted({0, 1, 2, 3} - hidden - (set() if itself else {0}))
