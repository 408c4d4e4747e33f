from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import call


def test_a_report_replaces_an_earlier_report_and_nothing_else(runs: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "holiday.png").write_bytes(b"precious")
    refused = call("analyze", runs[0], "--out", out)
    assert refused.exit_code == 2
    assert "holiday.png" in refused.stderr
    (out / "report.html").write_text("<h1>Our annual report</h1>")
    refused = call("analyze", runs[0], "--out", out)
    assert refused.exit_code == 2
    assert "is no report of this command" in refused.stderr
    assert [path.name for path in sorted(out.iterdir())] == ["holiday.png", "report.html"]
    for _ in range(2):
        assert call("analyze", runs[0], "--out", tmp_path / "own").exit_code == 0
