"""The recipe: every setting of a training, one typed object for Python, TOML files and flags."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from transher.errors import InputError, UsageError, nearest
from transher.files import write_text

# Written out here, since the names must be checked without importing torch; a test compares them with MODELS.
MODEL_NAMES = (
    "transher", "pairre", "transe", "transe-l2", "transh", "transr", "manifolde", "rescal", "distmult", "hole",
    "complex", "rotate", "seek",
)  # fmt: skip
DIRECTIONS = ("transher", "pairre")  # only the direction of an entity's row counts
DROPPABLE = ("transher", "pairre", "transe", "rescal", "distmult", "hole", "complex", "seek")


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True, protected_namespaces=())


class ModelSettings(Section):
    """The score function and how its tables start."""

    name: str = "transher"
    k: int = Field(256, ge=1, description="dimension; complex models have k complex coordinates")
    gamma: float = Field(6.0, description="margin γ; also sets the range of a uniform start")
    init: str = Field("U_N_N", pattern=r"^[UN]_[UN]_[UN]$", description="start of E, G and B: uniform or normal")
    xavier: Literal["code", "paper"] = Field("code", description="whose standard deviation a normal start has")
    start_at_margin: bool = Field(
        False, description="scale relations at the start such that random triples are at distance γ"
    )
    reciprocal: bool = Field(False, description="ask (?, r, t) as (t, r⁻¹, ?), with rows of its own for r⁻¹")
    segments: int = Field(4, ge=1, description="SEEK only: into how many segments k is cut")

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in MODEL_NAMES:
            raise ValueError(
                f"there is no model '{name}'. {nearest(name, MODEL_NAMES) or 'Known: ' + ', '.join(MODEL_NAMES)}"
            )
        return name

    @model_validator(mode="after")
    def _whole_segments(self) -> ModelSettings:
        if self.name == "seek" and self.k % self.segments:
            raise ValueError(f"SEEK cuts k = {self.k} into {self.segments} equal segments: make k a multiple of it")
        return self


class TrainingSettings(Section):
    """The loss, its negatives, and the optimiser."""

    steps: int = Field(10_000, ge=1)
    batch: int = Field(1024, ge=1, description="positives a step")
    negatives: int = Field(256, ge=1, description="negatives a positive")
    pool: Literal["shared", "independent"] = Field(
        "shared", description="one set of negatives a batch, or one a positive"
    )
    pools: int = Field(1, ge=1, description="shared only: how many sets a batch has, each for a run of its positives")
    typed: bool = Field(False, description="a negative has the type of the entity that it replaces")
    filter_known: bool = Field(True, description="known training triples are no negatives")
    loss: Literal["self-adversarial", "cross-entropy", "margin"] = "self-adversarial"
    sampled_softmax: bool = Field(
        False, description="cross-entropy only: negatives count for all the entities that they were drawn from"
    )
    alpha: float = Field(1.0, ge=0, description="temperature α of the self-adversarial weights")
    margin: float = Field(1.0, gt=0, description="margin-ranking loss only")
    weighting: Literal["frequency", "query", "none"] = Field(
        "frequency", description="w = 1/√(c(h,r) + c(r,t)); 1/√c of the query, which is (h,r) or (r,t); or 1"
    )
    count_offset: int = Field(3, ge=0, description="what is added to each count c: 3, or 4 in the OGB code")
    optimizer: Literal["sparse-adam", "adam", "adagrad"] = "sparse-adam"
    lr: float = Field(1e-3, gt=0)
    relation_rate: float = Field(
        1.0, gt=0, description="how many times that rate relations learn at: slower ones learn less by heart"
    )
    schedule: Literal["constant", "step", "linear", "cosine"] = Field(
        "linear", description="step: a tenth from half of the steps on, with fresh moments, as the authors do"
    )
    warmup: int = Field(0, ge=0, description="steps over which the rate rises from 0")
    translation_l2: float = Field(5e-5, ge=0, description="λ of λ‖B‖²_F")
    n3: float = Field(0.0, ge=0, description="weight of the cubed 3-norms of the batch's embeddings")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of the difference vector that is dropped")
    gradient_share: float = Field(
        1.0, gt=0, le=1, description="share of the negatives' gradients that is followed, the heaviest surely, unbiased"
    )
    unit_entities: bool = Field(
        False, description="bring entities back to length 1 after each step, or they grow and turn ever less"
    )
    averaging: float = Field(
        0.0, ge=0, le=1, description="share of the steps so far over which weights are averaged; 0 for the latest"
    )
    seed: int = Field(0, ge=0)


class ValidationSettings(Section):
    """How often and on what a training is judged, and when it stops early."""

    every: int = Field(2_000, ge=1, description="steps between two validations")
    sample: int = Field(2_000, ge=0, description="how many validation triples, always the same; 0 for all")
    patience: int = Field(0, ge=0, description="validations without a better MRR before stopping; 0 for never")
    checkpoint_minutes: float = Field(5.0, gt=0, description="at least a checkpoint at each validation, and this often")
    report_every: int = Field(100, ge=1, description="steps between two lines of history")
    record_gradients: bool = Field(False, description="keep the spread of the gradients at the start of each epoch")


class Recipe(Section):
    """Every setting of a training."""

    model: ModelSettings = Field(default_factory=ModelSettings)
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    validation: ValidationSettings = Field(default_factory=ValidationSettings)

    @model_validator(mode="after")
    def _fits_together(self) -> Recipe:
        if self.training.dropout and self.model.name not in DROPPABLE:
            raise ValueError(f"training.dropout works with {', '.join(DROPPABLE)}, not with {self.model.name}")
        if self.training.sampled_softmax and (self.training.loss != "cross-entropy" or self.training.typed):
            raise ValueError("training.sampled_softmax works with training.loss = cross-entropy and without types")
        if self.training.pools > 1 and (self.training.pool != "shared" or self.training.typed):
            raise ValueError("training.pools works with training.pool = shared and without types")
        if self.training.unit_entities and self.model.name not in DIRECTIONS:
            raise ValueError(f"training.unit_entities works with {', '.join(DIRECTIONS)}, not with {self.model.name}")
        if self.model.start_at_margin and self.model.name not in DIRECTIONS:
            raise ValueError(f"model.start_at_margin works with {', '.join(DIRECTIONS)}, not with {self.model.name}")
        return self

    @classmethod
    def parse(cls, values: dict[str, Any], source: str = "recipe") -> Recipe:
        """A recipe from nested values; mistakes become one readable error."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise UsageError(f"{source}: {'; '.join(_explain(item) for item in error.errors())}") from None

    @classmethod
    def load(cls, name_or_file: str | Path) -> Recipe:
        """A recipe that ships with the package, by name, or one from a TOML file."""
        text, source = _recipe_text(name_or_file)
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"is not valid TOML: {error}.", file=source) from None
        return cls.parse(values, source)

    def with_settings(self, settings: Iterable[str]) -> Recipe:
        """A copy with `KEY=VALUE` settings such as `training.steps=20000` put in."""
        values = self.model_dump()
        for setting in settings:
            key, equals, value = setting.partition("=")
            section, dot, field = key.strip().partition(".")
            if not (equals and dot):
                raise UsageError(f"--set takes KEY=VALUE such as training.steps=20000, not '{setting}'.")
            if section not in values:
                raise UsageError(f"there is no setting '{key}'. {_suggest(key)}")
            values[section][field] = _value(value.strip())
        return Recipe.parse(values, "--set")

    def to_toml(self) -> str:
        """Every setting with its value, defaults written out."""
        lines: list[str] = []
        for section, values in self.model_dump().items():
            lines += [f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in values.items()), ""]
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        write_text(path, self.to_toml())


