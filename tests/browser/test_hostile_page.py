"""A race made of markup, opened in a browser: every tab shows it and nothing of it runs."""

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from spork_demo import trace_file
from spork_demo.settings import Settings
from spork_demo.trace import Fidelity, Provenance, Race, Round, Trace
from spork_demo.trace_served import Served
from tests.browser.test_race_page import run, type_in, upload, wait_until_finished
from tests.sample_race import dspark_race, forked_lane, greedy_lane

MARKUP = (
    "<img src=x onerror='window.hacked=1'>",
    "<svg onload='window.hacked=1'>",
    "${window.hacked=1}",
    "`${window.hacked=1}`",
    "</script><script>window.hacked=1</script>",
    "<a href='javascript:window.hacked=1'>go</a>",
    "{{constructor.constructor('window.hacked=1')()}}",
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "&lt;img src=x onerror=window.hacked=1&gt;",
    "'\"><b>bold</b>",
)
KEPT = ("fate", "stop_reason", "rule", "cause", "counted", "counters")
"""What is chosen from a list of ours, not free text."""

RUN = """() => ({
  hacked: window.hacked ?? null,
  made: [...document.querySelectorAll(
    'img[src="x"], [onerror], [onload], iframe[srcdoc], [*|href^="javascript"]'
  )].map((element) => element.outerHTML.slice(0, 200)),
})"""
"""What would be there, had any of it been taken for more than text."""


def texts() -> Iterator[str]:
    while True:
        yield from MARKUP


def marked(value: Any, words: Iterator[str]) -> Any:
    """A record with every free text in it replaced; settings and fates stay as they are."""
    changed = {}
    for field in dataclasses.fields(value):
        old = getattr(value, field.name)
        if isinstance(old, tuple) and old and dataclasses.is_dataclass(old[0]):
            changed[field.name] = tuple(marked(item, words) for item in old)
        elif field.name == "provenance":
            changed[field.name] = Provenance(**{
                f.name: next(words) for f in dataclasses.fields(Provenance) if f.type is str
            })  # fmt: skip
        elif isinstance(old, str) and field.name not in KEPT:
            changed[field.name] = next(words)
    return replace(value, **changed)


def hostile_race() -> Race:
    """Lanes of every kind, all their texts markup."""
    words = texts()
    article = Settings("spork", "article", drafter="target", judge="early_layers")
    article_lane = forked_lane("p", article, "2 SPORK article", [(2, "bonus"), (0, "fallback")], 8)
    served = Settings("served", server=next(words)[:80])
    token = replace(greedy_lane("p", 1).rounds[0].committed[0], fate="served")
    arrival = Round(0, (), (token,), 0, 0, 0, 0, 0, 0.1, 0, 0, 0)
    outside = Trace(served, "p", "4", 1, 0.1, (arrival,), "eos", served=Served("name", "model"))
    dspark = dspark_race("p", 8).lanes[2]
    lanes = []
    for lane in (greedy_lane("p", 8), article_lane, dspark, outside):
        kept = lane.served and marked(lane.served, words)
        kept = kept and replace(kept, counters="")
        lane = replace(lane, served=None, fidelity=None)
        found = Fidelity(0, next(words), next(words), 0.1, 0.5)
        lanes.append(replace(marked(lane, words), served=kept, fidelity=found))
    return Race(next(words), tuple(replace(lane, prompt=MARKUP[0]) for lane in lanes))


def check(page) -> None:
    found = page.evaluate(RUN)
    assert found == {"hacked": None, "made": []}


@pytest.fixture
def page(open_page, tmp_path):
    file = tmp_path / "race.json"
    file.write_text(trace_file.dumps(hostile_race()), encoding="utf-8")
    page = open_page("--lesson")
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    upload(page, file)
    page.wait_for_function("document.querySelector('#notice').textContent.includes('Loaded')")
    return page


def test_a_race_of_markup_shows_as_text_on_every_tab_and_on_the_stage(page):
    page.wait_for_function(
        "[...document.querySelectorAll('.lane-text')].some(x => x.textContent.includes('<svg'))"
    )
    page.locator("#speed-chart").scroll_into_view_if_needed()  # else it is not drawn
    page.wait_for_selector("#speed-chart .main-svg")
    page.locator(".lane .token").first.click()
    check(page)
    page.get_by_role("tab", name="Inside a round").click()
    page.locator("#inside-tree").scroll_into_view_if_needed()
    page.wait_for_selector("#inside-tree .main-svg")
    for lane in range(4):
        page.evaluate(
            "lane => { const choice = document.querySelectorAll('#inside-told input[type=radio]');"
            " choice[lane]?.click(); }",
            lane,
        )
        page.keyboard.press("ArrowRight")
        check(page)
    page.wait_for_function(  # again, where the tree of the round before was still on its way
        """() => {
          const button = document.querySelector('#inside-tree .pv-table button');
          if (button?.ariaPressed === 'true') return true;
          button?.click();
          return false;
        }""",
        polling=500,
    )
    check(page)
    for name in ("Explore", "Calibrate", "Learn"):
        page.get_by_role("tab", name=name, exact=True).click()
        check(page)
    page.click("#stage-open")
    page.wait_for_selector(".stage .stage-title")
    for _ in range(6):
        page.keyboard.press("ArrowRight")
        check(page)
    page.keyboard.press("Escape")


def test_markup_typed_into_every_field_stays_text(page):
    page.get_by_role("tab", name="Explore").click()
    type_in(page, "#explore-prompts textarea", " ".join(MARKUP)[:190])
    type_in(page, "#explore-values1 :is(textarea, input)", MARKUP[0])
    page.click("#sweep")
    page.wait_for_function("document.querySelector('#sweep-notice').textContent.includes('look')")
    check(page)
    page.get_by_role("tab", name="Race", exact=True).click()
    page.click("#lanes button")
    page.locator("#lane-pickers button").first.click()
    type_in(page, "#lane1-own :is(textarea, input)", MARKUP[0])
    run(page, MARKUP[0] + MARKUP[2])
    page.wait_for_function("document.querySelector('#notice').textContent.includes('Lane 1')")
    check(page)
    type_in(page, "#lane1-own :is(textarea, input)", "")
    run(page, MARKUP[0] + MARKUP[2])
    wait_until_finished(page)
    page.click("#copy-link")
    page.wait_for_function("document.querySelector('#share-link').textContent.length > 0")
    check(page)
