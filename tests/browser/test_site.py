"""The static site, opened from disk with the network off, and the stage on it."""

from dataclasses import replace

import pytest

from spork_demo import trace_file
from spork_demo.export import export_site
from tests.browser.fake_app import HOSTILE
from tests.sample_race import dspark_race, sample_race, with_texts

IMAGE = "<img src=x onerror='window.hacked=1'>"
TITLE = {"index.html": "Round 2 of", "zh.html": "第 2 轮"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site of a plain race, one with a scheduler, and one whose every text is markup."""
    folder = tmp_path_factory.mktemp("site")
    traces = folder / "recorded"
    traces.mkdir()
    plain = sample_race(tokens=12)
    lanes = tuple(with_texts(lane, HOSTILE) for lane in sample_race(IMAGE, 12).lanes)
    hostile = replace(plain, title=IMAGE, lanes=lanes)
    races = {"1-plain": plain, "2-scheduled": dspark_race(tokens=12), "3-hostile": hostile}
    for name, race in races.items():
        (traces / f"{name}.json").write_text(trace_file.dumps(race), encoding="utf-8")
    assert export_site(traces, folder / "site")[0] == len(races)
    return folder / "site"


@pytest.fixture
def opened(browser, site):
    """`opened("zh.html#round=2")`: offline; an error, a warning or a request fails the test."""
    contexts, faults = [], []

    def open_(page: str, width: int = 1440, height: int = 900):
        contexts.append(browser.new_context(viewport={"width": width, "height": height}))
        contexts[-1].set_offline(True)
        tab = contexts[-1].new_page()
        tab.set_default_timeout(60_000)
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on(
            "console", lambda said: said.type in ("error", "warning") and faults.append(said.text)
        )
        tab.on(
            "request",
            lambda asked: (
                asked.url.startswith(("file:", "data:", "blob:")) or faults.append(asked.url)
            ),
        )
        tab.goto(f"{site.as_uri()}/{page}")
        tab.wait_for_selector(".lane .token")
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert faults == []


@pytest.mark.parametrize("page", TITLE)
def test_it_opens_from_disk_with_the_network_off(opened, page):
    tab = opened(page + "#race=1-plain&lane=2&round=2")
    assert tab.locator(".lane").count() == 3
    assert TITLE[page] in tab.inner_text("#told .rt-place")
    for view in ("#chart-0", "#chart-2", "#tree", "#inside-cost"):
        tab.locator(view).scroll_into_view_if_needed()
        tab.wait_for_selector(f"{view} [data-state=drawn]")
    caption = tab.inner_text("#tree .pv-caption")
    tab.locator("#tree .pv-table button").nth(1).click()
    tab.wait_for_function(
        "(old) => document.querySelector('#tree .pv-caption').textContent !== old", arg=caption
    )
    tree = tab.get_attribute("#tree .pv-chart", "aria-label")
    tab.locator("#told input[type=range]").focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_function("location.hash.endsWith('lane=2&round=3')")
    tab.wait_for_function(
        "(old) => document.querySelector('#tree .pv-chart').ariaLabel !== old", arg=tree
    )
    assert "2026-11-20T10:00:00Z" in tab.inner_text("#origin")
    assert tab.get_attribute("#trace", "href") == "traces/1-plain.json"


def test_the_other_language_and_another_race_are_a_click_away(opened):
    tab = opened("index.html#race=1-plain&lane=2&round=2")
    tab.get_by_role("link", name="中文").click()
    tab.wait_for_function(
        "document.documentElement.lang === 'zh' && document.querySelector('.lane')"
    )
    assert "第 2 轮" in tab.inner_text("#told .rt-place")
    tab.locator(".race-choice").nth(1).click()
    tab.wait_for_function("location.hash.startsWith('#race=2-scheduled')")
    tab.evaluate("location.hash = 'race=2-scheduled&lane=3&round=1'")
    tab.wait_for_function("!document.querySelector('#why').hidden")
    assert tab.inner_text("#story")


def test_hostile_texts_are_only_texts(opened):
    tab = opened("index.html#race=3-hostile&lane=2&round=2", width=390, height=844)
    assert IMAGE in tab.inner_text("#races")
    tab.click("#stage")
    for _ in range(6):
        tab.keyboard.press("ArrowRight")
    assert tab.locator("img, .site b, .stage b:not(.stage-ratio)").count() == 0
    assert tab.evaluate("window.hacked") is None
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_stage_is_driven_by_keys(opened):
    tab = opened("index.html?stage", width=1920, height=1080)
    kind = "window.sporkStage.shown.kind"
    tab.wait_for_selector(".stage .stage-title")
    assert "recorded" in tab.inner_text(".stage-top")
    assert "CPU, 2 cores · float32 · 2026-11-20" in tab.inner_text(".stage-top")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(kind) == "race"
    assert tab.locator(".stage .lane-text .token").count() == 0
    tab.keyboard.press(" ")
    tab.wait_for_selector(".stage .lane[data-lane='1'].is-finished")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(kind) == "speed"
    assert tab.locator(".stage .lane-verdict").count() == 3
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("window.sporkStage.shown") == {"kind": "round", "lane": 1, "round": 0}
    assert tab.locator(".stage-tree .stage-label").count() > 2
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate("window.sporkStage.shown") == {"kind": "round", "lane": 2, "round": 0}
    tab.keyboard.press("End")
    assert "fidelity" in tab.inner_text(".stage-heading")
    sizes = tab.evaluate(
        "[...document.querySelectorAll('.stage p, .stage dt, .stage dd, .stage span')]"
        ".filter((x) => x.offsetParent && x.textContent && !x.closest('.sr-only'))"
        ".map((x) => parseFloat(getComputedStyle(x).fontSize))"
    )
    assert min(sizes) >= 28
    assert tab.evaluate("document.querySelector('.stage-body').scrollHeight") <= tab.evaluate(
        "document.querySelector('.stage-body').clientHeight"
    )
    tab.keyboard.press("Home")
    assert tab.evaluate(kind) == "title"
    tab.keyboard.press("Escape")
    tab.wait_for_selector(".stage", state="detached")
