from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import transher
from transher.answering.answers import Answering, Question
from transher.answering.predicted import Predicted
from transher.errors import UnknownNameError, UsageError

QUESTIONS = pd.DataFrame(
    {
        "note": [1, 2, 3, 4],
        "head": ["e010", None, "e010", "e030"],
        "relation": ["r0", "r1", np.nan, "r2"],
        "tail": [None, "e020", "e011", ""],
    },
    index=["a", "b", "c", "a"],
)
SINGLE = [
    {"head": "e010", "relation": "r0"},
    {"relation": "r1", "tail": "e020"},
    {"head": "e010", "tail": "e011"},
    {"head": "e030", "relation": "r2"},
]


def test_a_table_of_questions_has_the_answers_of_each_question_alone(run: transher.Run) -> None:
    together = run.predict(QUESTIONS, top=4)
    alone = [run.predict(**given, top=4) for given in SINGLE]  # type: ignore[arg-type]
    assert together["question"].tolist() == np.repeat(["a", "b", "c", "a"], [len(part) for part in alone]).tolist()
    pd.testing.assert_frame_equal(together.drop(columns="question"), pd.concat(alone, ignore_index=True))


def test_the_answer_has_its_own_identifier(run: transher.Run) -> None:
    table = run.predict(QUESTIONS, top=2)
    of = {name: table[table["question"] == name] for name in "abc"}
    assert of["a"]["identifier"].tolist() == of["a"]["tail_id"].tolist()
    assert of["b"]["identifier"].tolist() == of["b"]["head_id"].tolist()
    assert of["c"]["identifier"].tolist() == of["c"]["relation_id"].tolist()


def test_mappings_and_arrow_tables_are_questions_too(run: transher.Run) -> None:
    expected = run.predict(QUESTIONS.reset_index(drop=True), top=3)
    pd.testing.assert_frame_equal(run.predict(SINGLE, top=3), expected)
    table = pa.Table.from_pandas(QUESTIONS.reset_index(drop=True))
    pd.testing.assert_frame_equal(run.predict(table, top=3), expected)


def test_a_column_that_is_not_there_is_what_is_asked(run: transher.Run) -> None:
    table = run.predict(pd.DataFrame({"head": ["e010", "e011"], "relation": "r0"}), top=1)
    assert table["question"].tolist() == [0, 1]
    assert table["tail"].tolist() == [
        run.predict(head=head, relation="r0", top=1)["tail"][0] for head in ("e010", "e011")
    ]


def test_no_questions_have_no_answers(run: transher.Run) -> None:
    empty: list[dict[str, str]] = []
    for table in (run.predict(empty), run.predict(QUESTIONS.iloc[:0])):
        assert len(table) == 0
        assert table.columns.tolist() == run.predict(QUESTIONS).columns.tolist()


def test_questions_go_by_the_table_together_and_in_bounded_numbers(
    run: transher.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    answer = Answering.answer

    def counted(self: Answering, questions: list[Question]) -> list[Predicted]:
        sizes.append(len(questions))
        return answer(self, questions)

    monkeypatch.setattr(Answering, "answer", counted)
    monkeypatch.setattr("transher.runs.questions._TOGETHER", 3)
    many = pd.concat([QUESTIONS] * 2, ignore_index=True)
    table = run.predict(many, top=2)
    assert sizes == [3, 3, 2]
    assert table["question"].is_monotonic_increasing
    assert table["question"].nunique() == 8


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"head": "e001", "relation": "r0", "tail": "e002"}], "the third is empty. It is not so at index 0"),
        ([SINGLE[0], {"head": "e001"}, {}], "index 1, index 2"),
        (
            [SINGLE[0], {"head": "e01x", "relation": "r0"}],
            "index 1: The graph has no entity called 'e01x'. Did you mean",
        ),
        ([{"had": "e001", "relation": "r0"}], "no part 'had'. Did you mean 'head'"),
        ([("e001", "r0")], "give mappings"),
    ],
)
def test_a_wrong_question_is_named(run: transher.Run, rows: list[dict[str, str]], message: str) -> None:
    with pytest.raises(UsageError) as error:
        run.predict(rows)
    assert message in str(error.value)


def test_unknown_names_come_with_suggestions(run: transher.Run) -> None:
    with pytest.raises(UnknownNameError) as error:
        run.predict(QUESTIONS.replace({"head": "e010"}, "e010x"))
    assert "index 'a'" in str(error.value)
    assert "e010" in error.value.suggestions


def test_other_columns_than_those_of_a_triple_are_refused(run: transher.Run) -> None:
    with pytest.raises(UsageError, match="these are subject, object"):
        run.predict(pd.DataFrame({"subject": ["e001"], "object": ["e002"]}))


def test_questions_and_names_are_not_given_together(run: transher.Run) -> None:
    with pytest.raises(UsageError, match="not both"):
        run.predict(QUESTIONS, head="e001")
