"""What can be set: the sections of a recipe, with types, bounds, defaults and a description of each setting."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator, model_validator

from transher.errors import UsageError
from transher.models.catalogue import DEFAULT_MODEL, build_model, model_class, own_settings


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True, protected_namespaces=(), allow_inf_nan=False)


class ModelSettings(Section):
    """The score function and how its tables are initialised. A model may have settings of its own besides these."""

    name: str = Field(DEFAULT_MODEL, description="name of a model, or package.module:Class for one of your own")
    k: int = Field(256, ge=1, description="dimension; complex models have k complex coordinates")
    gamma: float = Field(6.0, description="margin γ; also sets the range of a uniform initialisation")
    init: str = Field("U_N_N", description="initialisation of E, G and B: U for uniform, N for normal")
    xavier: Literal["code", "paper"] = Field(
        "code", description="standard deviation of a normal initialisation: that of the authors' code or of the paper"
    )
    start_at_margin: bool = Field(
        False, description="scale the initial relations such that random triples are at distance γ"
    )
    reciprocal: bool = Field(False, description="ask (?, r, t) as (t, r⁻¹, ?), with separate rows for r⁻¹")

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            model_class(name)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return name

    @field_validator("init")
    @classmethod
    def _strategy(cls, init: str) -> str:
        from transher.models.initialisation import STRATEGIES  # with torch, which a recipe's model brings in any case

        if init not in STRATEGIES:
            raise ValueError(f"takes one of {', '.join(STRATEGIES)}")
        return init

    @model_validator(mode="after")
    def _fits_the_model(self) -> ModelSettings:
        try:
            build_model(self)
        except UsageError as error:
            raise ValueError(str(error)) from error
        if self.start_at_margin and not model_class(self.name).only_direction:
            raise ValueError(f"model.start_at_margin does not work with {self.name}, where an entity's length counts")
        return self

    @property
    def own(self) -> dict[str, Any]:
        """Settings that this model has and others have not."""
        return {key: getattr(self, key) for key in type(self).model_fields if key not in ModelSettings.model_fields}


class TrainingSettings(Section):
    """The loss, its negatives, and the optimiser."""

    steps: int = Field(10_000, ge=1, description="number of training steps")
    batch: int = Field(
        1024, ge=1, description="positives per step; with negatives = all on average, since a query is never cut"
    )
    negatives: int | Literal["all"] = Field(
        256,
        description="negatives per positive; all for a cross-entropy over every entity, all answers of a query at once",
    )
    pools: int | Literal["each"] = Field(
        1, description='sets of negatives per batch, each for a part of its positives; "each" for one per positive'
    )
    typed: bool = Field(False, description="draw negatives of the same type as the entity that they replace")
    filter_known: bool = Field(True, description="known training triples do not count as negatives")
    loss: str = Field(
        "self-adversarial", description="self-adversarial, cross-entropy, margin, or package.module:function"
    )
    sampled_softmax: bool = Field(
        False, description="cross-entropy only: the negatives count for all the entities that they were drawn from"
    )
    alpha: float = Field(1.0, ge=0, description="temperature α of the self-adversarial weights")
    margin: float = Field(1.0, gt=0, description="margin of the margin-ranking loss")
    weighting: Literal["frequency", "query", "none"] = Field(
        "frequency", description="w = 1/√(c(h,r) + c(r,t)); 1/√c of the query, which is (h,r) or (r,t); or 1"
    )
    count_offset: int = Field(3, ge=0, description="number added to each count c: 3, or 4 in the OGB code")
    optimizer: Literal["sparse-adam", "adam", "adagrad", "row-adagrad"] = Field(
        "sparse-adam",
        description="sparse-adam updates only the rows of the step, adam all rows; row-adagrad has one number per row",
    )
    lr: float = Field(1e-3, gt=0, description="learning rate")
    relation_rate: float = Field(
        1.0, gt=0, description="multiplier of the learning rate for relations: a smaller one overfits less"
    )
    schedule: Literal["constant", "step", "linear", "cosine", "plateau"] = Field(
        "linear",
        description="of the learning rate. step: a tenth from half of the steps on, with the optimiser reset. plateau: "
        "a third from the best weights on, each time that validation stops improving",
    )
    warmup: int = Field(0, ge=0, description="steps over which the learning rate rises from 0")
    translation_l2: float = Field(5e-5, ge=0, description="λ of λ‖B‖²_F")
    n3: float = Field(0.0, ge=0, description="weight of the cubed 3-norms of the batch's embeddings")
    relation_prediction: float = Field(
        0.0, ge=0, description="with negatives = all: weight of predicting the relation of a (head, tail) among all"
    )
    precision: Literal["float32", "tf32", "bfloat16"] = Field(
        "float32",
        description="with negatives = all: of matrix products. bfloat16 is faster on processors that have it, and on "
        "GPUs; tf32 is faster on GPUs, and float32 on the CPU",
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="share of the difference vector that is dropped")
    gradient_share: float = Field(
        1.0,
        gt=0,
        le=1,
        description="share of the negatives' gradients that is followed: the largest, and an unbiased draw",
    )
    unit_entities: bool = Field(
        False, description="normalise entities to length 1 after each step; otherwise they grow and turn less and less"
    )
    averaging: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of the steps so far over which weights are averaged; 0 for the latest weights",
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "auto", description="what computes; auto for a GPU if there is one. --device overrides it"
    )
    parts: int = Field(
        1,
        ge=1,
        le=4096,
        description="ranges of ids that a training is cut into, at least as many as workers: weights depend on their "
        "number, and not on the number of workers",
    )
    seed: int = Field(0, ge=0, description="seed of every random draw")

    @field_validator("pools", mode="before")
    @classmethod
    def _number_or_each(cls, pools: Any) -> Any:
        if pools != "each" and not (type(pools) is int and pools >= 1):
            raise ValueError("takes a whole number greater than or equal to 1, or each")
        return pools

    @field_validator("negatives", mode="before")
    @classmethod
    def _number_or_all(cls, negatives: Any) -> Any:
        if negatives != "all" and not (type(negatives) is int and negatives >= 1):
            raise ValueError("takes a whole number greater than or equal to 1, or all")
        return negatives

    @field_validator("loss")
    @classmethod
    def _known_loss(cls, loss: str) -> str:
        from transher.training.loss import find_loss  # with torch, which a recipe's model brings in any case

        try:
            find_loss(loss)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return loss

    @model_validator(mode="after")
    def _fits_together(self) -> TrainingSettings:
        if self.sampled_softmax and (self.loss != "cross-entropy" or self.typed):
            raise ValueError("training.sampled_softmax works with training.loss = cross-entropy and without types")
        if self.typed and self.pools not in (1, "each"):
            raise ValueError("training.pools = 1 or each works with training.typed, and no other number")
        if self.negatives == "all":
            self._fits_all_negatives()
        if self.parts > 1 and self.negatives == "all":
            raise ValueError("training.parts works with a number of training.negatives, such as 256, and not with all")
        return self

    def _fits_all_negatives(self) -> None:
        if self.loss != "cross-entropy":
            raise ValueError(
                "training.negatives = all works with training.loss = cross-entropy: otherwise give a number"
            )
        for name, value in {"typed": False, "dropout": 0.0, "gradient_share": 1.0}.items():
            if getattr(self, name) != value:
                raise ValueError(f"training.negatives = all works with training.{name} = {str(value).lower()}")


class ValidationSettings(Section):
    """How often and on what a training is validated, and when it stops early."""

    every: int = Field(2_000, ge=1, description="steps between two validations")
    sample: int = Field(2_000, ge=0, description="number of validation triples, always the same ones; 0 for all")
    patience: int = Field(
        0,
        ge=0,
        description="validations without a better MRR before stopping, or before the learning rate drops with the "
        "schedule plateau; 0 for never",
    )
    checkpoint_minutes: float = Field(
        5.0, gt=0, description="wall-clock minutes between checkpoints; each validation makes one, too"
    )
    report_every: int = Field(100, ge=1, description="steps between two lines of history")
    record_gradients: bool = Field(False, description="record the spread of the gradients at the start of each epoch")


@cache
def model_settings(name: str) -> type[ModelSettings]:
    """The section [model] of one model: with the settings of its own."""
    kind = model_class(name)
    own: dict[str, Any] = own_settings(kind)
    taken = sorted(own.keys() & (ModelSettings.model_fields.keys() | {"own"}))
    if taken:
        raise UsageError(f"the model '{name}' calls a setting of its own '{taken[0]}', which every model has.")
    return create_model(f"{kind.__name__}Settings", __base__=ModelSettings, **own) if own else ModelSettings
