"""The named graphs: their sizes, licences and public homes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from transher.errors import UsageError, nearest
from transher.graph.graph import SPLITS


@dataclass(frozen=True)
class Source:
    """One file of a benchmark's public home."""

    url: str
    file: str = ""  # its name in the benchmark's folder; empty for an archive, which is unpacked there
    inside: str = ""  # the folder of the archive that holds the benchmark
    # Of the text with LF line ends, or of the archive. None where no hash is known: that of what came is always written
    # to SHA256SUMS in the folder, for comparison with other machines.
    sha256: str | None = None


@dataclass(frozen=True)
class Benchmark:
    """A named graph, with the numbers that its authors give."""

    name: str
    title: str
    entities: int
    relations: int
    train: int
    valid: int
    test: int
    home: str  # the page for people
    licence: str
    sources: tuple[Source, ...] = ()
    other_names: tuple[str, ...] = ()  # of its folder, beside `name`, in whatever case and punctuation
    largest: int = 1 << 30  # bytes of any file of it, and of all of an archive's content
    is_ogb: bool = False

    def is_called(self, name: str) -> bool:
        """Whether a person or a folder means this benchmark by `name`: case and punctuation do not matter."""
        return _bare(name) in {_bare(known) for known in (self.name, *self.other_names)}

    def is_in(self, folder: Path) -> bool:
        """Whether a folder holds this benchmark, judged by its files' names."""
        if self.is_ogb:
            return any(folder.glob("split/*/train.pt")) or any(folder.glob("split/*/split_dict.pt"))
        return all(any(file.is_file() for file in folder.glob(f"{split}*")) for split in SPLITS)


def _texts(url: str, hashes: tuple[str | None, str | None, str | None] = (None, None, None)) -> tuple[Source, ...]:
    """The three splits of a home that has `{split}` in its address."""
    return tuple(
        Source(url.format(split=split), f"{split}.txt", sha256=known)
        for split, known in zip(SPLITS, hashes, strict=True)
    )


_GITHUB = "https://raw.githubusercontent.com"
_OGB = "https://snap.stanford.edu/ogb/data/linkproppred"

BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            name="world",
            title="Countries, cities, neighbours, languages, currencies and time zones",
            entities=2_838,
            relations=9,
            train=8_778,
            valid=815,
            test=815,
            home="https://www.geonames.org",
            licence="CC BY 4.0, GeoNames",
        ),
        Benchmark(
            name="fb15k-237",
            title="Freebase facts about films, people and places, without inverse relations",
            entities=14_541,
            relations=237,
            train=272_115,
            valid=17_535,
            test=20_466,
            home="https://www.microsoft.com/en-us/download/details.aspx?id=52312",
            licence="Microsoft Research data licence; Freebase data CC BY 2.5",
            sources=_texts(
                f"{_GITHUB}/DeepGraphLearning/KnowledgeGraphEmbedding/617062aaedf53bf4d6b44450a580a96dc30e0632"
                "/data/FB15k-237/{split}.txt",
                (
                    "61099230e4439f90885ca9767739e31e8e32f54736fa1c35952b27997bc7c08a",
                    "749cbe9d923bac7b9354da5614ecfed2e0220256d442c3e04a6b303db1f273d9",
                    "e2e35e8e6113de220140b6f44dc71a5207b0fc6872d575e874aefe13259b655b",
                ),
            ),
        ),
        Benchmark(
            name="db100k",
            title="DBpedia facts about some 100,000 entities",
            entities=99_604,
            relations=470,
            train=597_572,
            valid=50_000,
            test=50_000,
            home="https://github.com/iieir-km/ComplEx-NNE_AER",
            licence="not stated by its authors; DBpedia data CC BY-SA 3.0",
            sources=_texts(
                f"{_GITHUB}/iieir-km/ComplEx-NNE_AER/666c6194461d9eed4bd20099b99abe4d34ce5985"
                "/datasets/DB100K/_{split}.txt",
                (
                    None,
                    "ab1abc4327c4c18ae3b9384be2d876e51eb5dab7b71bfc06ddc42f4a974811da",
                    "99c562445be98a57a1781fba6f09c30346469c96a91c208a74936bfbb2e540b9",
                ),
            ),
        ),
        Benchmark(
            name="yago37",
            title="The core facts of YAGO3",
            entities=123_189,
            relations=37,
            train=989_132,
            valid=50_000,
            test=50_000,
            home="https://github.com/iieir-km/RUGE",
            licence="not stated by its authors; YAGO3 data CC BY 3.0",
            sources=_texts(
                f"{_GITHUB}/iieir-km/RUGE/1b4423944f17d97eb11a86bd3dc6e6846d3e67f2"
                "/datasets/yago37/yago37_triples.{split}"
            ),
        ),
        Benchmark(
            name="wn18rr",
            title="WordNet's senses, without inverse relations",
            entities=40_943,
            relations=11,
            train=86_835,
            valid=3_034,
            test=3_134,
            home="https://github.com/TimDettmers/ConvE",
            licence="WordNet licence",
            sources=(Source("https://github.com/TimDettmers/ConvE/raw/master/WN18RR.tar.gz"),),
        ),
        Benchmark(
            name="ogbl-wikikg2",
            title="Wikidata, split by time, with 500 supplied candidates a side",
            entities=2_500_604,
            relations=535,
            train=16_109_182,
            valid=429_456,
            test=598_543,
            home="https://ogb.stanford.edu/docs/linkprop/#ogbl-wikikg2",
            licence="CC0",
            sources=(Source(f"{_OGB}/wikikg-v2.zip", inside="wikikg-v2"),),
            other_names=("wikikg2", "wikikg-v2"),
            largest=20 << 30,
            is_ogb=True,
        ),
        Benchmark(
            name="ogbl-biokg",
            title="Diseases, drugs, functions, proteins and side effects, with 500 supplied candidates a side",
            entities=93_773,
            relations=51,
            train=4_762_678,
            valid=162_886,
            test=162_870,
            home="https://ogb.stanford.edu/docs/linkprop/#ogbl-biokg",
            licence="CC0",
            sources=(Source(f"{_OGB}/biokg.zip", inside="biokg"),),
            other_names=("biokg",),
            largest=8 << 30,
            is_ogb=True,
        ),
    )
}


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of that name, in whatever case and punctuation."""
    for benchmark in BENCHMARKS.values():
        if benchmark.is_called(name):
            return benchmark
    hint = nearest(name, BENCHMARKS) or f"There are {', '.join(BENCHMARKS)}."
    raise UsageError(f"There is no benchmark {name!r}. {hint}")


def _bare(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())
