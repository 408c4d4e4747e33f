"""Write a small ogbl-wikikg2 or ogbl-biokg in the very layout that the `ogb` package unpacks and opens.

    python scripts/make_ogb_sample.py ogbl-biokg FOLDER

makes FOLDER/ogbl_biokg. What is in it is made up, but can be learnt: a relation takes an entity a fixed number of steps
round the circle of the entities of its tail's type.
"""

from __future__ import annotations

import gzip
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

BIOKG_TYPES = {"disease": 40, "drug": 50, "function": 30, "protein": 60, "sideeffect": 20}
BIOKG_RELATIONS = [
    ("disease", "disease-protein", "protein"),
    ("drug", "drug-disease", "disease"),
    ("drug", "drug-drug_cardiovascular", "drug"),
    ("drug", "drug-protein", "protein"),
    ("drug", "drug-sideeffect", "sideeffect"),
    ("function", "function-function", "function"),
    ("protein", "protein-function", "function"),
    ("protein", "protein-protein_binding", "protein"),
]
WIKIKG_NODES, WIKIKG_RELATIONS = 200, 7
CANDIDATES = 500
SPLIT_SHARES = (0.8, 0.1, 0.1)


def write_csv(path: Path, rows: Any, header: str | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [] if header is None else [header]
    lines += [",".join(map(str, np.atleast_1d(row))) for row in rows]
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


def write_split(folder: Path, parts: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True)
    for name, part in zip(("train", "valid", "test"), parts, strict=True):
        torch.save(part, folder / f"{name}.pt", pickle_protocol=4)


def steps_round_the_circle(heads: int, tails: int, relation: int, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """(n, 2): each head with two tails, some steps on."""
    start = np.arange(heads)
    pairs = np.concatenate([np.stack([start, (start + 3 * relation + step) % tails], axis=1) for step in (1, 2)])
    return random.permutation(pairs)


def cut(count: int) -> list[slice]:
    ends = [0, *(round(share * count) for share in np.cumsum(SPLIT_SHARES))]
    return [slice(start, end) for start, end in itertools.pairwise(ends)]


def write_wikikg2(root: Path, seed: int = 0) -> Path:
    random = np.random.default_rng(seed)
    folder = root / "ogbl_wikikg2"
    rows = np.concatenate(
        [
            np.insert(steps_round_the_circle(WIKIKG_NODES, WIKIKG_NODES, relation, random), 1, relation, axis=1)
            for relation in range(WIKIKG_RELATIONS)
        ]
    )
    rows = random.permutation(rows)
    parts: list[dict[str, Any]] = []
    for part in cut(len(rows)):
        head, relation, tail = rows[part].T.copy()
        parts.append({"head": head, "relation": relation, "tail": tail})
    for held_out in parts[1:]:
        for side in ("head_neg", "tail_neg"):
            held_out[side] = random.integers(0, WIKIKG_NODES, (len(held_out["head"]), CANDIDATES))
    write_split(folder / "split" / "time", parts)
    train = parts[0]
    write_csv(folder / "raw" / "edge.csv.gz", np.stack([train["head"], train["tail"]], axis=1))
    write_csv(folder / "raw" / "edge_reltype.csv.gz", train["relation"])
    write_csv(folder / "raw" / "num-node-list.csv.gz", [WIKIKG_NODES])
    write_csv(folder / "raw" / "num-edge-list.csv.gz", [len(train["head"])])
    nodes = enumerate(random.permutation(WIKIKG_NODES))
    write_csv(folder / "mapping" / "nodeidx2entityid.csv.gz", [(i, f"Q{q}") for i, q in nodes], "node idx,entity id")
    relations = [(i, f"P{17 + 3 * i}") for i in range(WIKIKG_RELATIONS)]
    write_csv(folder / "mapping" / "reltype2relid.csv.gz", relations, "reltype,rel id")
    return finish(folder)


def write_biokg(root: Path, seed: int = 0) -> Path:
    random = np.random.default_rng(seed)
    folder = root / "ogbl_biokg"
    lists: list[dict[str, list[Any]]] = [
        {key: [] for key in ("head_type", "head", "relation", "tail_type", "tail", "head_neg", "tail_neg")}
        for _ in SPLIT_SHARES
    ]
    for relation, (head_type, name, tail_type) in enumerate(BIOKG_RELATIONS):
        pairs = steps_round_the_circle(BIOKG_TYPES[head_type], BIOKG_TYPES[tail_type], relation, random)
        for part, rows in zip(lists, (pairs[part] for part in cut(len(pairs))), strict=True):
            part["head_type"] += [head_type] * len(rows)
            part["tail_type"] += [tail_type] * len(rows)
            part["head"].append(rows[:, 0])
            part["tail"].append(rows[:, 1])
            part["relation"].append(np.full(len(rows), relation))
            part["head_neg"].append(random.integers(0, BIOKG_TYPES[head_type], (len(rows), CANDIDATES)))
            part["tail_neg"].append(random.integers(0, BIOKG_TYPES[tail_type], (len(rows), CANDIDATES)))
        edges = pairs[cut(len(pairs))[0]]
        raw = folder / "raw" / "relations" / f"{head_type}___{name}___{tail_type}"
        write_csv(raw / "edge.csv.gz", edges)
        write_csv(raw / "num-edge-list.csv.gz", [len(edges)])
        write_csv(raw / "edge_reltype.csv.gz", [relation] * len(edges))
    parts = [
        {key: value if key.endswith("_type") else np.concatenate(value) for key, value in part.items()}
        for part in lists
    ]
    del parts[0]["head_neg"], parts[0]["tail_neg"]
    write_split(folder / "split" / "random", parts)
    write_csv(folder / "raw" / "num-node-dict.csv.gz", [list(BIOKG_TYPES.values())], ",".join(BIOKG_TYPES))
    write_csv(folder / "raw" / "triplet-type-list.csv.gz", BIOKG_RELATIONS)
    for type_name, count in BIOKG_TYPES.items():
        # As in the real one, diseases and side effects share identifiers, and proteins have plain numbers.
        prefix = {"drug": "CID", "function": "GO:", "protein": ""}.get(type_name, "C")
        names = [(i, f"{prefix}{1000 + i}") for i in range(count)]
        write_csv(folder / "mapping" / f"{type_name}_entidx2name.csv.gz", names, "ent idx,ent name")
    names = [(i, name) for i, (_, name, _) in enumerate(BIOKG_RELATIONS)]
    write_csv(folder / "mapping" / "relidx2relname.csv.gz", names, "rel idx,rel name")
    return finish(folder)


def finish(folder: Path) -> Path:
    (folder / "processed").mkdir()
    (folder / "RELEASE_v1.txt").write_text(f"# A made-up sample in the layout of {folder.name}\n")
    return folder


WRITERS = {"ogbl-biokg": write_biokg, "ogbl-wikikg2": write_wikikg2}

if __name__ == "__main__":
    print(WRITERS[sys.argv[1]](Path(sys.argv[2])))
