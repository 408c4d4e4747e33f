"""The HTTP API: one short function per path; what each does is in `explorer`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from transher.errors import TransherError, UnknownNameError
from transher.serving import schemas as s
from transher.serving.explorer import Explorer
from transher.serving.gathering import Gathering
from transher.serving.guard import Guard, TrustedProxies
from transher.serving.metrics import RequestCounters
from transher.serving.page import serve_page
from transher.serving.workers import BusyError, Workers
from transher.versions import version_of

# Reads the runs anew, in a thread: gives them, or None where other processes take over; a `TransherError` says why not.
Reload: TypeAlias = Callable[[], Mapping[str, Explorer] | None]

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": s.Problem, "description": "The request could be read in two ways."},
    401: {"model": s.Problem, "description": "The token is missing or wrong."},
    403: {"model": s.Problem, "description": "This server does not do that, or a page of another server asks for it."},
    404: {"model": s.Problem, "description": "There is no such run, entity or relation."},
    408: {"model": s.Problem, "description": "The body came too slowly."},
    409: {"model": s.Problem, "description": "It is being done already."},
    413: {"model": s.Problem, "description": "The body is too large."},
    421: {"model": s.Problem, "description": "The host is not this machine."},
    422: {"model": s.Problem, "description": "The request does not say what it should."},
    429: {"model": s.Problem, "description": "Too many of your own requests: see Retry-After."},
    503: {"model": s.Problem, "description": "Too much to do: try again after the seconds in Retry-After."},
}


def _text(media_type: str) -> dict[int | str, dict[str, Any]]:
    """An answer in text, whose refusals are JSON all the same."""
    return {200: {"content": {media_type: {"schema": {"type": "string"}}}}}


Name = Annotated[str, Query(min_length=1, max_length=s.NAME_LENGTH, description="Identifier or name.")]
OptionalName = Annotated[str | None, Query(min_length=1, max_length=s.NAME_LENGTH)]
Top = Annotated[int, Query(ge=1, le=s.TOP)]
RELOADING = "The runs are being read anew already."
MissingShare = Annotated[s.MissingShare, Query()]


async def chosen(
    request: Request, run: Annotated[str, Path(max_length=200, description="A key from /api/runs.")]
) -> Explorer:
    explorers = _served(request)
    if run not in explorers:
        raise UnknownNameError(f"There is no run {run!r}. There are {', '.join(explorers)}.", list(explorers))
    return explorers[run]


Chosen = Annotated[Explorer, Depends(chosen)]


async def own_page_only(request: Request) -> None:
    """What changes something is not for the pages of others, which a browser lets send requests to this machine."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise HTTPException(403, "Only the server's own page may change something.")


def create_app(
    explorers: Mapping[str, Explorer],
    *,
    token: str | None = None,
    loopback_only: bool = True,
    workers: Workers | None = None,
    trusted: TrustedProxies | None = None,
    counters: RequestCounters | None = None,
    reload: Reload | None = None,
) -> FastAPI:
    """The application for runs by their keys. With `loopback_only`, other hosts' names are refused. reload: how the
    runs are read anew on request, for those who have the token."""
    crew, metrics = workers or Workers(), counters or RequestCounters(route_paths())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        crew.stop()

    app = FastAPI(
        title="transher", version=version_of("transher"), description="Answers of trained knowledge-graph embeddings.",
        openapi_url="/api/openapi.json", docs_url=None, redoc_url=None, lifespan=lifespan,
    )  # fmt: skip
    app.state.explorers = explorers
    for router in (_general(crew, metrics), _reloading(reload if token else None), _of_a_run(crew)):
        app.include_router(router)
    _handle_errors(app)
    serve_page(app)
    app.add_middleware(GZipMiddleware, minimum_size=2048, compresslevel=4)
    app.add_middleware(
        Guard, metrics=metrics, token=token, loopback_only=loopback_only, trusted=trusted or TrustedProxies()
    )
    return app


def route_paths() -> list[str]:
    """The paths of the API, for counters that are made before the application."""
    crew = Workers(threads=1)
    routers = _general(crew, RequestCounters([])), _reloading(None), _of_a_run(crew)
    return [route.path for router in routers for route in router.routes if isinstance(route, APIRoute)]


def _served(request: Request) -> Mapping[str, Explorer]:
    explorers: Mapping[str, Explorer] = request.app.state.explorers
    return explorers


