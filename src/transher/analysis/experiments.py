"""Experiments: which trainings stand behind which table, and the settings in which each differs from its recipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from transher.errors import UsageError, nearest
from transher.graph import load_graph
from transher.models.initialisation import STRATEGIES
from transher.runs.joining import joined_recipe
from transher.training.defaults import default_recipe
from transher.training.recipe import Recipe
from transher.training.recipe_files import recipe_names

BENCHMARKS = ("fb15k-237", "db100k", "yago37", "ogbl-wikikg2", "ogbl-biokg", "world")
OURS = "transher"  # the model of the paper
MODELS = (OURS, "pairre", "rotate", "transe", "distmult", "complex", "seek")  # of the paper's tables
TABLES = ("results", "types", "significance", "best", "joined", "init", "ablations")
MAIN, BEST, SHORT, MARGIN, JOINED = "main", "best", "short", "margin", "joined"
COMPARED = (OURS, "pairre")  # under the same budget and seeds, by a paired test

# Studies compare many trainings: each is narrower and shorter than the recipe, and the tables say so. Initialisations
# and models are compared with entities of any length and one learning rate, as the authors train: otherwise entities
# would lose their initial lengths, and relations that are scaled to the margin theirs.
# DB100K learns too slowly for that: so few steps would show who begins faster, not who ends higher. It gets entities of
# length 1, a high rate and, having many entities to rank, a smaller k.
SHORTER = (
    "model.k=256",
    "model.start_at_margin=false",
    "training.steps=8000",
    "training.negatives=256",
    "training.gradient_share=0.1",
    "validation.every=8000",
    "validation.sample=2000",
)
ONE_RATE = ("training.lr=1.5e-3", "training.relation_rate=1", "training.unit_entities=false")
TWO_RATES = ("training.lr=3e-3", "training.relation_rate=0.3", "training.unit_entities=true")
HIGH_RATE = ("training.lr=1e-2", "training.relation_rate=1", "training.unit_entities=true")
ABLATED = (*SHORTER, *TWO_RATES)

# What TranSHER's main training is joined with, and its seed: one that is initialised at the margin, and errs elsewhere.
AT_MARGIN: dict[str, tuple[tuple[str, ...], int]] = {
    "fb15k-237": (("model.start_at_margin=true", "training.steps=12000"), 1),
    "db100k": (
        (
            "model.start_at_margin=true",
            "model.k=1024",
            "training.steps=24000",
            "training.lr=0.0025",
            "training.relation_rate=0.17",
            "validation.every=4000",
            "validation.sample=5000",
        ),
        0,
    ),
}
# A small experiment, on the settings that a small graph gets by default: on `world`, each model learns within seconds.
QUICK = (
    "model.k=64",
    "training.steps=1500",
    "training.batch=256",
    "training.negatives=64",
    "validation.every=500",
    "validation.sample=200",
    "validation.report_every=50",
)

# What made it fast, and what made it better: one change each against ABLATED.
ABLATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "base": ("base", ()),
    "one-rate": ("entities of any length, one learning rate", ONE_RATE),
    "equal-rates": ("relations at the learning rate of entities", ("training.relation_rate=1",)),
    "margin": ("relations initialised at the margin", ("model.start_at_margin=true",)),
    "all-gradients": ("all gradients, not a tenth", ("training.gradient_share=1",)),
    "step-schedule": ("the authors' learning rate schedule", ("training.schedule=step",)),
    "wide-pool": ("a pool of 1,024 negatives", ("training.negatives=1024",)),
    "pools": ("sixteen pools of 256 negatives, not one", ("training.pools=16",)),
    "unfiltered": ("known triples kept among the negatives", ("training.filter_known=false",)),
    "unweighted": ("no weighting by frequency", ("training.weighting=none",)),
    "by-query": ("weighting by query, not by triple", ("training.weighting=query",)),
    "uniform-negatives": ("α = 0: every negative counts the same", ("training.alpha=0",)),
    "cross-entropy": ("cross-entropy, unweighted", ("training.loss=cross-entropy", "training.weighting=none")),
    "no-penalty": ("λ = 0", ("training.translation_l2=0",)),
    "no-translation": ("no translation: PairRE", ("model.name=pairre",)),
    "paper-xavier": ("the standard deviation that the paper prints", ("model.xavier=paper",)),
    "reciprocal": ("reciprocal relations", ("model.reciprocal=true",)),
    "dropout": ("dropout 0.1", ("training.dropout=0.1",)),
    "latest-weights": ("latest weights, not their average", ("training.averaging=0",)),
    "dense-adam": ("dense Adam, not row-sparse", ("training.optimizer=adam",)),
    "independent": ("256 negatives per positive, not one pool", ("training.pools=each",)),
}


@dataclass(frozen=True)
class Experiment:
    """One training: a recipe with some settings changed, under a seed. Or, with members, some trainings joined."""

    benchmark: str
    model: str
    variant: str
    seed: int
    recipe: Recipe
    members: tuple[str, ...] = ()  # names of experiments that come before this one

    @property
    def name(self) -> str:
        return f"{self.benchmark}_{self.model}_{self.variant}_{self.seed}"


def experiments(
    benchmark: str, *, models: Sequence[str] = (), tables: Sequence[str] = (), seeds: int = 1, quick: bool = False
) -> list[Experiment]:
    """What must have been trained for these tables of a benchmark: all of its models, and the results, by default."""
    _refuse_unknown("benchmark", [benchmark], BENCHMARKS)
    _refuse_unknown("model", models, MODELS)
    _refuse_unknown("table", tables, TABLES)
    tables = tables or ("results",)
    if models and not {"results", "types"} & set(tables):
        raise UsageError("--model chooses among the models of the tables results and types; the others have their own.")
    found: dict[str, Experiment] = {}

    def add(
        model: str, variant: str, settings: Sequence[str], seeds: Iterable[int] = (0,), base: Recipe | None = None
    ) -> None:
        base = base or main_recipe(benchmark, model)
        for seed in seeds:
            changed = [*settings, *(QUICK if quick else ()), f"training.seed={seed}"]
            recipe = (_small_recipe(model) if quick and benchmark == "world" else base).with_settings(changed)
            experiment = Experiment(benchmark, model, variant, seed, recipe)
            found[experiment.name] = experiment

    if "results" in tables or "types" in tables:
        for model in models or trained_models(benchmark):
            add(model, MAIN, (), range(seeds))
    if "significance" in tables:
        for model in COMPARED:
            add(model, MAIN, (), range(seeds))
            # Both have TranSHER's initialisation: what it is worth is another study.
            init = f"model.init={main_recipe(benchmark, OURS).model.init}"
            add(model, SHORT, (*_study(benchmark), init), range(max(seeds, 3)))
    if "best" in tables:
        add(OURS, BEST, (), range(seeds), best_recipe(benchmark))
    if "joined" in tables:
        settings, seed = AT_MARGIN.get(benchmark, AT_MARGIN["fb15k-237"])
        add(OURS, MAIN, ())
        add(OURS, MARGIN, settings, [seed])
        members = [found[f"{benchmark}_{OURS}_{MAIN}_0"], found[f"{benchmark}_{OURS}_{MARGIN}_{seed}"]]
        recipe = joined_recipe([one.recipe for one in members])
        joined = Experiment(benchmark, OURS, JOINED, 0, recipe, tuple(one.name for one in members))
        found[joined.name] = joined
    if "init" in tables:
        for strategy in STRATEGIES:
            add(OURS, f"init-{strategy}", (*_study(benchmark), f"model.init={strategy}"))
    if "ablations" in tables:
        for variant, (_, settings) in ABLATIONS.items():
            add(OURS, f"ablation-{variant}", (*ABLATED, *settings))
    return list(found.values())


def trained_models(benchmark: str) -> tuple[str, ...]:
    """The models that a benchmark has recipes for."""
    return tuple(model for model in MODELS if recipe_name(benchmark, model) is not None)


def main_recipe(benchmark: str, model: str) -> Recipe:
    """Our recipe for a model on a benchmark; the authors' where we have none of our own."""
    name = recipe_name(benchmark, model)
    if name is None:
        raise UsageError(
            f"there is no recipe for {model} on {benchmark}: {', '.join(trained_models(benchmark))} have one."
        )
    return Recipe.load(name)


