"""Bad input gets an error that says which file, which line, what is wrong and what to do."""

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from transher.errors import InputError, UsageError
from transher.graph import load_graph

GOOD = "a\tr\tb\n"
HEADER = "head,relation,tail,weight\n"


def fault(path: Path, **settings: Any) -> str:
    with pytest.raises(InputError) as error:
        load_graph(path, **settings)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "line", "what"),
    [
        ("a.tsv", "", None, "is empty"),
        ("a.tsv", "\n \n", None, "is empty"),
        ("a.csv", HEADER, None, "has no triples"),
        ("a.tsv", f"{GOOD}\n{GOOD}a\tb\n{GOOD}", 4, "2 columns where the first line has 3"),
        ("a.tsv", f"{GOOD}a\tr\tb\tc\n", 2, "4 columns where the first line has 3"),
        ("a.tsv", "a\tr\n", 1, "2 columns and no header"),
        ("a.tsv", "a\tr\tb\t7\n", 1, "4 columns and no header"),
        ("a.tsv", f"{GOOD}a\t\tb\n", 2, "the relation is empty"),
        ("a.tsv", f"{GOOD}\n\t\t\n", 3, "the head is empty"),
        ("a.csv", f"{HEADER}a,r,b,1\na,r,c,\n", 3, "the weight '' is not a number"),
        ("a.csv", f"{HEADER}a,r,b,1\na,r,c,much\n", 3, "the weight 'much' is not a number"),
        ("a.csv", f"{HEADER}a,r,b,1\na,r,c,-0.5\n", 3, "the weight '-0.5' is not a finite number"),
        ("a.csv", f"{HEADER}a,r,b,nan\na,r,c,1\n", 2, "the weight 'nan' is not a finite number"),
        ("a.csv", f'{HEADER}"a\nb",r,b,1\na,r,c,inf\n', 4, "the weight 'inf' is not a finite number"),
        ("a.csv", f"{HEADER}a,r,b,1e300\n", 2, "the weight '1e300' is not a finite number"),
        ("a.csv", "head,relation,object2\na,r,b\n", 1, "no column for the tail"),
        ("a.nt", "<urn:a> <urn:r> <urn:b> .\n<urn:a> <urn:r> ?? .\n", 2, ""),
        ("a.ttl", "@prefix : <urn:> .\n:a :r :b .\n:a :r ?? .\n", 3, ""),
        ("a.ttl", '@prefix : <urn:> .\n:a :r "x" .\n', None, "no triples between entities"),
        ("a.json", "{}", None, "does not say what kind of file"),
        ("a.parquet", "text", None, "is not a whole Parquet file"),
    ],
)
def test_the_file_the_line_and_the_fault_are_named(
    tmp_path: Path, name: str, content: str, line: int | None, what: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    message = fault(path)
    assert message.startswith(f"{path}, line {line}: " if line else f"{path}: ")
    assert what in message
    if name.endswith(("tsv", "csv")):
        packed = tmp_path / f"{name}.gz"
        packed.write_bytes(gzip.compress(content.encode()))
        assert fault(packed) == message.replace(str(path), str(packed))


@pytest.mark.parametrize("before", [0, 1, 500_000])
def test_the_line_that_is_not_utf_8_is_named(tmp_path: Path, before: int) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(GOOD.encode() * before + "a\tr\tZürich\n".encode("latin-1"))
    assert f"line {before + 1}: byte 6 is not UTF-8. Save the file as UTF-8." in fault(path)


def test_a_gzip_file_that_was_cut_short_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress("".join(f"a{i}\tr\tb{i * i}\n" for i in range(5000)).encode())[:-2000])
    assert "not a whole gzip file" in fault(path)
    path.write_bytes(b"a\tr\tb\n")
    assert "not a whole gzip file" in fault(path)