def _general(crew: Workers, metrics: RequestCounters) -> APIRouter:
    router = APIRouter(prefix="/api", responses={code: _PROBLEMS[code] for code in (401, 421, 429, 503)})

    @router.get("/health")
    async def health(request: Request) -> s.Health:
        """Whether the server answers, and for which runs. Needs no token."""
        return s.Health(status="ok", version=version_of("transher"), runs=list(_served(request)))

    @router.get("/ready")
    async def ready() -> s.Readiness:
        """Whether there is room for another question: what a load balancer asks. Needs no token."""
        if crew.pending >= crew.capacity:
            raise BusyError(f"{crew.pending} requests are waiting already: try again in a second.")
        return s.Readiness(waiting=crew.pending, capacity=crew.capacity)

    @router.get("/metrics", response_model=None, responses=_text("text/plain"))
    async def prometheus(request: Request) -> PlainTextResponse:
        """Counters and times in Prometheus' text format."""
        runs = len(_served(request))
        text = metrics.text({"waiting_requests": crew.pending, "worker_threads": crew.threads, "runs": runs})
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @router.get("/runs")
    async def runs(request: Request) -> list[s.RunView]:
        """The runs that are served, with their sizes, their quality and some places to start from."""
        return await crew.run(lambda: [explorer.view for explorer in _served(request).values()])

    return router


def _reloading(reload: Reload | None) -> APIRouter:
    router = APIRouter(prefix="/api", responses={code: _PROBLEMS[code] for code in (401, 403, 409, 421, 422, 429, 503)})
    under_way = asyncio.Lock()

    @router.post("/reload")
    async def reload_runs(request: Request) -> s.Health:
        """Read the run folders anew and answer from them from now on; questions under way are answered as before.
        Until then a folder that was replaced changes nothing. For servers that have a token."""
        if reload is None:
            raise HTTPException(403, "A server without a token does not reload: any page could ask it to.")
        if under_way.locked():
            raise HTTPException(409, RELOADING)
        async with under_way:
            fresh = await asyncio.to_thread(reload)
            if fresh is not None:
                request.app.state.explorers = fresh
        return s.Health(status="ok", version=version_of("transher"), runs=list(_served(request)))

    return router


