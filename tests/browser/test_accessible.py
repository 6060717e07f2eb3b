"""axe-core finds nothing at WCAG 2.1 A and AA on any view of the page, the stage and the site."""

import pytest
from playwright.sync_api import expect

from spork_demo import trace_file
from spork_demo.export import export_site
from tests.browser.test_race_page import type_in
from tests.missing import missing
from tests.sample_race import dspark_race, sample_race

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
APP = ("--lesson", "--dspark", "--gap", "0.0005")
ROUND = "tab=inside&recording=1&lane={lane}&round=8"
LAPTOP, PHONE = (1440, 900), (390, 844)
LOOKS = {"en": ((LAPTOP, "light"), (PHONE, "dark")), "zh": ((LAPTOP, "dark"), (PHONE, "light"))}
"""Both sizes and both themes of every view in both languages: of any two of these, every pair."""

RUN = """rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']}).then(
  found => found.violations.flatMap(one => one.nodes.map(
    node => `${one.id}: ${node.target} ${node.html.slice(0, 120)}`)))"""
"""A line for each element a rule finds."""

AT_REST = """async () => {
  const wait = (ms) => new Promise((done) => setTimeout(() => requestAnimationFrame(done), ms));
  const boxes = () => [...document.querySelectorAll('.pv-scroll:not([data-scrolls])')];
  const fit = () => boxes().every((box) => box.scrollWidth <= box.clientWidth + 1);
  await wait(100);  // then charts take up a new theme or size
  for (let i = 0; i < 15 && !fit(); i++) await wait(100);
  const changing = document.getAnimations().filter((one) => one instanceof CSSTransition);
  await Promise.all(changing.map((one) => one.finished.catch(() => {})));
}"""
"""No colour is looked at half way to its theme, no chart half way to its size."""

ALL_STEPS = "#learn .learn-step { display: grid !important; }"
"""The steps of the lesson one below the other, so that one look sees them all."""


def drawn(page, chart: str) -> None:
    """Until a chart, which is drawn when it comes into view, is there."""
    page.locator(chart).scroll_into_view_if_needed()
    page.wait_for_selector(f"{chart} [data-state=drawn]")


class Audit:
    """Looks at a page at the sizes and in the themes of its language."""

    def __init__(self, page, language: str) -> None:
        try:
            from axe_playwright_python.base import AXE_SCRIPT
        except ImportError:
            missing("axe-playwright-python is not installed")
        self.page, self.language, self.script, self.found = page, language, AXE_SCRIPT, []
        page.emulate_media(reduced_motion="reduce")

    def look(self, view: str) -> None:
        for (width, height), theme in LOOKS[self.language]:
            self.page.set_viewport_size({"width": width, "height": height})
            self.page.evaluate(
                "dark => [document.documentElement, document.body].forEach("
                "  node => node.classList.toggle('dark', dark))",
                theme == "dark",
            )
            self.page.mouse.move(0, 0)
            self.page.evaluate(AT_REST)
            if not self.page.evaluate("'axe' in window"):
                self.page.evaluate(self.script)
            where = f"{view}, {self.language}, {width} px, {theme}"
            self.found += [f"{where}: {line}" for line in self.page.evaluate(RUN, RULES)]
        self.page.set_viewport_size({"width": LAPTOP[0], "height": LAPTOP[1]})


@pytest.mark.parametrize("language", LOOKS)
def test_every_view_of_the_page(open_page, language):
    root = "zh" if language == "zh" else ""
    page = open_page(*APP, query=f"{root}?__theme=light&{ROUND.format(lane=2)}")
    audit = Audit(page, language)
    drawn(page, "#inside-tree")
    audit.look("a plain round")
    page.locator("#inside-told input[type=radio]").nth(2).check()
    drawn(page, "#inside-chances")
    audit.look("a scheduled round")
    tabs = page.locator("#tabs > .tab-wrapper [role=tab]")
    tabs.nth(0).click()
    for closed in ("#lanes", "#knobs"):
        page.click(f"{closed} > button")
    page.click(".lane[data-lane='1'] .token >> nth=3")
    audit.look("the race, its lanes, knobs and a token opened")
    page.keyboard.press("Escape")
    tabs.nth(2).click()
    type_in(page, "#explore-prompts textarea", "Name a river.")
    page.click("#sweep")
    tabs.nth(3).click()
    page.click("#calibrate-run")
    tabs.nth(2).click()
    page.wait_for_selector("#sweep-notice .notice-done")
    drawn(page, "#sweep-speed")
    audit.look("a sweep's results")
    tabs.nth(3).click()
    page.wait_for_selector("#calibrate-notice .notice-done")
    audit.look("a calibration's results")
    tabs.nth(4).click()
    page.add_style_tag(content=ALL_STEPS)
    expect(page.locator("#learn .learn-step")).to_have_count(11)
    audit.look("the lesson")
    page.click("#stage-open")
    page.wait_for_selector(".stage .stage-title")
    page.keyboard.press("ArrowRight")
    audit.look("the stage: a race")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    audit.look("the stage: a round")
    assert audit.found == [], "\n".join(audit.found)


