"""The race page in a browser, on a fake host: what a visitor sees and can do."""

import json
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from spork_demo.trace import Provenance
from spork_demo.trace_file import dumps
from tests.browser.fake_app import HOSTILE
from tests.sample_race import sample_race

SLOW = ("--gap", "0.02")
SLOWER = ("--gap", "0.08")
"""Some 15 seconds a run: enough to press Stop on a busy machine."""
TEXTS = "[...document.querySelectorAll('.lane-text')].map(x => x.textContent)"
COUNTS = "[...document.querySelectorAll('.lane-count')].map(x => parseInt(x.textContent))"
NOTE_WHEN_A_LANE_IS_OVER = f"""
() => new MutationObserver(() => {{
  const over = document.querySelector(".is-replaying .lane[data-lane='1'].is-finished");
  if (over) window.noted ??= {COUNTS};
}}).observe(document.querySelector(".race"), {{ subtree: true, attributes: true }})
"""
"""The counts of all lanes at the moment the second is over."""

CONTRASTS = """
() => {
  const parts = (text) => {
    const numbers = text.match(/[\\d.]+/g).map(Number);
    const scale = text.startsWith('color') ? 255 : 1;
    return [...numbers.slice(0, 3).map((x) => x * scale), numbers[3] ?? 1];
  };
  const background = (element) => {
    if (!element) return [255, 255, 255];
    const [r, g, b, a] = parts(getComputedStyle(element).backgroundColor);
    if (a === 1) return [r, g, b];
    const under = background(element.parentElement);
    return [r, g, b].map((x, i) => x * a + under[i] * (1 - a));
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((x) => x / 255)
      .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const seen = '.race .token, .lane-who, .lane-count, .cell dt, .cell-unit, .lane-verdict, .badge,'
    + ' .rules, .race-origin, .notice, .lane-end, .race-replay, .glyph';
  return [...document.querySelectorAll(seen)].filter((x) => x.offsetParent).map((element) => {
    const one = light(parts(getComputedStyle(element).color));
    const other = light(background(element));
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    return [element.className, Math.round(ratio * 100) / 100];
  });
}
"""


def wait_until_finished(page):
    page.wait_for_function(
        "document.querySelector('#notice').textContent.includes('Finished')"
        " && !document.querySelector('.race.is-live')"
        " && document.querySelectorAll('.lane').length"
        " === document.querySelectorAll('.lane.is-finished').length"
    )


def run(page, prompt="Say hello."):
    page.fill("#prompt textarea", prompt)
    page.click("#run")


def upload(page, file):
    with page.expect_file_chooser() as chooser:
        page.click("#upload")
    chooser.value.set_files(file)


def download(page, file, prompt):
    """The race file, which the page has a moment after the race; until then it is the last one."""
    for _ in range(50):
        with page.expect_download() as saved:
            page.click("#download")
        saved.value.save_as(file)
        if json.loads(file.read_text(encoding="utf-8"))["lanes"][0]["prompt"] == prompt:
            return
        page.wait_for_timeout(200)
    pytest.fail(f"there is no file of the race on {prompt!r}")


def type_in(page, box, value):
    """Type a value; a widget that appeared some 40 ms before may drop the first try, visibly."""
    field = page.locator(box).first
    for _ in range(30):
        field.fill(str(value))
        page.keyboard.press("Tab")
        page.wait_for_timeout(100)
        if field.input_value() == str(value):
            return
    pytest.fail(f"{box} does not keep {value}")


def turn(page, knob, value):
    type_in(page, f"{knob} input[type=number]", value)


def badge(page):
    return page.inner_text(".badge").replace("●", "").strip()


def test_it_opens_on_a_complete_recorded_race(open_page):
    page = open_page()
    assert badge(page) == "recorded"
    assert "SmolLM2-135M-Instruct · CPU, 2 cores · float32 · 2026-11-20" in page.inner_text(".race")
    assert page.evaluate(TEXTS) == [lane.text for lane in sample_race().lanes]
    assert page.inner_text(".lane[data-lane='1'] .lane-verdict") == "identical to greedy"
    strip = page.inner_text(".lane[data-lane='1'] .lane-strip")
    assert "1.98×" in strip
    assert "tokens per round, bonus included" in strip
    assert page.locator(".lane-rate").all_inner_texts()[0] == "25.0"


