"""Requests made up from the API's own description: whatever comes, the server answers as it says it does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.serving.process import Server

schemathesis = pytest.importorskip("schemathesis")


def test_made_up_requests_get_the_documented_answers(server: Server) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/api/openapi.json")
    operations = [operation.ok() for operation in schema.get_all_operations()]
    assert len(operations) > 10
    for operation in operations:
        _try(operation)


def _try(operation: Any) -> None:
    # Without shrinking, so that the time is bounded.
    @settings(
        max_examples=8, suppress_health_check=list(HealthCheck), database=None,
        phases=[Phase.explicit, Phase.generate],
    )  # fmt: skip
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        if "run" in (case.path_parameters or {}):
            case.path_parameters["run"] = "tiny"  # a made-up run would be all that is ever refused
        response = case.call(timeout=300)
        assert response.status_code < 500 or response.status_code == 503, response.text
        # That exactly two of head, relation and tail ask a question is more than a description can say.
        case.validate_response(response, excluded_checks=[schemathesis.checks.positive_data_acceptance])

    check()
