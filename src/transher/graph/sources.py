"""Which files of a folder hold which part of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from transher.errors import InputError
from transher.graph.graph import SPLITS, Split

TEXT_ENDINGS = (".tsv", ".txt", ".csv")
RDF_ENDINGS = (".nt", ".ttl")
PARQUET_ENDINGS = (".parquet",)
ENDINGS = (*TEXT_ENDINGS, *PARQUET_ENDINGS, *RDF_ENDINGS)
_SPELLINGS: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
    "testing": "test",
}
_NAME_FILES = ("entity_names", "relation_names")


@dataclass(frozen=True)
class Sources:
    """A folder's files: triples by split, names, and what is none of these."""

    splits: dict[Split, Path]
    entity_names: Path | None
    relation_names: Path | None
    ignored: tuple[str, ...]


def ending(path: Path) -> str:
    """What kind of file it is by its name: `.tsv` for both `a.tsv` and `a.tsv.gz`."""
    return (Path(path.stem) if path.suffix.lower() == ".gz" else path).suffix.lower()


def find_sources(folder: Path) -> Sources:
    """The files of a folder that hold train, valid, test and names, in whichever form each is."""
    splits: dict[Split, Path] = {}
    names: dict[str, Path] = {}
    others: list[Path] = []
    for path in sorted(folder.iterdir()):
        stem = path.name.split(".")[0]
        split = _SPELLINGS.get(stem.lower())
        if split is not None and ending(path) in ENDINGS:
            if split in splits:
                raise InputError(
                    f"both {splits[split].name} and {path.name} could be the {split} split.",
                    file=folder,
                    remedy="Move one of them away.",
                )
            splits[split] = path
        elif stem in _NAME_FILES and ending(path) == ".tsv":
            names[stem] = path
        else:
            others.append(path)
    _refuse_misspelt(folder, splits, others)
    if "train" not in splits:
        there = ", ".join(path.name for path in others[:8]) or "nothing"
        raise InputError(
            f"has no training triples; there is {there}.",
            file=folder,
            remedy=f"Call them train with one of the endings {' '.join(ENDINGS)} (or with .gz), or give one file.",
        )
    in_order: dict[Split, Path] = {split: splits[split] for split in SPLITS if split in splits}
    return Sources(
        in_order, names.get("entity_names"), names.get("relation_names"), tuple(path.name for path in others)
    )


def _refuse_misspelt(folder: Path, splits: dict[Split, Path], others: list[Path]) -> None:
    """A file that is nearly named like a missing split would otherwise be silently left out."""
    for path in others:
        stem = path.name.split(".")[0].lower()
        close = get_close_matches(stem, _SPELLINGS, n=1, cutoff=0.75)
        if ending(path) in ENDINGS and close and _SPELLINGS[close[0]] not in splits:
            raise InputError(
                f"unknown split {stem!r} in {path.name}.", file=folder, remedy=f"Did you mean {close[0]!r}?"
            )
