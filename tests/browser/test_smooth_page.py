"""The page stays light: what an update costs does not grow, and runs leave nothing behind."""

import json
from dataclasses import replace

from spork_demo.trace import LaneEvent, Race, advance
from spork_demo.ui.token_view import event_line, head_line, summary_line
from tests.browser.test_race_page import run, turn, wait_until_finished
from tests.sample_race import sample_race

FEED = """
(values) => {
  const watchers = [];
  const props = { value: "" };
  const box = document.createElement("section");
  document.body.append(box);
  const view = window.sporkRace.mount(
    { element: box, props, watch: (_, run) => watchers.push(run), open: () => {} });
  const seen = { paints: 0, touched: [], tokens: 0 };
  const paint = view.paint.bind(view);
  view.paint = () => { seen.paints += 1; paint(); };
  let changes = 0;
  const watch = new MutationObserver((records) => (changes += records.length));
  watch.observe(box, { subtree: true, childList: true, characterData: true, attributes: true });
  const feed = (value) => { props.value = value; watchers.forEach((run) => run()); };
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return (async () => {
    for (const group of values) {
      changes = 0;
      group.forEach(feed);
      await frame();
      seen.touched.push(changes);
    }
    seen.tokens = box.querySelectorAll(".lane-text .token").length;
    box.remove();
    return seen;
  })();
}
"""
"""Gives a race view of its own groups of values, each group between two pictures."""


HELD = ("object", "array", "closure", "string", "concatenated string", "sliced string", "number")
"""What a heap snapshot calls the things a script keeps."""


def growing(events: int) -> tuple[list[str], int]:
    """The values of a race as they grow, an event each, and the tokens of the last."""
    race = sample_race(tokens=120)
    empty = tuple(replace(lane, rounds=(), stop_reason=None, fidelity=None) for lane in race.lanes)
    race_so_far = Race("", empty)
    lines = head_line(race_so_far)
    values = [lines]
    lanes = [[LaneEvent(n, event) for event in lane.events()] for n, lane in enumerate(race.lanes)]
    for news in [news for step in zip(*lanes, strict=False) for news in step][:events]:
        race_so_far = advance(race_so_far, news)
        lines += event_line(news) + (summary_line(race_so_far) if len(values) == 20 else "")
        values.append(lines)
    return values, sum(len(lane.tokens) for lane in race_so_far.lanes)


def test_what_comes_between_two_pictures_is_drawn_once(open_page):
    values, tokens = growing(90)
    groups = [values[:1], *(values[at : at + 15] for at in range(1, len(values), 15))]
    seen = open_page().evaluate(FEED, groups)
    assert seen["tokens"] == tokens
    assert seen["paints"] == len(groups)


def test_an_update_touches_as_much_of_a_long_race_as_of_a_short_one(open_page):
    values, _ = growing(150)
    groups = [[value] for value in values]
    seen = open_page().evaluate(FEED, groups)
    early, late = seen["touched"][2:18], seen["touched"][-30:]
    assert max(late) <= 2 * max(early)
    assert max(late) <= 12, "a lane's text and meter; its results only when they are new"


def test_twenty_runs_leave_nothing_behind(open_page):
    page = open_page("--gap", "0.001")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    page.click("#knobs button")
    turn(page, "#knob-max_new_tokens", 6)
    found = {}
    for number in range(1, 21):
        run(page, f"Run {number}.")
        page.wait_for_function(
            f"document.querySelector('.race-prompt').innerText.endsWith('Run {number}.')"
        )
        wait_until_finished(page)
        if number in (5, 20):
            page.wait_for_timeout(3000)  # charts come after the race
            found[number] = _left(session)
    before, after = found[5], found[20]
    assert after["JSEventListeners"] <= before["JSEventListeners"] + 10
    assert after["Nodes"] <= before["Nodes"] + 60
    assert after["data"] <= before["data"] + 300_000


def _left(session) -> dict[str, float]:
    """What the page holds after what it let go of is collected; `data` in bytes."""
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    metrics = session.send("Performance.getMetrics")["metrics"]
    return {one["name"]: one["value"] for one in metrics} | {"data": _data(session)}


def _data(session) -> int:
    """Bytes of the page's own objects; not code, which grows as Chromium compiles it."""
    pieces: list[str] = []
    session.on("HeapProfiler.addHeapSnapshotChunk", lambda news: pieces.append(news["chunk"]))
    session.send("HeapProfiler.takeHeapSnapshot", {"reportProgress": False})
    heap = json.loads("".join(pieces))
    fields, kinds = heap["snapshot"]["meta"]["node_fields"], heap["snapshot"]["meta"]["node_types"]
    columns = [heap["nodes"][fields.index(name) :: len(fields)] for name in ("type", "self_size")]
    return sum(size for kind, size in zip(*columns, strict=True) if kinds[0][kind] in HELD)