def test_run_goes_live_and_ends_with_results_and_charts(open_page):
    page = open_page(*SLOW)
    run(page)
    page.wait_for_selector(".is-live .badge-live")
    assert page.is_disabled(".race-replay")
    wait_until_finished(page)
    assert badge(page) == "live"
    assert page.evaluate(COUNTS)[0] == 96
    assert page.inner_text(".race-prompt").endswith("Say hello.")
    page.locator("#speed-chart").scroll_into_view_if_needed()
    page.wait_for_selector("#speed-chart .main-svg")
    expect(page.locator(".race .sr-only")).to_contain_text("96 tokens")


def test_stop_keeps_the_text_and_the_next_run_works(open_page):
    page = open_page(*SLOWER)
    run(page)
    page.wait_for_selector(".is-live .lane[data-lane='0'] .token:nth-of-type(3)")
    page.click("#stop")
    page.wait_for_function("document.querySelector('#notice').textContent.includes('Stopped')")
    page.wait_for_function(
        "[...document.querySelectorAll('.lane-end')].every(x => x.textContent.includes('Stopped'))"
    )
    counts = page.evaluate(COUNTS)
    assert 3 <= counts[0] < 96
    page.wait_for_timeout(500)
    assert page.evaluate(COUNTS) == counts
    run(page, "Say it again.")
    page.wait_for_selector(".is-live .lane[data-lane='0'] .token:nth-of-type(3)")
    assert page.inner_text(".race-prompt").endswith("Say it again.")
    page.click("#stop")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_replay_plays_lanes_by_their_own_clocks(open_page, motion):
    page = open_page(reduced_motion=motion)
    whole = page.evaluate(TEXTS)
    page.evaluate(NOTE_WHEN_A_LANE_IS_OVER)
    page.click(".race-replay")
    page.wait_for_selector(".is-replaying")
    page.wait_for_function("window.noted")
    greedy, spork, _ = page.evaluate("window.noted")
    assert spork == 60
    assert 20 < greedy < 60
    page.wait_for_selector(".race:not(.is-replaying)")
    assert page.evaluate(TEXTS) == whole
    assert "Race finished" in page.inner_text(".race .sr-only")


def test_replay_pauses_and_shows_all(open_page):
    page = open_page()
    page.select_option(".race-speed", "0.25")
    page.click(".race-replay")
    page.wait_for_function(f"({COUNTS})[0] > 0")
    page.click(".race-replay")
    before = page.evaluate(COUNTS)
    page.wait_for_timeout(400)
    assert page.evaluate(COUNTS) == before
    page.click(".race-all")
    assert page.evaluate(COUNTS)[0] == 60


def test_the_token_card_opens_by_keyboard_and_leads_inside_the_round(open_page):
    page = open_page()
    page.focus(".lane[data-lane='1'] .token[tabindex='0']")
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    card = page.locator(".token-card")
    assert "token 7" in card.inner_text()
    assert "accepted: drafted" in card.inner_text()
    page.keyboard.press("Escape")
    assert card.is_hidden()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "Open this round"
    page.keyboard.press("Enter")
    page.wait_for_function(
        "document.querySelector('#inside-told')?.textContent.includes('Round 3 of 22, 2 SPORK')"
    )


def test_only_one_token_of_a_lane_is_a_tab_stop(open_page):
    page = open_page()
    page.click(".lane[data-lane='2'] .token:nth-of-type(5)")
    stops = "document.querySelectorAll(\".lane-text [tabindex='0']\").length"
    assert page.evaluate(stops) == 3


def test_rejected_drafts_appear_on_request_only(open_page):
    page = open_page()
    assert page.locator(".lane-text .is-dropped").count() == 0
    page.check(".race-dropped input")
    assert page.locator(".lane-text .fate-rejected").count() > 20
    page.uncheck(".race-dropped input")
    assert page.evaluate(TEXTS) == [lane.text for lane in sample_race().lanes]


def test_hostile_text_is_shown_literally(open_page):
    page = open_page("--hostile")
    run(page, "<img src=x onerror='window.hacked=1'> ${1+1} {{x}}")
    wait_until_finished(page)
    expected = "".join(HOSTILE[place % len(HOSTILE)] for place in range(96))
    assert page.evaluate(TEXTS)[0] == expected
    assert page.locator(".race img, .race script, .race b").count() == 0
    page.click(".lane[data-lane='0'] .token:nth-of-type(10)")
    assert "<img␣src=x" in page.inner_text(".token-card")
    assert page.locator("#notice img, .token-card img, #recordings img").count() == 0
    page.get_by_role("tab", name="Inside a round").click()
    page.wait_for_selector("#inside-tree [data-state=drawn]")
    assert page.evaluate("window.hacked") is None


