"""Which files of a folder hold which part of a graph."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from transher.errors import InputError
from transher.graph.graph import SPLITS, Split
from transher.graph.options import ENDINGS
from transher.graph.streams import PACKINGS, ending

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


def split_named(path: Path) -> Split | None:
    """The split that a file's name says it is a part of, such as train-0001.parquet; None if it says none."""
    name = path.name.lower()
    word = re.split(r"[^a-z]", name, maxsplit=1)[0]
    return _SPELLINGS.get(word) or next((split for split in SPLITS if name.startswith(split)), None)


def is_names(path: Path) -> bool:
    """Whether a file of a folder says what people call identifiers."""
    return path.name.split(".")[0].lower() in _NAME_FILES and ending(path) == ".tsv"


@dataclass(frozen=True)
class Sources:
    """A folder's files: triples by split, names, and what is none of these."""

    splits: dict[Split, list[Path]]
    entity_names: Path | None
    relation_names: Path | None
    ignored: tuple[str, ...]


def find_sources(folder: Path) -> Sources:
    """The files of a folder that hold train, valid, test and names, in whichever form each is. Where none is called
    like a split, all files of triples are parts of one graph: they become the training triples."""
    splits: dict[Split, list[Path]] = {}
    names: dict[str, Path] = {}
    others: list[Path] = []
    for path in sorted(folder.iterdir()):
        stem = path.name.split(".")[0].lower()
        split = _SPELLINGS.get(stem)
        if split is not None and ending(path) in ENDINGS:
            if split in splits:
                raise InputError(
                    f"both {splits[split][0].name} and {path.name} could be the {split} split.",
                    file=folder,
                    remedy="Move one of them away.",
                )
            splits[split] = [path]
        elif is_names(path):
            names[stem] = path
        else:
            others.append(path)
    _refuse_misspelt(folder, splits, others)
    if not splits:
        splits["train"] = _parts(folder, others)
        others = [path for path in others if path not in splits["train"]]
    if not splits.get("train"):
        there = [path.name for paths in (*splits.values(), others) for path in paths]
        raise InputError(
            f"has no training triples; there is {', '.join(there[:8]) or 'nothing'}.",
            file=folder,
            remedy=f"Call them train with one of the endings {' '.join(ENDINGS)} (or packed: {' '.join(PACKINGS)}), "
            "or give one file.",
        )
    in_order: dict[Split, list[Path]] = {split: splits[split] for split in SPLITS if split in splits}
    return Sources(
        in_order, names.get("entity_names"), names.get("relation_names"), tuple(path.name for path in others)
    )


def _parts(folder: Path, paths: list[Path]) -> list[Path]:
    """The files of triples among `paths`, such as part-0000.parquet and so on. What programs leave beside such files
    (`_SUCCESS`, `.part-0000.crc`) starts with a dot or an underscore."""
    parts = [
        path for path in paths if path.is_file() and ending(path) in ENDINGS and not path.name.startswith((".", "_"))
    ]
    endings = sorted({ending(path) for path in parts})
    if len(endings) > 1:
        raise InputError(
            f"has no file called train, and {' and '.join(endings)} files, which cannot all be parts of one graph.",
            file=folder,
            remedy="Leave one kind of file in the folder, or give one file.",
        )
    return parts


def _refuse_misspelt(folder: Path, splits: dict[Split, list[Path]], others: list[Path]) -> None:
    """A file that is nearly named like a missing split would otherwise be silently left out."""
    for path in others:
        stem = path.name.split(".")[0].lower()
        close = get_close_matches(stem, _SPELLINGS, n=1, cutoff=0.75)
        if ending(path) in ENDINGS and close and _SPELLINGS[close[0]] not in splits:
            raise InputError(
                f"unknown split {stem!r} in {path.name}.", file=folder, remedy=f"Did you mean {close[0]!r}?"
            )
