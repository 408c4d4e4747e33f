"""Small runs of each kind, and other folders and files that commands read, to be damaged."""

from __future__ import annotations

import runpy
from pathlib import Path

from tests.runs.test_update import NEW, towns

import transher
from transher.graph.preparing import prepare
from transher.training.recipe import Recipe
from transher.training.rule_recipe import RuleRecipe

SETTINGS = ["model.k=4", "training.steps=4", "training.batch=16", "training.negatives=4", "validation.every=2"]
OPENKE = {
    "entity2id.txt": "4\na\t0\nb\t1\nc\t2\nd\t3\n",
    "relation2id.txt": "2\nr\t0\ns\t1\n",
    "train2id.txt": "4\n0 1 0\n1 2 1\n2 3 0\n3 0 1\n",
    "valid2id.txt": "1\n0 2 0\n",
    "test2id.txt": "1\n1 3 0\n",
}


def make_runs(folder: Path) -> dict[str, Path]:
    """Runs by kind: of vectors, of an update, of rules, a blend of vectors and rules, and one that stays in parts."""
    graph = towns()
    vectors = transher.train(graph, folder / "vectors", recipe=Recipe().with_settings(SETTINGS))
    vectors.mark("e001", "r0", "e050", "wrong")
    rules = transher.train(graph, folder / "rules", recipe=RuleRecipe().with_settings(["mining.minutes=0.05"]))
    transher.update(vectors, NEW, folder / "updated")
    transher.blend([vectors, rules], folder / "blend")
    in_parts = Recipe().with_settings([*SETTINGS, "training.parts=2"])
    transher.train(graph, folder / "sharded", recipe=in_parts, sharded=True)
    return {kind: folder / kind for kind in ("vectors", "rules", "updated", "blend", "sharded")}


def make_others(folder: Path, vectors: Path) -> dict[str, Path]:
    """Folders by kind: graphs of several files, a search, and files that a command reads besides a run."""
    graph = transher.load(vectors).graph
    names = [array.to_pylist() for array in (graph.entities.identifiers, graph.relations.identifiers)]
    lines = [f"{names[0][h]}\t{names[1][r]}\t{names[0][t]}\n" for h, r, t in graph.train.tolist()]
    kinds = {kind: folder / kind for kind in ("openke", "ogb", "prepared", "search", "given")}
    for kind in ("openke", "given"):
        kinds[kind].mkdir(parents=True)
    for name, text in OPENKE.items():
        (kinds["openke"] / name).write_text(text)
    sample = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "make_ogb_sample.py"))
    sample["WRITERS"]["ogbl-biokg"](folder)
    kinds["ogb"].mkdir()
    (folder / "ogbl_biokg").rename(kinds["ogb"] / "ogbl_biokg")  # as they lie among other benchmarks
    (kinds["given"] / "facts.tsv").write_text("e999\tr0\te049\ne999\tr1\te053\ne998\tr0\te999\n")
    (kinds["given"] / "names.tsv").write_text("e001\tOne\tThe first\ne002\tTwo\tThe second\n")
    Recipe().with_settings(SETTINGS).save(kinds["given"] / "recipe.toml")
    table = folder / "graph.tsv"
    table.write_text("".join(lines))
    prepare([table], kinds["prepared"], held_out=4)
    transher.search(table, kinds["search"], settings=SETTINGS, space=["training.lr=0.01,0.1"], trials=2)
    return kinds
