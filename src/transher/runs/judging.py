"""The judge of a run: fitted when a training ends, or when an older run is first asked, and kept in its folder.

A run of vectors gets rules beside it, mined in a short time: they tell the judge what vectors do not see, and `explain`
what to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from transher.answering.fitting import describe, fit_judge
from transher.answering.judge import Judge
from transher.answering.storage import JUDGE_FILE, load_judge, save_judge
from transher.errors import InputError
from transher.files import replacing
from transher.graph.graph import Graph, Triples
from transher.rules import Rules, mine, rules_of
from transher.rules.storage import RULES_FILE, load_rules, save_rules
from transher.scorer import Scorer
from transher.training.watcher import Watcher

_SHARE, _LEAST, _MOST = 0.05, 2.0, 60.0  # of the training's seconds, and the least and most of them, for rules
_SEED = 0
LATER_FILE = "later.parquet"  # facts that came later, by ids
_COLUMNS = ("head", "relation", "tail")


def kept_judge(folder: Path, scorer: Scorer, graph: Graph) -> Judge | None:
    """The judge that lies in the folder of a run; None without one."""
    if not (folder / JUDGE_FILE).is_file():
        return None
    return load_judge(folder, scorer, graph, rules_of(scorer) or _kept_rules(folder, graph))


def fitted_judge(
    folder: Path,
    scorer: Scorer,
    graph: Graph,
    *,
    keep: bool,
    lenient: bool = False,
    training: float = 0.0,
    later: Triples | None = None,
    about: NDArray[np.integer] | None = None,
    implied_by: Sequence[int] = (),
    watcher: Watcher | None = None,
) -> Judge | None:
    """Fit the judge of a run on its validation triples, or on facts that came `later`, and `keep` it in its folder.
    lenient: a folder that cannot be written to is no error. training: how many seconds that took."""
    watcher = watcher or Watcher()
    later = _kept_later(folder, graph) if later is None else later
    if later is None and not len(graph.valid):
        return None
    rules = rules_of(scorer) or _kept_rules(folder, graph)
    if rules is None:
        rules = _mined(folder, graph, max(_LEAST, min(_MOST, _SHARE * training)), keep, lenient)
    watcher.noticed(f"Fitting probabilities on {len(graph.valid if later is None else later):,} hidden facts.")
    judge = fit_judge(
        scorer, graph, rules=rules, later=later, about=about, implied_by=implied_by, progress=watcher.fitting
    )
    if judge is not None and keep:
        with suppress(OSError) if lenient else nullcontext():
            save_judge(folder, judge)
    return judge


def save_later(folder: Path, later: Triples) -> None:
    """Keep facts (n, 3) that came later beside a training, for its judge at the end."""
    with replacing(folder / LATER_FILE) as file:
        pq.write_table(pa.table(dict(zip(_COLUMNS, later.astype(np.int32).T, strict=True))), file)


def _kept_later(folder: Path, graph: Graph) -> Triples | None:
    path = folder / LATER_FILE
    if not path.is_file():
        return None
    try:
        table = pq.read_table(path, columns=list(_COLUMNS))
        if any(table[name].null_count or table[name].type != pa.int32() for name in _COLUMNS):
            raise ValueError("a column is not of ids")
        triples = np.stack([table[name].to_numpy() for name in _COLUMNS], 1)
        sizes = len(graph.entities), len(graph.relations), len(graph.entities)
        if not ((triples >= 0) & (triples < sizes)).all():
            raise ValueError("an id is not of this graph")
        return triples
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        remedy = "Delete it, and give the facts again: transher calibrate RUN --later FACTS."
        raise InputError(f"cannot be read as later facts ({error}).", file=path, remedy=remedy) from None


def carried_judge(judge: Judge, scorer: Scorer, graph: Graph) -> Judge:
    """The judge of a run for a scorer and a graph to which some entities were added behind the others: what it has
    learned stays."""
    rules = judge.describer.rules
    if rules is not None:
        rules = Rules(rules.rows, graph.trained, rules.worth)
    describer = describe(scorer, graph, rules, judge.describer.recent)
    levels, old = describer.levels, judge.describer.levels
    if levels is not None and old is not None:
        levels.starts, levels.entities, levels.values, levels.scale = old.starts, old.entities, old.values, old.scale
    return Judge(judge.verdicts, describer, graph.known)


def _kept_rules(folder: Path, graph: Graph) -> Rules | None:
    return load_rules(folder, graph.trained) if (folder / RULES_FILE).is_file() else None


def _mined(folder: Path, graph: Graph, seconds: float, keep: bool, lenient: bool) -> Rules:
    mining = mine(graph.trained, seconds=seconds, seed=_SEED)
    rules = Rules(mining.rules, graph.trained).fitted(graph.valid, graph.known)
    if keep:
        with suppress(OSError) if lenient else nullcontext():
            save_rules(folder, rules, mining.place, _SEED)
    return rules
