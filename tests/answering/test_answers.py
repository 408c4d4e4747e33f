from __future__ import annotations

import pytest
import torch
from tests.conftest import make_graph

from transher.answering.answers import predict
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
    for relation, itself in (("r0", False), ("r1", True)):
        found = predict(scorer, graph, relation=relation, **{given: "e000"}, top=4, known=known)[asked].tolist()  # type: ignore[arg-type]
        assert ("e000" in found) == itself
        answers = {"r0": ["e001"], "r1": ["e001"]}[relation] if asked == "tail" else []
        hidden = answers if known == "hide" else []
        assert sorted(found) == sorted({"e000", "e001", "e002", "e003"} - set(hidden) - (set() if itself else {"e000"}))
