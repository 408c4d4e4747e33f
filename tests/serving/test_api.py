"""The API as a client sees it, in a real process."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.serving.process import Server, httpx

if TYPE_CHECKING:
    from httpx import Client

RUN = "runs/tiny"


def test_health_names_the_runs(client: Client) -> None:
    assert client.get("health").json()["runs"] == ["tiny", "other"]


def test_two_folders_of_one_name_have_two_keys(world_run: Path) -> None:
    from transher.serving.server import load_explorers

    assert list(load_explorers([world_run, world_run])) == ["tiny", "tiny-2"]


def test_a_run_shows_its_size_and_where_to_start(client: Client) -> None:
    run = client.get("runs").json()[0]
    assert run["graph"] == "world"
    assert run["entities"] > 2000
    assert run["calibrated"]
    assert run["prominent"]
    assert run["questions"]


@pytest.mark.parametrize("text", ["France", "fran", "FRANCE", "frnace", "country/FR"])
def test_a_name_is_found_however_it_is_typed(client: Client, text: str) -> None:
    found = client.get(f"{RUN}/search", params={"text": text}).json()
    assert found["entities"][0]["name"] == "France"


def test_accents_need_not_be_typed(client: Client) -> None:
    assert client.get(f"{RUN}/search", params={"text": "sao paulo"}).json()["entities"][0]["name"] == "São Paulo"


def test_an_entity_has_its_known_facts(client: Client) -> None:
    view = client.get(f"{RUN}/entity", params={"name": "France", "each": 500}).json()
    borders = next(g for g in view["facts"] if g["relation"]["name"] == "borders" and g["side"] == "tail")
    assert "Spain" in [other["name"] for other in borders["others"]]
    assert borders["count"] == len(borders["others"])


def test_predicted_facts_are_not_known_and_come_best_first(client: Client) -> None:
    answers = client.get(f"{RUN}/entity/predicted", params={"name": "France"}).json()["answers"]
    assert answers
    assert not any(fact["known"] for fact in answers)
    chances = [fact["probability"] for fact in answers]
    assert chances == sorted(chances, reverse=True)
    assert all("France" in (fact["head"]["name"], fact["tail"]["name"]) for fact in answers)


def test_similar_entities_leave_the_entity_out(client: Client) -> None:
    similar = client.get(f"{RUN}/entity/similar", params={"name": "France", "top": 5}).json()
    assert len(similar) == 5
    assert "France" not in [row["entity"]["name"] for row in similar]


def test_answers_over_http_are_those_of_the_run(client: Client, world_run: Path) -> None:
    from transher import load

    expected = load(world_run).predict(head="France", relation="borders", top=10)
    query: dict[str, str | int] = {"head": "France", "relation": "borders", "top": 10}
    answers = client.get(f"{RUN}/predict", params=query).json()["answers"]
    assert [fact["tail"]["name"] for fact in answers] == expected["tail"].tolist()
    assert [fact["known"] for fact in answers] == expected["known"].tolist()
    assert [fact["score"] for fact in answers] == pytest.approx(expected["score"].tolist(), abs=1e-5)
    assert [fact["probability"] for fact in answers] == pytest.approx(expected["probability"].tolist(), abs=1e-5)


def test_an_entity_is_no_answer_to_a_question_about_itself(client: Client, world_run: Path) -> None:
    import torch

    from transher import load

    run = load(world_run)
    relation = run.graph.relations.find("near")
    everyone = torch.arange(len(run.graph.entities))
    scores = run.scorer.scores(everyone, torch.full_like(everyone, relation), "tail")
    better = (scores > scores[everyone, everyone, None]).sum(1)
    name = run.graph.entities.identifiers[int(better.argmin())].as_py()
    assert better.min() < 100  # the score alone would have it among the answers

    query = {"head": name, "relation": "near", "top": 100}
    answers = client.get(f"{RUN}/predict", params=query).json()["answers"]
    assert len(answers) == 100
    assert name not in [fact["tail"]["identifier"] for fact in answers]


def test_the_missing_share_over_http_is_that_of_the_run(client: Client, world_run: Path) -> None:
    from transher import load

    run = load(world_run)
    questions: list[dict[str, Any]] = [{"head": "France", "relation": "borders"}, {"head": "France", "tail": "Europe"}]
    for question in questions:
        for missing_share in (0.001, 0.9):
            expected = run.predict(**question, missing_share=missing_share)["probability"].tolist()
            query = question | {"missing_share": missing_share}
            (batch,) = client.post(f"{RUN}/batch", json={"queries": [query]}).json()["answers"]
            for found in (client.get(f"{RUN}/predict", params=query).json(), batch):
                assert [fact["probability"] for fact in found["answers"]] == pytest.approx(expected, abs=1e-6)
    triple = {"head": "France", "relation": "borders", "tail": "Spain"}
    expected = run.probabilities([tuple(triple.values())], missing_share=0.9)[0]
    query = triple | {"missing_share": 0.9}
    scored = client.get(f"{RUN}/score", params=query).json()["answers"][0]
    assert scored["probability"] == pytest.approx(expected, abs=1e-6)
    assert client.get(f"{RUN}/explain", params=query).json()["probability"] == pytest.approx(expected, abs=1e-6)


def test_questions_of_one_batch_keep_their_own_missing_shares(client: Client) -> None:
    queries = [{"head": "France", "relation": "borders", "missing_share": share} for share in (1e-9, None, 0.9)]
    answers = client.post(f"{RUN}/batch", json={"queries": queries}).json()["answers"]
    low, plain, high = (answer["answers"][0]["probability"] for answer in answers)
    assert low < plain < high


@pytest.mark.parametrize("missing_share", ["0", "1", "-0.5", "7", "nan", "inf", "some"])
def test_a_missing_share_lies_between_nothing_and_everything(client: Client, missing_share: str) -> None:
    triple = {"head": "France", "relation": "borders", "tail": "Spain"}
    for path, query in (("predict", {"head": "France", "relation": "borders"}), ("score", triple), ("explain", triple)):
        response = client.get(f"{RUN}/{path}", params=query | {"missing_share": missing_share})
        assert response.status_code == 422
        assert "missing_share" in response.json()["reason"]
    assert client.post(f"{RUN}/batch", json={"queries": [triple | {"missing_share": missing_share}]}).status_code == 422


def test_heads_and_relations_can_be_asked_for(client: Client) -> None:
    heads = client.get(f"{RUN}/predict", params={"relation": "uses_currency", "tail": "Euro (EUR)", "known": "hide"})
    assert heads.json()["asked"] == "head"
    assert not any(fact["known"] for fact in heads.json()["answers"])
    relations = client.get(f"{RUN}/predict", params={"head": "France", "tail": "Europe"}).json()
    assert relations["asked"] == "relation"
    assert len(relations["answers"]) == 9


def test_a_relation_has_type_patterns_strip_and_quality(client: Client) -> None:
    view = client.get(f"{RUN}/relation", params={"name": "borders"}).json()
    assert view["relation"]["type"] == "N-to-N"
    assert "symmetric" in [pattern["kind"] for pattern in view["patterns"]]
    assert len(view["strip"]) == 16
    assert 0 <= view["quality"]["mrr"] <= 1


def test_missing_facts_are_new_and_can_be_downloaded(client: Client) -> None:
    query: dict[str, str | int] = {"name": "borders", "top": 30}
    answers = client.get(f"{RUN}/relation/missing", params=query).json()["answers"]
    assert len(answers) == 30
    assert not any(fact["known"] or fact["head"] == fact["tail"] for fact in answers)
    table = client.get(f"{RUN}/relation/missing.tsv", params=query)
    assert table.headers["content-disposition"].startswith("attachment")
    lines = table.text.splitlines()
    assert len(lines) == 31
    assert {line.count("\t") for line in lines} == {8}


def test_evidence_for_a_fact(client: Client) -> None:
    triple = {"head": "France", "relation": "borders", "tail": "Portugal"}
    evidence = client.get(f"{RUN}/explain", params=triple).json()
    assert evidence["rules"]
    assert evidence["known"] is False


def test_a_batch_answers_what_it_can(client: Client) -> None:
    queries = [
        {"head": "France", "relation": "borders", "top": 3},
        {"head": "Nowhere at all", "relation": "borders"},
        {"head": "France", "relation": "borders", "tail": "Spain"},
    ]
    first, second, third = client.post(f"{RUN}/batch", json={"queries": queries}).json()["answers"]
    assert len(first["answers"]) == 3
    assert "Nowhere" in second["reason"]
    assert third["answers"][0]["known"]


@pytest.mark.parametrize("colour", ["type", "community", "degree"])
def test_the_map_has_a_place_for_everyone(client: Client, colour: str) -> None:
    # The first map of a run is computed; a busy machine asks for patience, as it would any client.
    while (answer := client.get(f"{RUN}/map", params={"colour": colour})).status_code == 503:
        time.sleep(int(answer.headers["retry-after"]))
    points = answer.json()
    assert len(points["x"]) == len(points["y"]) == len(points["colour"]) == len(points["names"])
    if colour != "degree":
        assert max(points["colour"]) == len(points["groups"]) - 1
    place = client.get(f"{RUN}/map/place", params={"name": "France"}).json()
    at = points["names"].index("France")
    assert (place["x"], place["y"]) == pytest.approx((points["x"][at], points["y"][at]), abs=1e-4)


def test_metrics_count_the_requests(client: Client) -> None:
    client.get("health")
    text = client.get("metrics").text
    assert 'transher_requests_total{route="/api/health",status="200"}' in text
    assert "transher_waiting_requests" in text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("runs/nothing/search?text=a", 404),
        (f"{RUN}/entity?name=Nowhere", 404),
        (f"{RUN}/entity?name=../../etc/passwd", 404),
        (f"{RUN}/entity", 422),
        (f"{RUN}/predict?head=France", 422),
        (f"{RUN}/predict?head=France&relation=borders&top=100000", 422),
        (f"{RUN}/search?text={'a' * 600}", 422),
        ("no/such/path", 404),
    ],
)
def test_what_cannot_be_answered_says_why_in_json(client: Client, path: str, status: int) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert response.json()["reason"]


def test_a_question_about_nobody_says_so(client: Client) -> None:
    assert client.get(f"{RUN}/predict", params={"head": "Nobody at all", "relation": "borders"}).status_code == 404


def test_an_unknown_name_comes_with_suggestions(client: Client) -> None:
    assert "France" in client.get(f"{RUN}/entity", params={"name": "Frnace"}).json()["suggestions"]


def test_a_body_has_bounds(client: Client) -> None:
    assert client.post(f"{RUN}/batch", content=b"x" * 400_000).status_code == 413
    too_many = {"queries": [{"head": "France", "relation": "borders"}] * 65}
    assert client.post(f"{RUN}/batch", json=too_many).status_code == 422
    assert client.post(f"{RUN}/batch", content=b"{").status_code == 422


def test_every_answer_has_the_security_headers(client: Client, server: Server) -> None:
    for url in ("health", "no/such/path", f"{server.url}/", f"{server.url}/static/app.js"):
        headers = client.get(url).headers
        assert "unsafe" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers


def test_another_host_name_is_refused(client: Client) -> None:
    assert client.get("runs", headers={"host": "elsewhere.example"}).status_code == 421


@pytest.mark.parametrize("path", ["/static/../__init__.py", "/static/%2e%2e/__init__.py", "/static//etc/passwd"])
def test_no_file_but_the_pages_own_is_served(server: Server, path: str) -> None:
    assert httpx.get(server.url + path, timeout=300).status_code == 404


def test_a_token_is_asked_for_where_there_is_one(world_run: Path) -> None:
    from transher.serving.api import create_app
    from transher.serving.server import load_explorers

    app = create_app(load_explorers([world_run]), token="a long secret", loopback_only=False)

    async def statuses(**headers: str) -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://machine.example", headers=headers
        ) as session:
            paths = ("/api/health", "/", "/api/runs", "/api/openapi.json", "/api/metrics")
            return [(await session.get(path)).status_code for path in paths]

    assert asyncio.run(statuses()) == [200, 200, 401, 401, 401]
    assert asyncio.run(statuses(authorization="Bearer another secret")) == [200, 200, 401, 401, 401]
    assert asyncio.run(statuses(authorization="Bearer a long secret")) == [200, 200, 200, 200, 200]


@pytest.mark.parametrize(
    ("host", "token"), [("0.0.0.0", None), ("192.168.1.5", None), ("::", None), ("127.0.0.1", "x")]
)
def test_an_address_that_others_reach_needs_a_good_token(host: str, token: str | None) -> None:
    from transher.errors import UsageError
    from transher.serving.server import Settings

    with pytest.raises(UsageError):
        Settings(host, 8085, token)


def test_answers_are_strict_json(client: Client) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for path in (f"{RUN}/predict?head=France&relation=borders", f"{RUN}/map"):
        json.loads(client.get(path).text, parse_constant=refuse)


def test_what_is_said_of_a_fact_is_kept_shown_and_taken_back(client: Client) -> None:
    fact = client.get(f"{RUN}/entity/predicted", params={"name": "Kenya", "top": 1}).json()["answers"][0]
    triple = {part: fact[part]["identifier"] for part in ("head", "relation", "tail")}
    said = client.post(f"{RUN}/verdicts", json=triple | {"verdict": "wrong"})
    assert said.status_code == 200
    assert said.json()[-1]["verdict"] == "wrong"
    assert client.get(f"{RUN}/score", params=triple).json()["answers"][0]["verdict"] == "wrong"
    again = client.get(f"{RUN}/entity/predicted", params={"name": "Kenya", "top": 1}).json()["answers"][0]
    assert (again["head"], again["relation"], again["tail"]) != (fact["head"], fact["relation"], fact["tail"])
    assert client.get(f"{RUN}/verdicts.tsv").text.startswith("head\trelation\ttail")
    assert client.post(f"{RUN}/verdicts", json=triple | {"verdict": None}).json() == []


def test_a_page_of_another_server_cannot_mark_anything(client: Client) -> None:
    body = {"head": "Kenya", "relation": "borders", "tail": "Peru", "verdict": "right"}
    refused = client.post(f"{RUN}/verdicts", json=body, headers={"sec-fetch-site": "cross-site"})
    assert refused.status_code == 403
    assert client.get(f"{RUN}/verdicts").json() == []


def test_how_many_facts_of_an_entity_are_expected_is_the_sum_of_probabilities(client: Client) -> None:
    found = client.get(f"{RUN}/entity/predicted", params={"name": "France", "top": 100}).json()
    assert found["expected"] >= sum(fact["probability"] for fact in found["answers"]) - 0.01
