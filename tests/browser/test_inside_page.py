"""The Inside tab and the charts in a real browser, on handmade races: no model anywhere."""

import contextlib
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.test_race_page import turn

APP = Path(__file__).with_name("inside_app.py")
SECONDS = 60


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[str]:
    """The address of inside_app.py, running."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = subprocess.Popen([sys.executable, str(APP), str(port), *arguments])
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(SECONDS * 4):
            assert app.poll() is None, "the page did not start"
            with contextlib.suppress(OSError):
                urllib.request.urlopen(address, timeout=5).close()
                break
            time.sleep(0.25)
        yield address
    finally:
        app.terminate()
        app.wait(10)


@pytest.fixture(scope="module")
def handmade() -> Iterator[str]:
    with served("handmade") as address:
        yield address


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    with served("hostile") as address:
        yield address


@pytest.fixture
def page(browser):
    """A page that fails its test on any script error."""
    errors: list[str] = []
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.set_default_timeout(SECONDS * 1000)
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    tab.close()
    assert not errors


def opened(page, address: str, view: str = "#inside-tree"):
    page.goto(address)
    page.wait_for_selector(f"{view} [data-state=drawn]")
    return page


def verdict_of(page) -> str:
    return page.inner_text("#inside-told .rt-verdict")


def wait_for_text(page, selector: str, part: str) -> None:
    page.wait_for_function(
        "([where, part]) => document.querySelector(where)?.textContent.includes(part)",
        arg=[selector, part],
    )


def test_the_tab_opens_on_a_drawn_tree_with_its_words(page, handmade):
    opened(page, handmade)
    assert "kept the first 3 tokens of a fork, «␣fox jumps over»" in verdict_of(page)
    chart = page.locator("#inside-tree .pv-chart")
    assert chart.get_attribute("role") == "img"
    assert "12 drafted tokens in 7 forks" in chart.get_attribute("aria-label")


def place_of(page) -> str:
    return page.inner_text("#inside-told .rt-place")


def test_moving_by_buttons_mouse_and_keys_changes_everything_together(page, handmade):
    opened(page, handmade)
    page.evaluate("document.querySelector('#inside-tree .pv-chart').kept = true")
    page.click("#inside-next")
    assert place_of(page).startswith("Round 2 of 24")
    assert page.inner_text(".rounds-seconds") == "0.11 s"
    assert page.inner_text(".rounds-token").startswith("token 6 of")
    assert "Greedy was at token 2 by then, 4 tokens behind." in page.inner_text(".rounds-clock")
    page.click("#inside-previous")
    assert place_of(page).startswith("Round 1 of 24") and page.is_disabled("#inside-previous")
    assert "4 tokens in 55 ms where greedy takes 160 ms" in page.inner_text(".rounds-price")
    box = page.locator("#inside-round input").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert place_of(page).startswith(("Round 12 of 24", "Round 13 of 24"))
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowLeft")
    assert place_of(page).startswith("Round 13 of 24")
    wait_for_text(page, "#inside-tree .pv-title", "Fork tree of round 13")
    page.keyboard.press("End")
    assert place_of(page).startswith("Round 24 of 24") and page.is_disabled("#inside-next")
    told = page.get_attribute("#inside-round input", "aria-valuetext")
    assert told.startswith("Round 24 of 24, 1.32 s, token ")
    wait_for_text(page, "#inside-tree .pv-title", "Fork tree of round 24")
    assert page.evaluate("document.querySelector('#inside-tree .pv-chart').kept")


def test_moves_need_no_server(page, handmade):
    opened(page, handmade)
    page.route("**/gradio_api/**", lambda route: route.abort())
    page.focus("#inside-round input")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert place_of(page).startswith("Round 6 of 24")
    assert "nothing to propose" in verdict_of(page)
    page.locator(".rounds-lane input").nth(0).check()
    assert "nothing was drafted" in verdict_of(page)
    page.unroute("**/gradio_api/**")


def test_on_a_slow_line_the_views_end_at_the_round_that_is_shown(page, handmade):
    opened(page, handmade)

    def late(route):
        answer = route.fetch()
        page.wait_for_timeout(1500)
        route.fulfill(response=answer)

    page.route("**/gradio_api/run/**", late)
    page.focus("#inside-round input")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(250)
    assert place_of(page).startswith("Round 5 of 24")
    wait_for_text(page, "#inside-tree .pv-title", "Fork tree of round 5")
    page.unroute_all(behavior="ignoreErrors")


def test_another_lane_is_shown_at_the_same_moment(page, handmade):
    opened(page, handmade)
    page.focus("#inside-round input")
    for _ in range(7):
        page.keyboard.press("ArrowRight")
    assert page.inner_text(".rounds-seconds") == "0.44 s"
    page.get_by_role("radio", name="SPORK as in the article").check()
    assert place_of(page).startswith("Round 2 of 12")
    assert page.inner_text(".rounds-seconds") == "0.38 s"
    wait_for_text(page, "#inside-tree .pv-title", "Fork tree of round 2")
    page.wait_for_selector("#inside-judge .plotly-view")


def test_playing_pausing_and_playing_on(page, handmade):
    opened(page, handmade)
    page.select_option(".rounds-speed", "0.25")
    reached = 24
    while reached == 24:  # on a machine so slow that it was over before the key was pressed
        page.focus("#inside-round input")
        page.keyboard.press("Home")
        page.click("#inside-play")
        page.wait_for_function(
            "document.querySelector('.rounds-seconds').textContent.slice(0, 4) > 0.3"
        )
        page.focus("#inside-told .rt-text")
        page.keyboard.press("Space")
        if page.inner_text("#inside-play") != "▶ Play":
            page.keyboard.press("Space")
            continue
        held = place_of(page)
        reached = int(held.split()[1])
    assert 4 < reached < 24, "a fraction of the lane: it was played at a quarter of its speed"
    assert page.inner_text(".rounds-seconds") == f"{reached * 0.055:.2f} s", "the end of a round"
    wait_for_text(page, "#inside-tree .pv-title", f"Fork tree of round {reached}")
    page.wait_for_timeout(300)
    assert place_of(page) == held
    page.select_option(".rounds-speed", "4")
    page.click("#inside-play")
    wait_for_text(page, "#inside-told .rt-place", "Round 24 of 24")
    assert page.inner_text("#inside-play") == "▶ Play"
    page.select_option(".rounds-speed", "0.25")
    page.click("#inside-play")
    page.wait_for_function("!document.querySelector('.rt-place').textContent.includes('24 of 24')")
    page.keyboard.press("Space")


def test_lanes_race_again_side_by_side(page, handmade):
    opened(page, handmade)
    page.focus("#inside-round input")
    page.keyboard.press("Home")
    page.check(".rounds-all input")
    page.select_option(".rounds-speed", "0.5")
    panels = page.locator(".rounds-panel")
    assert panels.count() == 4
    page.click("#inside-play")
    page.wait_for_function("document.querySelectorAll('.rounds-done:not(:empty)').length === 3")
    assert panels.nth(1).inner_text().endswith("finished after 1.32 s"), "done before the slow one"
    page.wait_for_function("document.querySelectorAll('.rounds-done:not(:empty)').length === 4")
    wait_for_text(page, "#inside-play", "Play")
    assert "1.60 s" in panels.nth(0).inner_text()
    panels.nth(2).get_by_role("button").click()
    assert place_of(page).startswith("Round 12 of 12")
    page.keyboard.press("Home")
    assert page.inner_text(".rounds-panel[data-lane='0'] .rounds-panel-clock").startswith(
        "4 tokens"
    )


def test_with_reduced_motion_playing_steps_once_a_second(browser, handmade):
    tab = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    opened(tab, handmade)
    tab.evaluate(
        "window.seen = new Set(); new MutationObserver(() => seen.add("
        "document.querySelector('.rounds-seconds').textContent)).observe("
        "document.querySelector('.rounds-seconds'), {childList: true, characterData: true})"
    )
    tab.wait_for_timeout(600)
    assert tab.evaluate("seen.size") == 0, "nothing moves unasked"
    tab.select_option(".rounds-speed", "0.25")
    tab.click("#inside-play")
    tab.wait_for_timeout(2400)
    assert tab.evaluate("seen.size") <= 4
    tab.close()


def test_what_if_changes_the_verdict_and_the_chart(page, handmade):
    opened(page, handmade)
    assert page.locator("#inside-what-if:visible").count() == 0
    page.get_by_role("radio", name="SPORK as in the article").check()
    page.wait_for_selector("#inside-limit input[type=range]")
    assert page.locator("#inside-low, #inside-length").count() == 0
    assert place_of(page).startswith("Round 1 of 12")
    wait_for_text(page, "#inside-tree .pv-table", "␣plan")
    turn(page, "#inside-limit", 0.5)
    wait_for_text(page, "#inside-answer", "at least τ 0.50: it is kept whole")
    told = page.inner_text("#inside-answer")
    assert "That is 4 tokens; the recorded round has 1 token." in told
    assert page.locator("#inside-answer .rt-accepted").count() == 4
    page.focus("#inside-limit input[type=range]")
    page.keyboard.press("End")
    wait_for_text(page, "#inside-answer", "below τ 1.00: no fork is kept")
    page.locator("#inside-judge").scroll_into_view_if_needed()
    wait_for_text(page, "#inside-judge .pv-chart", "τ 1")
    assert place_of(page).startswith("Round 1 of 12"), "its own keys move the slider only"


def test_a_lane_without_judging_numbers_hides_their_chart(page, handmade):
    opened(page, handmade)
    page.get_by_role("radio", name="DSpark as in the article").check()
    page.wait_for_selector("#inside-judge .plotly-view")
    page.wait_for_selector("#inside-low input[type=range]")
    assert "DSpark as in the article" in place_of(page)
    page.get_by_role("radio", name="Greedy").check()
    page.wait_for_selector("#inside-judge", state="detached")
    assert "nothing was drafted" in verdict_of(page)


def test_clicking_a_node_tells_its_story(page, handmade):
    opened(page, handmade)
    point = page.locator("#inside-tree .pv-chart path.point").nth(1).bounding_box()
    page.mouse.move(point["x"] + 5, point["y"] + 5)
    page.mouse.click(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    wait_for_text(page, "#inside-tree .pv-caption", "drafted token 1 of its fork")


def test_the_keyboard_reaches_every_token_and_keeps_its_focus(page, handmade):
    opened(page, handmade)
    first = page.locator("#inside-tree .pv-table button").first
    first.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    wait_for_text(page, "#inside-tree .pv-caption", "«␣over»")
    assert page.evaluate("document.activeElement.textContent") == "␣over"
    assert page.locator("#inside-tree .pv-table button[tabindex='0']").count() == 1


def test_clicking_a_bar_opens_its_round(page, handmade):
    opened(page, handmade)
    page.locator("#inside-cost").scroll_into_view_if_needed()
    page.wait_for_selector("#inside-cost [data-state=drawn]")
    plot = page.locator("#inside-cost .pv-chart .nsewdrag").first.bounding_box()
    page.mouse.move(plot["x"] + plot["width"] / 2, plot["y"] + plot["height"] / 2)
    page.mouse.click(plot["x"] + plot["width"] / 2, plot["y"] + plot["height"] / 2)
    page.wait_for_function(
        "!document.querySelector('#inside-told .rt-place').textContent.startsWith('Round 1 ')"
    )


def test_charts_in_an_unselected_tab_are_drawn_when_it_opens(page, handmade):
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    opened(page, handmade)
    assert page.locator("#speed").count() == 0
    page.get_by_role("tab", name="Charts").click()
    for view in ("#speed", "#phases", "#acceptance"):
        page.wait_for_selector(f"{view} [data-state=drawn]")
    assert sum("plotly-cartesian.min.js" in url for url in requested) == 1
    assert all(url.startswith(handmade) for url in requested if url.startswith("http"))


def test_a_chart_changes_colours_with_the_theme(page, handmade):
    opened(page, handmade)
    kept = "path.point[style*='rgb(0, 127, 92)'], path.point[style*='#007F5C' i]"
    dark = "path.point[style*='rgb(69, 221, 176)'], path.point[style*='#45DDB0' i]"
    assert page.locator(f"#inside-tree :is({kept})").count() > 0
    page.evaluate("document.body.classList.add('dark')")
    page.wait_for_selector(f"#inside-tree :is({dark})", state="attached")
    assert page.locator(f"#inside-tree :is({kept})").count() == 0


def test_charts_fit_a_phone(page, handmade):
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, handmade)
    page.get_by_role("tab", name="Charts").click()
    page.wait_for_selector("#speed [data-state=drawn]")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#speed .main-svg").first.bounding_box()["width"] <= 390


def test_without_the_library_the_chart_is_given_in_words(page, handmade):
    page.route("**/plotly-cartesian.min.js", lambda route: route.abort())
    page.goto(handmade)
    page.wait_for_selector("#inside-tree [data-state=words]")
    words = page.inner_text("#inside-tree .pv-words")
    assert "could not be loaded" in words and "12 drafted tokens in 7 forks" in words
    page.locator("#inside-tree .pv-table").get_by_role("button", name="␣dog").click()
    wait_for_text(page, "#inside-tree .pv-caption", "went on with «␣fox»")


def test_hostile_text_appears_literally(page, hostile):
    alerts: list[str] = []
    page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    opened(page, hostile)
    page.focus("#inside-round input")
    page.keyboard.press("Home")
    wait_for_text(page, "#inside-told .rt-place", "Round 1 of 2")
    wait_for_text(page, "#inside-tree .pv-title", "round 1")
    wait_for_text(page, "#inside-tree .pv-chart", "‹202E›evil")
    drawn = page.inner_text("#inside-tree .pv-chart")
    for text in (
        "${1+1}",
        "{{x}}",
        "<b>bold</b>",
        "&amp;",
        "`tick`",
        "%{x}",
        "‹202E›evil",
        "$x^2$",
    ):
        assert text in drawn, text
    assert "«<img src=x onerror=alert(1)>»" in verdict_of(page)
    assert page.locator(".plotly-view :is(img, script), .rounds :is(img, script, b)").count() == 0
    assert page.locator("#inside-lane img, #inside-lane b").count() == 0
    assert not alerts


def test_a_tree_of_128_nodes_scrolls_inside_its_frame(page, hostile):
    opened(page, hostile)
    page.get_by_role("radio", name="128 nodes").check()
    wait_for_text(page, "#inside-told .rt-place", "128 nodes")
    page.wait_for_function(
        "document.querySelectorAll('#inside-tree .pv-chart path.point').length >= 130"
    )
    frame = page.locator("#inside-tree .pv-scroll").bounding_box()
    assert frame["height"] <= 621
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_empty_race_says_so(page):
    with served("empty") as address:
        page.goto(address)
        wait_for_text(page, "#inside-told", "There is no race yet")
        assert page.locator("#inside-next").count() == 0
        page.get_by_role("tab", name="Charts").click()
        wait_for_text(page, "#speed", "No lane has committed a token yet.")


def test_the_library_is_found_behind_a_root_path(page):
    with served("handmade") as address:
        page.route(
            "**/some/base/**",
            lambda route: route.continue_(url=route.request.url.replace("/some/base", "")),
        )
        page.add_init_script(
            "let seen; Object.defineProperty(window, 'gradio_config', {"
            "get: () => seen && {...seen, root: seen.root + '/some/base'}, set: (v) => seen = v});"
        )
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.wait_for_function("window.Plotly")
        assert any("/some/base/gradio_api/file=" in url for url in asked)


def test_the_tree_is_saved_as_svg_and_as_png(page, handmade):
    opened(page, handmade)
    for button, start in ((".pv-svg", b"<svg"), (".pv-save", b"\x89PNG")):
        with page.expect_download() as saved:
            page.locator(f"#inside-tree {button}").click()
        assert saved.value.path().read_bytes().startswith(start)