@pytest.mark.parametrize("language", LOOKS)
def test_every_part_of_the_static_site(browser, tmp_path, language):
    (tmp_path / "traces").mkdir()
    for name, race in {"1-plain": sample_race(tokens=12), "2-why": dspark_race(tokens=12)}.items():
        (tmp_path / "traces" / f"{name}.json").write_text(trace_file.dumps(race), encoding="utf-8")
    export_site(tmp_path / "traces", tmp_path / "site")
    name = "zh.html" if language == "zh" else "index.html"
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{(tmp_path / 'site').as_uri()}/{name}#race=2-why&lane=3&round=1")
    drawn(page, "#tree")
    audit = Audit(page, language)
    audit.look("the site")
    page.click("#stage")
    page.keyboard.press("End")
    audit.look("the stage of the site")
    context.close()
    assert audit.found == [], "\n".join(audit.found)


@pytest.mark.parametrize(("path", "width"), [("", 390), ("", 360), ("zh", 360)])
def test_on_a_phone_every_tab_is_in_one_row_and_a_link_names_it(open_page, path, width):
    page = open_page(*APP, query=path, width=width, height=780)
    tabs = page.locator("#tabs > .tab-wrapper [role=tab]")
    expect(tabs).to_have_count(5)
    boxes = [tab.bounding_box() for tab in tabs.all()]
    assert len({box["y"] for box in boxes}) == 1
    assert all(0 <= box["x"] <= width - box["width"] and box["height"] >= 24 for box in boxes)
    for place, name in [(4, "learn"), (3, "calibrate"), (1, "inside"), (0, None)]:
        tabs.nth(place).click()
        expect(tabs.nth(place)).to_have_attribute("aria-selected", "true")
        page.click("#copy-link")
        page.wait_for_function(
            "name => new URLSearchParams(location.search).get('tab') === name", arg=name
        )


def test_the_stage_fits_a_phone_and_obeys_a_hand(open_page):
    page = open_page(*APP, width=390, height=844, has_touch=True, is_mobile=True)
    page.tap("#stage-open")
    page.wait_for_selector(".stage .stage-title")
    assert page.locator(".stage-touch").is_visible() and page.locator(".stage-keys").is_hidden()
    seen = set()
    while "lane" not in seen or "round" not in seen:
        shown = page.evaluate("window.sporkStage.shown.kind")
        seen.add(shown)
        outside = page.evaluate(
            "[...document.querySelectorAll('.stage :is(p, span, dd, dt, b, h1, button)')].filter("
            "node => node.checkVisibility() && node.textContent && !node.closest('.sr-only') &&"
            "node.getBoundingClientRect().right > 390).map(node => node.textContent)"
        )
        assert outside == [], shown
        if shown == "race":
            page.touchscreen.tap(195, 600)
            page.wait_for_selector(".stage .lane-text .token")
        page.touchscreen.tap(360, 700)
    assert seen >= {"title", "race", "speed"}
    page.keyboard.press("End")
    assert page.evaluate("window.sporkStage.shown.kind") == "cost"
    page.tap(".stage-leave")
    page.wait_for_selector(".stage", state="detached")


STOP = """() => {
  const node = document.activeElement;
  if (!node.closest('#tabs')) return null;
  node.dataset.reached = '';
  const { outlineStyle, outlineWidth } = getComputedStyle(node);
  return outlineStyle === 'none' ? 0 : parseFloat(outlineWidth);
}"""
CONTROLS = "#tabs :is(button:not([role=tab]), input, textarea, select)"
MISSED = """controls => [...document.querySelectorAll(controls)].filter(
  (node) => node.checkVisibility() && !node.disabled && node.tabIndex >= 0
    && !('reached' in node.dataset)).map((node) => node.outerHTML)"""


def test_tab_reaches_every_control_and_shows_where_it_is(open_page):
    page = open_page(*APP)
    tabs = page.locator("#tabs > .tab-wrapper [role=tab]")
    tabs.nth(2).click()
    page.wait_for_selector("#sweep")
    expect(page.locator("#prompt")).to_be_hidden()
    tabs.nth(4).focus()
    widths = []
    while len(widths) < 60:
        page.keyboard.press("Tab")
        width = page.evaluate(STOP)
        if width is None:
            break
        widths.append(width)
    assert len(widths) > 15 and min(widths) >= 2
    assert page.evaluate(MISSED, CONTROLS) == []
