"""The page: plain files beside this one, served as they are. There is no build step and nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).parent


class _Files(StaticFiles):
    """What a browser keeps it asks about again, so that a newer version of the package is seen at once."""

    def file_response(self, *arguments: object, **named: object) -> Response:
        response = super().file_response(*arguments, **named)  # type: ignore[arg-type]
        response.headers["cache-control"] = "no-cache"
        return response


def serve_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(FOLDER / "index.html", headers={"cache-control": "no-cache"})

    @app.get("/api/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        """The API to try out: it holds no data, and asks for the token itself."""
        return FileResponse(FOLDER / "docs.html", headers={"cache-control": "no-cache"})

    app.mount("/static", _Files(directory=FOLDER / "static"), name="static")