def test_a_downloaded_race_opens_again_and_a_bad_file_changes_nothing(open_page, tmp_path):
    page = open_page(*SLOW)
    run(page)
    wait_until_finished(page)
    shown = page.evaluate(TEXTS)
    file = tmp_path / "race.json"
    download(page, file, "Say hello.")
    page.reload()
    page.wait_for_selector(".lane .token")
    upload(page, file)
    page.wait_for_function("document.querySelector('#notice').textContent.includes('Loaded')")
    assert badge(page) == "recorded"
    assert page.evaluate(TEXTS) == shown
    bad = tmp_path / "bad.json"
    bad.write_text("{", encoding="utf-8")
    upload(page, bad)
    page.wait_for_function("document.querySelector('#notice').textContent.includes('kept')")
    assert page.evaluate(TEXTS) == shown


def test_an_imported_race_says_where_and_when_it_was_measured(open_page, tmp_path):
    page = open_page()
    place = Provenance(
        "0.1.0",
        "Other-7B",
        device="GPU <b>&amp;</b>",
        dtype="bfloat16",
        date="2026-10-01T08:00:00Z",
    )
    race = sample_race("Measured elsewhere.", 12)
    lanes = tuple(replace(lane, provenance=place) for lane in race.lanes)
    file = tmp_path / "race.json"
    file.write_text(dumps(replace(race, lanes=lanes, recorded=False)), encoding="utf-8")
    upload(page, file)
    page.wait_for_function(
        "document.querySelector('.race-prompt').innerText.endsWith('elsewhere.')"
    )
    assert badge(page) == "recorded"
    assert "Other-7B · GPU <b>&amp;</b> · bfloat16 · 2026-10-01" in page.inner_text(".race-origin")
    assert page.locator(".race b").count() == 0


def test_knobs_in_closed_accordions_count(open_page):
    page = open_page()
    page.click("#knobs button")
    turn(page, "#knob-max_new_tokens", 12)
    page.click("#knobs > button")
    page.click("#lanes button")
    page.get_by_text("4", exact=True).first.click()
    run(page)
    wait_until_finished(page)
    counts = page.evaluate(COUNTS)
    assert len(counts) == 4
    assert counts[0] == 12


def test_choosing_dspark_moves_the_rules_to_article(open_page):
    page = open_page()
    page.click("#lanes button")
    page.click("#lane2-method input")
    page.get_by_role("option", name="DSpark").click()
    page.wait_for_selector("#lane2-rules input[value=article]:checked")


def test_while_the_model_loads_run_says_why_and_keeps_the_prompt(open_page):
    page = open_page("--loading")
    assert "34 of 93 MB" in page.inner_text("#host-status")
    run(page)
    page.wait_for_function("document.querySelector('#notice').textContent.includes('not ready')")
    assert page.input_value("#prompt textarea") == "Say hello."
    assert badge(page) == "recorded"


def test_small_screens_have_no_horizontal_overflow_and_stack_the_lanes(open_page):
    tops = "[...document.querySelectorAll('.lane')].map(x => Math.round(x.offsetTop))"
    page = open_page(width=1000)
    assert len(set(page.evaluate(tops))) == 1
    page.check(".race-dropped input")
    page.click("#lanes button")
    page.click("#knobs button")
    for width in (768, 390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        page.wait_for_function(
            "(width) => innerWidth === width && document.documentElement.scrollWidth <= width",
            arg=width,
        )
    assert len(set(page.evaluate(tops))) == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_reads_on_its_background(open_page, theme):
    page = open_page(query=f"?__theme={theme}")
    page.check(".race-dropped input")
    page.wait_for_function(
        "(dark) => document.body.classList.contains('dark') === dark", arg=theme == "dark"
    )
    low = {tuple(pair) for pair in page.evaluate(CONTRASTS) if pair[1] < 4.5}
    assert low == set()


def test_nothing_is_fetched_from_elsewhere(open_page, fake_app):
    page = open_page()
    foreign = []
    home = fake_app()
    page.on("request", lambda request: foreign.append(request.url))
    page.reload()
    page.wait_for_selector(".lane .token")
    page.locator("#speed-chart").scroll_into_view_if_needed()
    page.wait_for_selector("#speed-chart .main-svg")
    local = (home, "data:", "blob:")
    assert [url for url in foreign if not url.startswith(local)] == []
