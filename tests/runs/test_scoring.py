from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import transher
from transher.errors import InputError, UnknownNameError, UsageError

FRAME = pd.DataFrame(
    {
        "note": [1.5, 2.5, 3.5, 4.5],
        "head": ["e010", "nobody", "e020", "e030"],
        "relation": ["r0", "r0", "r1", "r9"],
        "tail": ["e011", "e012", None, "e032"],
    },
    index=[7, 8, 9, 7],
)
GOOD = [("e010", "r0", "e011"), ("e020", "r1", "e019"), ("e001", "r2", "e050")]


def test_triples_tables_and_dataframes_have_the_same_scores(run: transher.Run) -> None:
    expected = run.score(GOOD)
    assert expected.columns.tolist() == ["head", "relation", "tail", "score", "probability"]
    frame = pd.DataFrame(GOOD, columns=["head", "relation", "tail"])
    for same in (frame, pa.Table.from_pandas(frame), np.array(GOOD), (row for row in GOOD)):
        found = run.score(same)
        assert found[["score", "probability"]].equals(expected[["score", "probability"]])


def test_other_columns_their_types_and_the_index_stay(run: transher.Run) -> None:
    frame = FRAME.iloc[[0]].assign(when=pd.Timestamp("2024-01-01"))
    scored = run.score(frame)
    pd.testing.assert_frame_equal(scored[frame.columns], frame)
    assert scored.columns.tolist()[-2:] == ["score", "probability"]
    assert "score" not in frame


def test_columns_are_found_by_their_names_or_named(run: transher.Run) -> None:
    expected = run.score(GOOD)["score"].tolist()
    frame = pd.DataFrame(GOOD, columns=["subject", "predicate", "object"])
    assert run.score(frame)["score"].tolist() == expected
    frame = pd.DataFrame(GOOD, columns=["x", "y", "z"]).assign(more=1)[["more", "z", "y", "x"]]
    assert run.score(frame, columns=["x", "y", "z"])["score"].tolist() == expected
    with pytest.raises(InputError, match="more, z, y, x"):
        run.score(frame)


def test_unknown_names_are_an_error_that_names_the_rows(run: transher.Run) -> None:
    with pytest.raises(UnknownNameError) as error:
        run.score(FRAME)
    text = str(error.value)
    assert text.startswith("index 8: The graph has no entity called 'nobody'.")
    assert "2 more such rows: index 9, index 7." in text
    assert "--unknown skip (in Python: unknown)" in text
    with pytest.raises(UnknownNameError, match="index 9: the tail is missing"):
        run.score(FRAME.iloc[[0, 2]])


def test_rows_with_unknown_names_are_left_out(run: transher.Run) -> None:
    scored = run.score(FRAME, unknown="skip")
    pd.testing.assert_frame_equal(scored, run.score(FRAME.iloc[[0]]))


def test_rows_with_unknown_names_have_no_score(run: transher.Run) -> None:
    scored = run.score(FRAME, unknown="null")
    assert scored.index.tolist() == [7, 8, 9, 7]
    assert scored["score"].isna().tolist() == scored["probability"].isna().tolist() == [False, True, True, True]
    assert scored["score"].iloc[0] == run.score(FRAME.iloc[[0]])["score"].iloc[0]


def test_a_name_of_several_entities_is_unknown() -> None:
    graph = transher.load_graph(
        [(f"Q{i}", "next", f"Q{(i + 1) % 30}") for i in range(30)], entity_names={"Q1": "Paris", "Q2": "Paris"}
    )
    settings = {"model.k": 4, "training.steps": 2, "training.batch": 8, "training.negatives": 2}
    run = transher.train(graph, settings=settings)
    triples = [("Paris", "next", "Q3"), ("Paris (Q2)", "next", "Q3")]
    with pytest.raises(UnknownNameError, match=r"index 0: 2 entities are called 'Paris'"):
        run.score(triples)
    assert run.score(triples, unknown="null")["score"].isna().tolist() == [True, False]


def test_blocks_have_the_scores_of_the_whole(run: transher.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    expected = run.score(FRAME, unknown="null")
    monkeypatch.setattr("transher.runs.scoring._BLOCK", 3)
    given: list[pa.Table | list[pa.RecordBatch] | pa.RecordBatchReader] = [
        table, table.to_batches(max_chunksize=2), table.to_reader(max_chunksize=1)]  # fmt: skip
    for blocks in given:
        scored = pa.concat_tables(run.score_blocks(blocks, unknown="null"))
        assert scored.column_names == [*FRAME.columns, "score", "probability"]
        assert scored["score"].null_count == 3
        assert scored["note"].to_pylist() == FRAME["note"].tolist()
        np.testing.assert_array_equal(scored["score"].to_numpy(), expected["score"].to_numpy())
        np.testing.assert_array_equal(scored["probability"].to_numpy(), expected["probability"].to_numpy())
    assert sum(len(block) for block in run.score_blocks(table, unknown="skip")) == 1
    pd.testing.assert_frame_equal(run.score(FRAME, unknown="null"), expected)


def test_blocks_are_read_one_by_one_and_errors_count_over_all_of_them(run: transher.Run) -> None:
    read: list[int] = []

    def blocks() -> Iterator[pa.Table]:
        for start in range(4):
            read.append(start)
            yield pa.Table.from_pandas(FRAME.iloc[[0]] if start < 3 else FRAME.iloc[[1]], preserve_index=False)

    scored = run.score_blocks(blocks())
    next(scored)
    assert read == [0]
    with pytest.raises(UnknownNameError, match=r"^row 4: .*'nobody'"):
        list(scored)


def test_a_column_of_scores_is_not_overwritten(run: transher.Run) -> None:
    with pytest.raises(UsageError, match="has a column 'score' already"):
        run.score(run.score(GOOD))


@pytest.mark.parametrize("rows", [[("e010", "r0")], [GOOD[0], ("e010", "r0", "e011", "e012")]])
def test_what_is_no_triple_is_refused(run: transher.Run, rows: list[tuple[str, ...]]) -> None:
    with pytest.raises(UsageError, match=f"at position {len(rows) - 1}, is not a triple"):
        run.score(rows)


def test_nothing_has_no_scores(run: transher.Run) -> None:
    assert run.score([]).columns.tolist() == ["head", "relation", "tail", "score", "probability"]


def test_another_word_for_unknown_is_refused(run: transher.Run) -> None:
    with pytest.raises(UsageError, match="'error', 'skip' or 'null'"):
        run.score(GOOD, unknown="drop")  # type: ignore[arg-type]
