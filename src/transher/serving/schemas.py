"""What the API answers, in pydantic, from which the OpenAPI document is made."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from transher.graph.graph import Side

NAME_LENGTH = 500
TOP = 100
BATCH = 64

Name = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH, description="Identifier or name.")]
MissingShare = Annotated[
    float | None,
    Field(
        gt=0,
        lt=1,
        description="Which share of what holds the graph lacks; without it, as much as was held out for validation.",
    ),
]


class Problem(BaseModel):
    """Why a request was not answered."""

    reason: str
    suggestions: list[str] = []


class Entity(BaseModel):
    identifier: str
    name: str
    description: str | None = None
    degree: int = Field(description="Facts that it takes part in.")


class Relation(BaseModel):
    identifier: str
    name: str
    type: str = Field(description="1-to-1, 1-to-N, N-to-1 or N-to-N, of heads to tails.")
    triples: int


class Found(BaseModel):
    entities: list[Entity]
    relations: list[Relation]


class FactView(BaseModel):
    """A triple with what the model thinks of it."""

    head: Entity
    relation: Relation
    tail: Entity
    score: float | None
    probability: float | None = Field(
        None, description="That the triple holds; null where nothing was held out to learn it from."
    )
    known: bool
    verdict: Literal["right", "wrong"] | None = Field(None, description="What somebody said of it.")


class Answers(BaseModel):
    run: str
    asked: Literal["head", "relation", "tail"]
    answers: list[FactView]
    milliseconds: float = Field(description="Time that the model took.")
    partial: bool = Field(False, description="Whether only pairs of the best connected entities were looked at.")
    expected: float | None = Field(
        None, description="Of an entity: how many facts about it are expected to be missing."
    )


class FactsOfRelation(BaseModel):
    relation: Relation
    side: Side = Field(description="The end at which the others stand.")
    count: int
    others: list[Entity]


class EntityView(BaseModel):
    entity: Entity
    facts: list[FactsOfRelation]


class Similar(BaseModel):
    entity: Entity
    similarity: float = Field(description="Cosine of the embeddings.")


class Pattern(BaseModel):
    kind: Literal["symmetric", "inverse", "duplicate", "composed"]
    premises: list[Relation]
    conclusion: Relation
    support: int
    confidence: float


class RelationView(BaseModel):
    relation: Relation
    heads: int
    tails: int
    patterns: list[Pattern]
    strip: list[float] | None = Field(description="The translation B, pooled; null where the model has none.")
    strip_width: int = Field(description="Coordinates in the whole translation.")
    quality: dict[str, Any] | None = Field(description="Metrics on the test triples; null where there were none.")
    examples: list[FactView]


class RunView(BaseModel):
    key: str
    graph: str
    model: str = Field(description="What it answers by; of a blend, all members.")
    dimension: int = Field(description="Of the embeddings of a single model; 0 for rules and for blends.")
    entities: int
    relations: int
    triples: int
    finished: bool
    calibrated: bool
    quality: dict[str, Any] | None
    prominent: list[Entity]
    questions: list[FactView]


class Health(BaseModel):
    status: Literal["ok"]
    version: str
    runs: list[str]


class Readiness(BaseModel):
    waiting: int
    capacity: int


class MapView(BaseModel):
    """Points of the map, as columns: position, colour (an index into `groups`, or a number) and entity."""

    x: list[float]
    y: list[float]
    colour: list[float]
    groups: list[str]
    degree: list[int]
    identifiers: list[str]
    names: list[str]
    method: Literal["neighbours", "components"] = Field(
        description="A neighbour embedding (t-SNE), or two principal components."
    )
    explained: float | None = Field(description="Share of the variance that two principal components hold.")
    sampled: bool


class Place(BaseModel):
    entity: Entity
    x: float
    y: float


class VerdictView(BaseModel):
    """What somebody said of a fact: names, identifiers, verdict and day."""

    head: str
    relation: str
    tail: str
    head_id: str
    relation_id: str
    tail_id: str
    verdict: Literal["right", "wrong"]
    date: str


class Marking(BaseModel):
    """A fact, and what is said of it; null takes back what was said."""

    model_config = ConfigDict(extra="forbid")
    head: Name
    relation: Name
    tail: Name
    verdict: Literal["right", "wrong"] | None


class Query(BaseModel):
    """Two of head, relation and tail ask for the third; all three are scored."""

    model_config = ConfigDict(extra="forbid")
    head: Name | None = None
    relation: Name | None = None
    tail: Name | None = None
    top: int = Field(10, ge=1, le=TOP)
    known: Literal["hide", "mark"] = "mark"
    missing_share: MissingShare = None


class Batch(BaseModel):
    model_config = ConfigDict(extra="forbid")
    queries: list[Query] = Field(min_length=1, max_length=BATCH)


class BatchResult(BaseModel):
    answers: list[Answers | Problem]
