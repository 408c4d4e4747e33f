"""Tables: Markdown made of `results/` and the paper's figures, put between markers in README and docs.

`<!-- table: NAME -->` and `<!-- end -->` enclose a table; `transher reproduce --render` rewrites what is between.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from transher.analysis.experiments import (
    ABLATIONS,
    BEST,
    COMPARED,
    JOINED,
    MAIN,
    MARGIN,
    MODELS,
    OURS,
    SHORT,
    recipe_name,
)
from transher.analysis.results import read_results
from transher.errors import InputError, UsageError
from transher.evaluation.bootstrap import RESAMPLES
from transher.files import write_text
from transher.graph.graph import SIDES
from transher.models import model_class
from transher.models.initialisation import STRATEGIES

GRAPHS = {
    "fb15k-237": "FB15k-237",
    "db100k": "DB100K",
    "yago37": "YAGO37",
    "ogbl-wikikg2": "ogbl-wikikg2",
    "ogbl-biokg": "ogbl-biokg",
    "world": "world",
}
METRICS = ("mrr", "hits@1", "hits@3", "hits@10")
TYPES = ("1-to-1", "1-to-N", "N-to-1", "N-to-N")
FILES = ("README.md", "docs/results.md")
_LEAST_P = 1 / RESAMPLES  # a bootstrap cannot tell a smaller one
_MARKED = re.compile(r"(<!-- table: ([\w.-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Result = dict[str, Any]


@cache
def paper() -> dict[str, Any]:
    """The figures that the paper prints."""
    text = resources.files("transher.analysis").joinpath("paper.json").read_text("utf-8")
    return dict(json.loads(text))


def render(name: str, results: Sequence[Result], quick: bool = False) -> str:
    """The table `name`, such as `results-fb15k-237`, with the command that makes it again. `quick`: of short
    trainings, whose figures are not to be compared with the paper's."""
    kind, _, benchmark = name.partition("-")
    if kind not in _RENDERERS or benchmark not in GRAPHS:
        raise InputError(
            f"there is no table '{name}'. A name is one of {', '.join(_RENDERERS)}, a dash and a benchmark's name."
        )
    renderer, option = _RENDERERS[kind]
    own = [result for result in results if result["experiment"]["benchmark"] == benchmark]
    body = renderer(benchmark, own)
    if quick:
        return f"{body}\n\nOf a small experiment, made by `transher reproduce {benchmark}{option} --quick`.\n"
    return f"{body}\n\nMade by `transher reproduce {benchmark}{option}`.\n"


def results_table(benchmark: str, results: Sequence[Result]) -> str:
    """Every model's metrics, each beside the paper's, with seeds, minutes and whether the paper's MRR was reached."""
    published = paper()["results"].get(benchmark, {})
    if any("valid_mrr" in figures for figures in published.values()):
        return _ogb_table(benchmark, published, results)
    rows = []
    for model in MODELS:
        runs, figures = _runs(results, model, MAIN), published.get(model, {})
        if runs or figures or recipe_name(benchmark, model):
            missing = "not run" if recipe_name(benchmark, model) else "–"
            cells = [
                f"{_over_seeds(runs, metric, missing=missing)} ({_figure(figures.get(metric))})" for metric in METRICS
            ]
            rows.append([_title(model), *cells, str(len(runs) or ""), _minutes(runs), _reached(runs, figures)])
    headers = ["ours (paper's)", "MRR", "Hits@1", "Hits@3", "Hits@10", "seeds", "training minutes", "paper's MRR"]
    return _markdown(headers, rows)


def _ogb_table(benchmark: str, published: dict[str, dict[str, float]], results: Sequence[Result]) -> str:
    """OGB's leaderboard has the MRR of both splits and nothing else."""
    rows = []
    for model, figures in published.items():
        runs = _runs(results, model, MAIN)
        valid = [run["validation_mrr"] for run in runs if run["validation_mrr"] is not None]
        missing = "not run" if recipe_name(benchmark, model) else "–"
        ours = _figure(mean(valid), 4) if valid else missing
        test = f"{_over_seeds(runs, 'mrr', digits=4, missing=missing)} ({_figure(figures['mrr'], 4)})"
        rows.append([_title(model), test, f"{ours} ({_figure(figures['valid_mrr'], 4)})", _reached(runs, figures)])
    return _markdown(["ours (paper's)", "test MRR", "validation MRR", "paper's MRR"], rows)