def _of_a_run(crew: Workers) -> APIRouter:
    problems = {code: problem for code, problem in _PROBLEMS.items() if code not in (403, 409)}
    router = APIRouter(prefix="/api/runs/{run}", responses=problems)
    gatherings: dict[str, tuple[Explorer, Gathering[s.Query, str]]] = {}  # by run, as it was last read

    @router.get("/search")
    async def search(explorer: Chosen, text: Name, limit: Annotated[int, Query(ge=1, le=50)] = 10) -> s.Found:
        """Entities and relations by the beginning of their names, then by likeness."""
        return await crew.run(explorer.search, text, limit)

    @router.get("/entity")
    async def entity(explorer: Chosen, name: Name, each: Annotated[int, Query(ge=1, le=500)] = 12) -> s.EntityView:
        """An entity with its known facts, at most `each` of a relation."""
        return await crew.run(explorer.entity, name, each)

    @router.get("/entity/predicted")
    async def predicted(explorer: Chosen, name: Name, top: Top = 20) -> s.Answers:
        """The best facts about an entity that the graph lacks."""
        return await crew.run(explorer.predicted, name, top)

    @router.get("/entity/similar")
    async def similar(explorer: Chosen, name: Name, top: Top = 10) -> list[s.Similar]:
        """The entities with the nearest embeddings."""
        return await crew.run(explorer.similar, name, top)

    @router.get("/relations")
    async def relations(explorer: Chosen) -> list[s.Relation]:
        """Every relation with its type and how many triples it has."""
        return await crew.run(explorer.all_relations)

    @router.get("/relation")
    async def relation(explorer: Chosen, name: Name) -> s.RelationView:
        """A relation: type, patterns, translation, quality on the test triples, known facts."""
        return await crew.run(explorer.relation, name)

    @router.get("/relation/missing")
    async def missing(explorer: Chosen, name: Name, top: Annotated[int, Query(ge=1, le=1000)] = 20) -> s.Answers:
        """The most confident facts of a relation that the graph lacks."""
        return await crew.run(explorer.missing, name, top)

    @router.get("/relation/missing.tsv", response_model=None, responses=_text("text/tab-separated-values"))
    async def missing_table(
        explorer: Chosen, name: Name, top: Annotated[int, Query(ge=1, le=1000)] = 200
    ) -> PlainTextResponse:
        """The same as a table to download."""
        text = await crew.run(explorer.missing_table, name, top)
        headers = {"content-disposition": 'attachment; filename="missing-facts.tsv"'}
        return PlainTextResponse(text, media_type="text/tab-separated-values; charset=utf-8", headers=headers)

    @router.get("/predict", response_model=s.Answers)
    async def predict(
        explorer: Chosen, head: OptionalName = None, relation: OptionalName = None, tail: OptionalName = None,
        top: Top = 10, known: Literal["hide", "mark"] = "mark", missing_share: MissingShare = None,
    ) -> Response:  # fmt: skip
        """The best answers for the one of head, relation and tail that is not given."""
        if sum(part is not None for part in (head, relation, tail)) != 2:
            raise HTTPException(422, "Give two of head, relation and tail: the third is what is asked for.")
        query = s.Query(head=head, relation=relation, tail=tail, top=top, known=known, missing_share=missing_share)
        asked, gathering = gatherings.get(explorer.key, (None, None))
        if gathering is None or asked is not explorer:
            gathering = Gathering(crew, partial(_answer_all, explorer))
            gatherings[explorer.key] = explorer, gathering
        return Response(await gathering.ask(query), media_type="application/json")

    @router.get("/score")
    async def score(
        explorer: Chosen, head: Name, relation: Name, tail: Name, missing_share: MissingShare = None
    ) -> s.Answers:
        """What the model thinks of one triple."""
        return await crew.run(
            explorer.ask, s.Query(head=head, relation=relation, tail=tail, missing_share=missing_share)
        )

    @router.get("/explain")
    async def explain(
        explorer: Chosen, head: Name, relation: Name, tail: Name, missing_share: MissingShare = None
    ) -> dict[str, Any]:
        """What in the graph speaks for a triple, and what against it."""
        return await crew.run(explorer.explain, head, relation, tail, missing_share)

    @router.post("/batch")
    async def batch(explorer: Chosen, body: s.Batch) -> s.BatchResult:
        """Many questions at once; one that cannot be answered says why and does not stop the others."""

        def answer_all() -> s.BatchResult:
            return s.BatchResult.model_construct(answers=[_told(answer) for answer in explorer.ask_all(body.queries)])

        return await crew.run(answer_all)

    @router.get("/verdicts")
    async def verdicts(explorer: Chosen) -> list[s.VerdictView]:
        """What people said of facts."""
        return await crew.run(explorer.verdicts)

    @router.post("/verdicts", dependencies=[Depends(own_page_only)])
    async def mark(explorer: Chosen, body: s.Marking) -> list[s.VerdictView]:
        """Say of a fact that it is right or wrong, or take it back. It is kept in the run's folder."""
        return await crew.run(explorer.mark, body)

    @router.get("/verdicts.tsv", response_model=None, responses=_text("text/tab-separated-values"))
    async def verdict_table(explorer: Chosen) -> PlainTextResponse:
        """The same as a table to download."""
        text = await crew.run(explorer.verdict_table)
        headers = {"content-disposition": 'attachment; filename="verdicts.tsv"'}
        return PlainTextResponse(text, media_type="text/tab-separated-values; charset=utf-8", headers=headers)

    @router.get("/map", response_model=s.MapView)
    async def embeddings(explorer: Chosen, colour: Literal["type", "community", "degree"] = "type") -> Response:
        """Entities in the plane: near each other where their embeddings are."""
        text = await crew.run(lambda: explorer.map(colour).model_dump_json())
        return Response(text, media_type="application/json", headers={"cache-control": "private, max-age=60"})

    @router.get("/map/place")
    async def place(explorer: Chosen, name: Name) -> s.Place:
        """Where one entity lies on the map, drawn or not."""
        return await crew.run(explorer.place, name)

    return router


def _answer_all(explorer: Explorer, queries: Sequence[s.Query]) -> list[str | Exception]:
    """Answers as JSON, written by the thread that found them and not by the one that serves everybody."""
    answers = explorer.ask_all(queries)
    return [answer if isinstance(answer, Exception) else answer.model_dump_json() for answer in answers]


def _told(answer: s.Answers | Exception) -> s.Answers | s.Problem:
    if not isinstance(answer, Exception):
        return answer
    return s.Problem(reason=str(answer), suggestions=getattr(answer, "suggestions", []))


def _handle_errors(app: FastAPI) -> None:
    """Whatever goes wrong is JSON with a reason."""

    def problem(status: int, reason: str, suggestions: list[str] = [], **headers: str) -> JSONResponse:  # noqa: B006
        content = {"reason": reason, "suggestions": suggestions}
        return JSONResponse(content, status, {key.replace("_", "-"): value for key, value in headers.items()})

    @app.exception_handler(UnknownNameError)
    async def unknown(_: Request, error: UnknownNameError) -> JSONResponse:
        return problem(404, str(error), error.suggestions)

    @app.exception_handler(TransherError)
    async def wrong(_: Request, error: TransherError) -> JSONResponse:
        return problem(422, str(error))

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> JSONResponse:
        return problem(503, str(error), retry_after=str(error.retry_after))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        faults = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()[:5]]
        return problem(422, json.dumps("; ".join(faults), ensure_ascii=True)[1:-1])

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> JSONResponse:
        response = problem(error.status_code, str(error.detail))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> JSONResponse:
        return problem(500, f"The server failed: {type(error).__name__}.")