def recipe_names() -> list[str]:
    """The recipes that ship with the package."""
    files = resources.files("transher.recipes").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def _recipe_text(name_or_file: str | Path) -> tuple[str, str]:
    path = Path(name_or_file)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InputError("there is no such recipe file.", file=path)
        return path.read_text("utf-8"), str(path)
    name = str(name_or_file)
    if name not in recipe_names():
        hint = (
            nearest(name, recipe_names()) or f"Shipped: {', '.join(recipe_names())}; or give a path that ends in .toml."
        )
        raise UsageError(f"there is no recipe '{name}'. {hint}")
    return resources.files("transher.recipes").joinpath(f"{name}.toml").read_text("utf-8"), name


def setting_names() -> list[str]:
    """Every setting, as --set spells it."""
    return [f"{section}.{key}" for section, values in Recipe().model_dump().items() for key in values]


def _suggest(key: str) -> str:
    by_last_word = {name.partition(".")[2]: name for name in setting_names()}
    last = key.rpartition(".")[2]
    if last in by_last_word:
        return f"Did you mean '{by_last_word[last]}'?"
    return nearest(key, setting_names()) or f"Known: {', '.join(setting_names())}"


def _explain(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"there is no setting '{key}'. {_suggest(key)}"
    reason = (
        str(error["ctx"]["error"]) if error["type"] == "value_error" else error["msg"][0].lower() + error["msg"][1:]
    )
    given = "" if isinstance(error["input"], dict | Section) else f" = {error['input']!r}"
    return f"{key}{given}: {reason}" if key else reason


def _value(text: str) -> Any:
    """A TOML value, or the text itself where it is a bare word."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)