def test_columns_that_are_not_there_are_named_with_those_that_are(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("who,does,whom\na,r,b\n")
    assert "there is no column 'wo'. Did you mean 'who'" in fault(path, columns=("wo", "does", "whom"))
    assert "there is no column 3. It has columns 0 to 2: who, does, whom." in fault(path, columns=(0, 1, 3))
    with pytest.raises(UsageError, match="name three"):
        load_graph(path, columns=(0, 1))


def test_paths_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    assert "there is no such file or folder" in fault(tmp_path / "nothing")
    (tmp_path / "notes.md").write_text("")
    assert "has no training triples; there is notes.md" in fault(tmp_path)
    (tmp_path / "train.tsv").mkdir()
    assert "train.tsv: is a folder where a file is needed" in fault(tmp_path)


def test_a_split_that_is_spelt_wrongly_or_twice_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text(GOOD)
    (tmp_path / "tset.tsv").write_text(GOOD)
    assert "unknown split 'tset' in tset.tsv. Did you mean 'test'?" in fault(tmp_path)
    (tmp_path / "tset.tsv").rename(tmp_path / "train.csv")
    assert "both train.csv and train.tsv could be the train split" in fault(tmp_path)


def test_a_graph_asked_for_an_unknown_split_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(GOOD)
    with pytest.raises(UsageError, match=r"Unknown split 'tests'\. Did you mean 'test'\?"):
        load_graph(tmp_path / "a.tsv").split("tests")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("a\n", "line 1: 1 columns"),
        ("a\tb\nx\ty\tz\tw\n", "line 2: 4 columns"),
        ("\tb\n", "line 1: the identifier is empty"),
    ],
)
def test_a_bad_line_of_names_is_named(tmp_path: Path, content: str, what: str) -> None:
    (tmp_path / "a.tsv").write_text(GOOD)
    (tmp_path / "names.tsv").write_text(content)
    assert what in fault(tmp_path / "a.tsv", entity_names=tmp_path / "names.tsv")


def test_names_that_are_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(GOOD)
    assert "there is no such file" in fault(tmp_path / "a.tsv", relation_names=tmp_path / "names.tsv")
    assert "is a folder" in fault(tmp_path / "a.tsv", relation_names=tmp_path)


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        (
            {"head": ["a", None], "relation": ["r", "r"], "tail": ["b", "c"]},
            "a.parquet, row 2: the head is missing. Fill it in, or leave such rows out",
        ),
        (
            {"head": ["a"], "relation": ["r"], "tail": ["b"], "weight": [-1.0]},
            "row 1: the weight is missing, negative or not a finite number",
        ),
        (
            {"head": ["a"], "relation": ["r"], "tail": ["b"], "weight": [np.nan]},
            "row 1: the weight is missing, negative or not a finite number",
        ),
        ({"head": ["a"], "relation": ["r"], "tail": ["b"], "weight": ["x"]}, "row 1: the weight is missing, negative"),
        ({"head": ["a"], "relation": ["r"], "other": ["b"]}, "no column for the tail"),
        ({"head": [], "relation": [], "tail": []}, "has no triples"),
        ({"a": ["a"], "b": ["r"], "c": ["b"], "d": ["b"]}, "4 columns and no header"),
    ],
)
def test_faults_of_parquet_files_are_named(tmp_path: Path, columns: dict[str, list[object]], what: str) -> None:
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert what in fault(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("train2id.txt", "0 1 0\n", "line 1: '0 1 0' is not a count"),
        ("train2id.txt", "2\n0 1 0\n", "1 triples where its first line says 2"),
        ("train2id.txt", "2\n0 1 0\n0 1 9\n", "line 3: '0 1 9' is not a triple"),
        ("train2id.txt", "2\n0 1 0\n0 x 0\n", "line 3: '0 x 0' is not a triple"),
        ("train2id.txt", "0\n", "has no triples"),
        ("entity2id.txt", "3\na\t0\nb\t1\n", "2 lines where its first line says 3"),
        ("entity2id.txt", "2\na\t0\nb\t0\n", "line 3: 'b\\t0' is not an identifier and its own number"),
        ("entity2id.txt", "2\na\t0\na\t1\n", "stands in two lines"),
    ],
)
def test_faults_of_openke_folders_are_named(tmp_path: Path, name: str, content: str, what: str) -> None:
    files = {"train2id.txt": "1\n0 1 0\n", "entity2id.txt": "2\na\t0\nb\t1\n", "relation2id.txt": "1\nr\t0\n"}
    for file, text in {**files, name: content}.items():
        (tmp_path / file).write_text(text)
    assert what in fault(tmp_path)


def test_an_openke_folder_without_its_words_is_named(tmp_path: Path) -> None:
    (tmp_path / "train2id.txt").write_text("1\n0 1 0\n")
    assert "entity2id.txt: there is no such file" in fault(tmp_path)


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(GOOD)
    with pytest.raises(UsageError, match="'keep' or 'drop'"):
        load_graph(tmp_path / "a.tsv", unseen="maybe")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="add up to 1"):
        load_graph(tmp_path / "a.tsv", fractions=(0.5, 0.1, 0.1))


def test_reading_graphs_does_not_wait_for_torch() -> None:
    check = "import transher.graph, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