def significance_table(benchmark: str, results: Sequence[Result]) -> str:
    """The paired tests of two models under each budget and seed."""
    rows = [
        [
            f"{_title(about['first'])} − {_title(about['second'])}, {about['variant']}",
            str(about["seed"]),
            *(
                _over_seeds(_seed(results, about[side], about["variant"], about["seed"]), "mrr", digits=4)
                for side in ("first", "second")
            ),
            f"{c['difference']:+.4f}",
            f"{c['interval'][0]:+.4f} to {c['interval'][1]:+.4f}",
            f"{'≤ ' if c['bootstrap_p'] <= _LEAST_P else ''}{c['bootstrap_p']:.2g}",
            f"{c['wilcoxon_p']:.2g}",
            f"{c['better']:.1%} / {c['worse']:.1%} / {c['equal']:.1%}",
        ]
        for test in results
        if test["kind"] == "comparison" and (c := test["comparison"]) and (about := test["experiment"])
    ]
    headers = [
        "MRR",
        "seed",
        *(_title(model) for model in COMPARED),
        "difference",
        "95 % interval",
        "p, bootstrap",
        "p, Wilcoxon",
        "better / worse / equal",
    ]
    return _markdown(headers, rows) + _budget(_all(results, SHORT), "The short trainings have")


def best_table(benchmark: str, results: Sequence[Result]) -> str:
    """TranSHER's main training, and the slower one."""
    return _ours_table(benchmark, results, {MAIN: "the main training", BEST: "the slower training"})


def joined_table(benchmark: str, results: Sequence[Result]) -> str:
    """TranSHER's main training, the one that it is joined with, and both as one."""
    meanings = {MAIN: "the main training", MARGIN: "initialised at the margin", JOINED: "both, joined"}
    return _ours_table(benchmark, results, meanings)


def _ours_table(benchmark: str, results: Sequence[Result], meanings: dict[str, str]) -> str:
    """Trainings of TranSHER, one a line."""
    figures = paper()["results"].get(benchmark, {}).get(OURS, {})
    rows = []
    for variant, meaning in meanings.items():
        runs = _runs(results, OURS, variant)
        dimensions = f"{runs[0]['recipe']['model']['k']:,}" if runs else ""
        valid = _figure(mean(run["validation_mrr"] for run in runs), 4) if runs else ""
        cells = [f"{_over_seeds(runs, metric)} ({_figure(figures.get(metric))})" for metric in METRICS]
        rows.append([meaning, dimensions, str(len(runs) or ""), valid, *cells, _minutes(runs), _reached(runs, figures)])
    headers = [
        "TranSHER, ours (paper's)",
        "k",
        "seeds",
        "validation MRR",
        "MRR",
        "Hits@1",
        "Hits@3",
        "Hits@10",
        "training minutes",
        "paper's MRR",
    ]
    return _markdown(headers, rows)


def types_table(benchmark: str, results: Sequence[Result]) -> str:
    """MRR and, below, Hits@10 by side and relation type, each beside the paper's."""
    return "\n\n".join(_by_type(benchmark, results, metric) for metric in ("mrr", "hits@10"))


def _by_type(benchmark: str, results: Sequence[Result], metric: str) -> str:
    published, places = paper()["types"].get(benchmark, {}), [(side, kind) for side in SIDES for kind in TYPES]
    rows = []
    for model in MODELS:
        runs, figures = _runs(results, model, MAIN), published.get(model, {})
        cells = [
            f"{_over_seeds(runs, metric, side, kind)} ({_figure(figures.get(side, {}).get(kind, {}).get(metric))})"
            for side, kind in places
        ]
        if runs or figures:
            rows.append([_title(model), *cells])
    name = {"mrr": "MRR", "hits@10": "Hits@10"}[metric]
    return _markdown([f"{name}, ours (paper's)", *(f"{side} {kind}" for side, kind in places)], rows)


def init_table(benchmark: str, results: Sequence[Result]) -> str:
    """The eight initialisations of TranSHER."""
    published = paper()["init"].get(benchmark, {})
    rows = []
    for strategy in STRATEGIES:
        runs, figures = _runs(results, OURS, f"init-{strategy}"), published.get(strategy, {})
        rows.append(
            [f"`{strategy}`", *(f"{_over_seeds(runs, metric)} ({_figure(figures.get(metric))})" for metric in METRICS)]
        )
    headers = ["initialisation of E, G, B; ours (paper's)", "MRR", "Hits@1", "Hits@3", "Hits@10"]
    return _markdown(headers, rows) + _budget(_all(results, "init-"))


def ablations_table(benchmark: str, results: Sequence[Result]) -> str:
    """What each choice is worth, in MRR and in minutes."""
    base = _runs(results, OURS, "ablation-base")
    rows = []
    for variant, (meaning, _) in ABLATIONS.items():
        runs = _runs(results, None, f"ablation-{variant}")
        change = f"{_mean(runs, 'mrr') - _mean(base, 'mrr'):+.4f}" if runs and base and variant != "base" else ""
        rows.append([meaning, _over_seeds(runs, "mrr"), change, _over_seeds(runs, "hits@10"), _minutes(runs)])
    headers = ["change", "MRR", "difference from the base", "Hits@10", "training minutes"]
    return _markdown(headers, rows) + _budget(_all(results, "ablation-"))


