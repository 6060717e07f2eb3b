"""Write recorded races as a static site: pages, scripts and data that need no server."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from spork_demo import trace_file
from spork_demo.language import LANGUAGES, speaking
from spork_demo.trace import Race
from spork_demo.trace_file import TraceError
from spork_demo.ui import player
from spork_demo.ui.plotly_view import LIBRARY


class ExportError(Exception):
    """The site cannot be written. The message is one sentence."""


def export_site(traces: Path, folder: Path) -> tuple[int, int]:
    """The races of `traces` as a site in `folder`; returns how many races and bytes it holds.

    What else lies in `folder` stays. Raises ExportError.
    """
    try:
        races = [(path.stem, trace_file.loads(path.read_bytes())) for path in _files(traces)]
        _write(folder, races)
    except (TraceError, OSError) as error:
        raise ExportError(str(error)) from error
    return len(races), sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _files(traces: Path) -> list[Path]:
    found = sorted(traces.glob("*.json"))
    if not found:
        raise ExportError(f"There are no recorded races in {traces}.")
    return found


def _write(folder: Path, races: Sequence[tuple[str, Race]]) -> None:
    for name in ("assets", "traces", *(f"data/{code}" for code in LANGUAGES)):
        (folder / name).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(LIBRARY, folder / "assets" / "plotly.min.js")
    shutil.copyfile(LIBRARY.parent / "plotly-LICENSE", folder / "assets" / "plotly-LICENSE")
    _text(folder / "assets" / "site.css", player.style())
    _text(folder / "assets" / "site.js", player.script())
    for name, race in races:
        _text(folder / "traces" / f"{name}.json", trace_file.dumps(race))
    titles = [(name, race.title or race.lanes[0].prompt[:60]) for name, race in races]
    for code, page in player.FILES.items():
        with speaking(code):
            _text(folder / page, player.page(titles))
            for name, race in races:
                data = player.packed(name, player.race_data(race))
                _text(folder / "data" / code / f"{name}.js", data)


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
