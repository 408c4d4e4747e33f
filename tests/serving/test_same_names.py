"""A word means the same, and fails with the same text, on the command line, in Python and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.serving.process import PATIENT, Server, httpx

from transher import Run, load, load_graph, train
from transher.cli.main import main
from transher.errors import UnknownNameError
from transher.training.defaults import default_recipe

Told = tuple[str, list[str]]  # label or reason, and suggestions
Ask = Callable[[str], Told]

WORLD = [
    "country/FR", "COUNTRY/FR", "France", "france", " fRANCE ", "São Paulo", "Sao Paulo", "SAO PAULO", "Abu Ghurayb",
    "Sahiwal", "sahiwal", "Sahiwal (city/1166547)", "Hyderabad (city/1269843)", "Frnace", "Franc", "New Yor",
    "Atlantis", "", "(", "xyzzy", "France (country/DE)", "日本",
]  # fmt: skip

LIBRARY = """
@prefix v: <http://example.org/vocab#> .
@prefix b: <http://example.org/book/> .
@prefix o: <http://example.org/other#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
b:Iliad v:part b:section . b:Iliad v:part o:section . b:Iliad v:author b:Homère . b:Odyssey v:author b:Homère .
b:Odyssey v:part b:song . <urn:isbn:0451450523> v:author b:Homère . <urn:isbn:0451450523> v:part b:song .
b:Homère rdfs:label "Homère" .
"""

BOOKS = [
    "http://example.org/book/Iliad", "Iliad", "iliad", "book/Iliad", "BOOK/ILIAD", "example.org/book/Iliad", "section",
    "book/section", "other#section", "Section", "song", "Homère", "homere", "Homere ", "0451450523", "isbn:0451450523",
    "urn:isbn:0451450523", "URN:ISBN:0451450523", "Ilia", "Illiad", "liad", "vocab", "book/", "Odysey",
]  # fmt: skip


@pytest.fixture(scope="module")
def library_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    (folder / "library.ttl").write_text(LIBRARY, encoding="utf-8")
    graph = load_graph(folder / "library.ttl")
    settings = ("model.k=4", "training.steps=5", "training.batch=4", "training.negatives=2")
    train(graph, folder / "books", recipe=default_recipe(graph).with_settings(settings))
    return folder / "books"


@pytest.fixture(scope="module")
def both(world_run: Path, library_run: Path) -> Iterator[Server]:
    served = Server(str(world_run), str(library_run))
    yield served
    served.stop()


def in_python(run: Run) -> Ask:
    def ask(word: str) -> Told:
        try:
            return run.graph.entities.label(run.graph.entities.find(word)), []
        except UnknownNameError as error:
            return str(error), error.suggestions

    return ask


def over_http(server: Server, run: str, relation: str) -> Ask:
    def ask(word: str) -> Told:
        body = {"queries": [{"head": word, "relation": relation}]}
        answer = httpx.post(f"{server.url}/api/runs/{run}/batch", json=body, timeout=PATIENT).json()["answers"][0]
        if "reason" in answer:
            return answer["reason"], answer["suggestions"]
        return answer["answers"][0]["head"]["name"], []

    return ask


def on_the_command_line(folder: Path, relation: str) -> Callable[[str], str]:
    def ask(word: str) -> str:
        asked = ["predict", str(folder), "--head", word, "--relation", relation, "--json"]
        result = CliRunner().invoke(main, asked)
        if result.exit_code:
            assert result.exit_code == 2
            return result.stderr.removeprefix("Error: ").removesuffix("\n")
        return str(json.loads(result.stdout)[0]["head"])

    return ask


def compare(folder: Path, server: Server, words: list[str]) -> dict[str, Told]:
    run = load(folder)
    relation = run.graph.relations.label(0)
    python, http = in_python(run), over_http(server, folder.name, relation)
    command_line = on_the_command_line(folder, relation)
    told = {word: python(word) for word in words}
    assert {word: command_line(word) for word in words} == {word: text for word, (text, _) in told.items()}
    words = [word for word in words if word]  # HTTP takes no empty text
    assert {word: http(word) for word in words} == {word: told[word] for word in words}
    return told


def test_names_mean_the_same_everywhere(world_run: Path, both: Server) -> None:
    told = compare(world_run, both, WORLD)
    assert told["COUNTRY/FR"] == told[" fRANCE "] == ("France", [])
    assert told["Sao Paulo"] == ("São Paulo", [])
    assert told["Sahiwal"][1] == ["Sahiwal (city/1166547)", "Sahiwal (city/1166548)"]
    assert "Did you mean 'France'" in told["Frnace"][0]


def test_iris_mean_the_same_everywhere(library_run: Path, both: Server) -> None:
    told = compare(library_run, both, BOOKS)
    assert told["book/Iliad"] == told["iliad"] == ("Iliad", [])
    assert told["isbn:0451450523"] == ("0451450523", [])
    assert told["section"][1] == ["book/section", "other#section"]
    assert told["book/section"] == ("book/section", [])
    assert told["homere"] == ("Homère", [])


def test_a_relation_is_shown_and_asked_for_by_its_last_segment(library_run: Path, both: Server) -> None:
    query = {"head": "Iliad", "relation": "author"}
    fact = httpx.get(f"{both.url}/api/runs/books/predict", params=query, timeout=PATIENT).json()["answers"][0]
    assert fact["relation"]["name"] == "author"
    assert fact["relation"]["identifier"] == "http://example.org/vocab#author"
    result = CliRunner().invoke(main, ["predict", str(library_run), "--head", "Iliad", "--relation", "author"])
    assert "(Iliad, author, ?)" in result.stdout
    assert "book/section   http" in result.stdout
