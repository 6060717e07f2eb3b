"""Every limit of the Spacefile holds for every way in, and says which it is and what to do."""

import dataclasses
import functools
import time
from pathlib import Path

import pytest

from spork_demo.host import Status
from spork_demo.runtime import LocalHost
from spork_demo.settings import Settings
from spork_demo.spacefile import read_spacefile
from spork_demo.ui.api import Endpoints
from spork_demo.ui.calibrate_handlers import CalibrationDesk
from spork_demo.ui.explore_handlers import Explorer
from spork_demo.ui.handlers import Desk
from tests.sample_race import LIMITS, PRESETS, FakeHost
from tests.test_ui_entry import values

SPACEFILE = read_spacefile(Path(__file__).resolve().parent.parent / "Spacefile")
TIGHT = dataclasses.replace(
    LIMITS, prompt_characters=20, new_tokens=32, fork_nodes=6, lanes=3, sweep_cells=4,
    sweep_prompts=2, prompt_tokens=40, seconds_per_run=5, sweep_seconds=5,
)  # fmt: skip
LONG = "a prompt of more than twenty characters"
SWEPT = {
    "prompts": "Hello", "method": "speculative", "rules": "exact", "preset": "automatic",
    "knob1": "draft_length", "values1": "2, 4", "knob2": "", "values2": "", "repeats": 1,
    "new_tokens": 16,
}  # fmt: skip
CALIBRATED = {
    "judge": "early_layers", "drafter": "target", "prompts": 1, "tokens": 16, "layers": 4,
    "quantile": 0.1, "fork_width": 2, "fork_depth": 1, "fork_shape": "forks",
}  # fmt: skip
SPORK = {"method": "spork", "fork_width": 2, "fork_depth": 1, "fork_shape": "forks"}


def told(frames) -> str:
    """Everything that was said, an API's error included."""
    try:
        return " ".join(str(frame) for frame in frames)
    except Exception as error:
        return str(error)


class Hurried:
    """A clock on which a second passes whenever it is read."""

    now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def race(host, clock=time.monotonic, **changes):
    filled = {"max_new_tokens": 16, "fork_width": 2, "fork_depth": 1, "fork_shape": "forks"}
    return told(Desk(host, TIGHT, PRESETS, [], clock=clock).race(**values(**filled | changes)))


def explore(host, clock=time.monotonic, **changes):
    shared = {name: getattr(Settings(), name) for name in ("fork_width", "fork_depth")}
    return told(Explorer(host, TIGHT, PRESETS, clock=clock).sweep(**shared | SWEPT | changes))


def calibrate(host, _clock=time.monotonic, **changes):
    return told(CalibrationDesk(Desk(host, TIGHT, PRESETS, [])).run(**CALIBRATED | changes))


def api(name, *given):
    def ask(host, clock=time.monotonic):
        return told(getattr(Endpoints(Desk(host, TIGHT, PRESETS, [], clock=clock)), name)(*given))

    return ask


def compare(prompt="Hello", lanes=1, **settings):
    lane = {**SPORK, "max_new_tokens": 16, **settings}
    return api("compare", prompt, [lane] * lanes)


def decode(prompt="Hello", **settings):
    return api("decode", prompt, {**SPORK, "max_new_tokens": 16, **settings})


def sweep(prompts=("Hello",), axes=None, **settings):
    base = {**SPORK, "max_new_tokens": 16, **settings}
    return api("sweep", list(prompts), base, axes or {"fork_width": [1, 2]})


def page(way, **changes):
    return functools.partial(way, **changes)


PROMPT, TOKENS = "limit is 20. Shorten it.", "limit is 32. Ask for fewer."
NODES = "limit is 6. Make K, M, γ or the node budget smaller."
CELLS, PROMPTS = "at most 4 cells", "a sweep is 2. Leave some out."
LANES = {"race": "2 to 3 lanes", "api": "1 to 3 lanes"}
WAYS = {
    "race": page(race, lanes=2), "explore": page(explore), "calibrate": page(calibrate),
    "compare": compare(), "decode": decode(), "sweep": sweep(),
}  # fmt: skip


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (page(race, prompt=LONG), PROMPT),
        (page(explore, prompts=LONG), PROMPT),
        (compare(LONG), PROMPT),
        (decode(LONG), PROMPT),
        (sweep([LONG]), PROMPT),
        (page(race, max_new_tokens=33), TOKENS),
        (page(explore, new_tokens=33), TOKENS),
        (page(calibrate, tokens=33), "from 1 to 32"),
        (compare(max_new_tokens=33), TOKENS),
        (decode(max_new_tokens=33), TOKENS),
        (sweep(max_new_tokens=33), TOKENS),
        (page(race, fork_width=4), NODES),
        (page(race, lane2_method="speculative", draft_length=7), NODES),
        (page(explore, values1="2, 7"), NODES),
        (page(calibrate, fork_width=4), NODES),
        (compare(fork_width=4), NODES),
        (decode(fork_shape="tree", node_budget=7), NODES),
        (decode(method="speculative", draft_length=7), NODES),
        (sweep(axes={"fork_width": [1, 4]}), NODES),
        (page(race, lanes=4), LANES["race"]),
        (compare(lanes=4), LANES["api"]),
        (page(explore, values1="1, 2, 3, 4, 5"), CELLS),
        (sweep(axes={"fork_width": [1, 2, 3, 2, 1]}), CELLS),
        (page(explore, prompts="a\nb\nc"), PROMPTS),
        (sweep(["a", "b", "c"]), "1 to 2 prompts"),
    ],
)
def test_over_a_limit_is_one_sentence_and_nothing_runs(ask, sentence):
    host = FakeHost(gap=0.0)
    assert sentence in ask(host)
    assert host.asked == []


@pytest.mark.parametrize("ask", WAYS.values(), ids=WAYS)
def test_at_the_limits_it_runs(ask):
    said = ask(FakeHost(gap=0.0))
    assert "limit is" not in said
    assert "notice-refused" not in said


@pytest.mark.parametrize("way", ["race", "explore", "compare", "decode", "sweep"])
def test_over_the_seconds_it_ends_and_is_told(way):
    host = FakeHost(gap=0.0)
    assert "limit of 5 seconds" in WAYS[way](host, Hurried())
    assert len(host.closed) == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_prompt_of_too_many_tokens_is_one_sentence(way, engine):
    short = dataclasses.replace(TIGHT, prompt_tokens=5)
    host = LocalHost(dataclasses.replace(SPACEFILE, limits=short))
    host._engines = {SPACEFILE.pairs[0].name: engine}
    host._status = Status("The model is ready.", ready=True)
    assert "the limit is 5" in WAYS[way](host)
    assert not host._device.locked()