def headline_table(benchmark: str, results: Sequence[Result]) -> str:
    """TranSHER, single and joined, and PairRE in one line each, for the README."""
    published = paper()["results"].get(benchmark, {})
    rows = []
    ours, other = COMPARED
    for model, variant, words in ((ours, MAIN, ""), (ours, JOINED, ", two joined"), (other, MAIN, "")):
        runs, figures = _runs(results, model, variant), published.get(model, {})
        cells = [f"{_over_seeds(runs, metric)} ({_figure(figures.get(metric))})" for metric in ("mrr", "hits@10")]
        rows.append([_title(model) + words, *cells, _minutes(runs)])
    return _markdown([f"{GRAPHS[benchmark]}, ours (paper's)", "MRR", "Hits@10", "training minutes, CPU"], rows)


_RENDERERS: dict[str, tuple[Callable[[str, Sequence[Result]], str], str]] = {
    "results": (results_table, ""),
    "significance": (significance_table, " --table significance"),
    "types": (types_table, " --table types"),
    "best": (best_table, " --table best --seeds 3"),
    "joined": (joined_table, " --table joined"),
    "init": (init_table, " --table init"),
    "ablations": (ablations_table, " --table ablations"),
    "headline": (headline_table, " --model transher --model pairre --table results --table joined"),
}


def table_names(text: str) -> list[str]:
    """The tables that a text has markers for."""
    return [match[1] for match in _MARKED.findall(text)]


def with_tables(text: str, results: Sequence[Result]) -> str:
    """The text with every marked table as the results say."""
    return _MARKED.sub(lambda match: f"{match[1]}{render(match[2], results)}{match[3]}", text)


def rewrite(root: Path, results_folder: Path) -> list[Path]:
    """Put current tables into README and docs under `root`; gives the files that changed."""
    results, changed = read_results(results_folder), []
    if not results:  # or every figure would become "not run"
        raise UsageError(f"{results_folder} has no results to make tables of.")
    for path in (root / name for name in FILES):
        if path.is_file() and (new := with_tables(old := path.read_text("utf-8"), results)) != old:
            write_text(path, new)
            changed.append(path)
    return changed


def _title(model: str) -> str:
    return model_class(model).title


def _runs(results: Sequence[Result], model: str | None, variant: str) -> list[Result]:
    """A model's runs of a variant; with no model, whatever model the variant has."""
    return [
        result
        for result in _all(results, variant)
        if result["experiment"]["variant"] == variant and model in (None, result["experiment"]["model"])
    ]


def _seed(results: Sequence[Result], model: str, variant: str, seed: int) -> list[Result]:
    return [run for run in _runs(results, model, variant) if run["experiment"]["seed"] == seed]


def _all(results: Sequence[Result], prefix: str) -> list[Result]:
    return [r for r in results if r["kind"] == "run" and r["experiment"]["variant"].startswith(prefix)]


def _values(runs: Sequence[Result], metric: str, side: str | None = None, kind: str = "") -> list[float]:
    parts = [run["metrics"]["by_type"].get(side, {}).get(kind) if side else run["metrics"]["overall"] for run in runs]
    return [float(part[metric]) for part in parts if part is not None]


def _mean(runs: Sequence[Result], metric: str) -> float:
    return mean(_values(runs, metric))


def _over_seeds(
    runs: Sequence[Result],
    metric: str,
    side: str | None = None,
    kind: str = "",
    digits: int = 3,
    missing: str = "not run",
) -> str:
    values = _values(runs, metric, side, kind)
    if not values:
        return "–" if runs else missing
    spread = f" ± {_figure(stdev(values), digits)}" if len(values) > 1 else ""
    return _figure(mean(values), digits) + spread


def _figure(value: float | None, digits: int = 3) -> str:
    """.360, as the field prints it; OGB's figures have four digits."""
    return "–" if value is None else f"{value:.{digits}f}".removeprefix("0")


def _minutes(runs: Sequence[Result]) -> str:
    return f"{mean(run['cost']['training_seconds'] for run in runs) / 60:.1f}" if runs else ""


def _reached(runs: Sequence[Result], figures: dict[str, float]) -> str:
    if not runs or "mrr" not in figures:
        return "–"
    gap = _mean(runs, "mrr") - figures["mrr"]
    return "reached" if gap >= -0.0005 else f"not reached: {gap:+.3f}"  # the paper has three digits


def _budget(runs: Sequence[Result], words: str = "Each training has one seed,") -> str:
    if not runs:
        return ""
    model, training = runs[0]["recipe"]["model"], runs[0]["recipe"]["training"]
    return f"\n\n{words} k = {model['k']} and {training['steps']:,} steps: a smaller budget than in the main table."


def _markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rows = list(rows)
    if not rows:
        return "No runs yet."
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    for changed in rewrite(Path.cwd(), Path(sys.argv[1] if len(sys.argv) > 1 else "results")):
        print(f"rewrote {changed}")
