"""The real page on a fake host, for browser tests: `python tests/browser/fake_app.py --port 7999`.

No model and no torch; recorded lanes are replayed as if they were decoded live.
"""

import argparse
import contextlib
import os
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from prometheus_client import CollectorRegistry  # noqa: E402

from spork_demo import language  # noqa: E402
from spork_demo.gauges import observe  # noqa: E402
from spork_demo.host import Status  # noqa: E402
from spork_demo.line import Line  # noqa: E402
from spork_demo.observed import ObservedHost  # noqa: E402
from spork_demo.server import log_json_lines, routes, serve  # noqa: E402
from spork_demo.trace_file import read_races  # noqa: E402
from spork_demo.ui.page import build_page, launch_options, queue_options  # noqa: E402
from tests.browser import served_lanes  # noqa: E402
from tests.sample_race import (  # noqa: E402
    COSTS,
    DSPARK_PAIR,
    LIMITS,
    PAIR,
    PRESETS,
    FakeHost,
    dspark_race,
    sample_race,
    with_texts,
)

HOSTILE = (
    "<b>bold</b>", "&amp;", '"', "${1+1}", "{{x}}", "\t", "  two", "\n", "`",
    "<img src=x onerror='window.hacked=1'>", "<script>window.hacked=1</script>", "\\u0041",
)  # fmt: skip


def end_untranslated(text: str, code: str) -> None:
    """A sentence without a translation ends the app, and with it the test that met it."""
    sys.stderr.write(f"nothing in {code} for {text!r}\n")
    sys.stderr.flush()
    os._exit(1)


def main() -> None:
    language.missing = end_untranslated
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--gap", type=float, default=0.004, help="seconds between events")
    parser.add_argument("--hostile", action="store_true", help="tokens are markup")
    parser.add_argument("--loading", action="store_true", help="the model never gets ready")
    parser.add_argument("--late", type=float, help="the model is ready after so many seconds")
    parser.add_argument("--lesson", action="store_true", help="shipped races, and measured costs")
    parser.add_argument("--dspark", action="store_true", help="the pair has a DSpark drafter")
    parser.add_argument("--observed", action="store_true", help="served as app.py serves")
    parser.add_argument("--served", action="store_true", help="three servers can decode lanes")
    options = parser.parse_args()
    texts = HOSTILE if options.hostile else ()
    host = FakeHost(gap=options.gap, texts=texts)
    if options.loading:
        host.state = Status("Fetching the model", done_bytes=34_000_000, total_bytes=93_000_000)
    if options.dspark:
        host.offers = (DSPARK_PAIR, PAIR)
    if options.late:
        host.state = Status("Fetching the model")
        ready = Status("The model is ready.", ready=True)
        threading.Timer(options.late, lambda: setattr(host, "state", ready)).start()
    if options.lesson:
        host.measured = COSTS
    race = dspark_race() if options.dspark else sample_race()
    if options.hostile:
        lanes = tuple(with_texts(lane, HOSTILE) for lane in race.lanes)
        race = type(race)("<img src=x onerror='window.hacked=1'>", lanes, recorded=True)
    presets, stack = PRESETS, contextlib.ExitStack()  # kept, or the servers would go with it
    if options.served:
        host = served_lanes.with_servers(host, stack, texts)
        presets = (*PRESETS, *served_lanes.PRESETS)
    registry = CollectorRegistry()
    observed = ObservedHost(host, registry)
    races = read_races(ROOT / "assets" / "traces") if options.lesson else [race]
    line = Line(LIMITS.queues)
    page = build_page(observed, LIMITS, presets, races, line)
    page.queue(**queue_options(LIMITS))
    observe(page, line, registry)
    launch = launch_options(LIMITS) | {"server_port": options.port, "quiet": True}
    if options.observed:
        log_json_lines()
        launch["app_kwargs"]["routes"] = routes(observed, registry)
        serve(page, observed, launch, line)
    else:
        page.launch(**launch)


if __name__ == "__main__":
    main()