def best_recipe(benchmark: str) -> Recipe:
    """Our slower recipe for TranSHER, which takes longer to answer better."""
    name = f"{OURS}-{benchmark}-best"
    if name not in recipe_names():
        known = [other for other in BENCHMARKS if f"{OURS}-{other}-best" in recipe_names()]
        raise UsageError(f"there is no slower recipe for {benchmark}: {', '.join(known)} have one.")
    return Recipe.load(name)


@cache
def _small_recipe(model: str) -> Recipe:
    """What a model gets by default on a small graph, with a learning rate for few steps."""
    recipe = default_recipe(load_graph("world"), model)
    return recipe.with_settings(["training.lr=1e-2"] if recipe.training.optimizer == "sparse-adam" else [])


def quick_in_words() -> str:
    """What --quick trains, and what its figures are worth."""
    recipe = _small_recipe(OURS).with_settings(QUICK)
    return (
        f"{recipe.training.steps:,} steps of each model with k = {recipe.model.k}. It shows that every step from "
        "training to table works and that the models learn. Its figures are not those of the paper, nor the best of a "
        "model."
    )


def recipe_name(benchmark: str, model: str) -> str | None:
    graph = "fb15k-237" if benchmark == "world" else benchmark  # world has no recipes: it serves to try the path
    return next((name for name in (f"{model}-{graph}", f"{model}-{graph}-paper") if name in recipe_names()), None)


def _study(benchmark: str) -> tuple[str, ...]:
    if benchmark == "db100k":
        return (*SHORTER, *HIGH_RATE, "model.k=128")
    return (*SHORTER, *ONE_RATE)


def _refuse_unknown(kind: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(
                f"there is no {kind} '{name}' to reproduce. {nearest(name, known) or 'Known: ' + ', '.join(known)}"
            )
