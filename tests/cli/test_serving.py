from __future__ import annotations

import pytest
from click.testing import CliRunner

from transher.cli.main import main


@pytest.mark.parametrize(("worker", "told"), [("0", True), ("1", False)])
def test_of_many_workers_that_serve_the_first_tells_the_address(
    monkeypatch: pytest.MonkeyPatch, worker: str, told: bool
) -> None:
    monkeypatch.setattr("transher.serving.server.serve", lambda *_: None)
    environment = {"TORCHELASTIC_RUN_ID": "run", "WORLD_SIZE": "2", "RANK": worker}
    found = CliRunner().invoke(main, ["serve", "run", "--port", "8765"], env=environment, catch_exceptions=False)
    assert found.exit_code == 0
    assert ("http://127.0.0.1:8765" in found.output) == told
