"""axe-core finds nothing at WCAG 2.1 A and AA on any view of the page, the stage and the site."""

import pytest
from playwright.sync_api import expect

from spork_demo import trace_file
from spork_demo.export import export_site
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

ALL_STEPS = "#learn .learn-step { display: grid !important; }"
"""The steps of the lesson one below the other, so that one look sees them all."""


class Audit:
    """Looks at a page at the sizes and in the themes of its language."""

    def __init__(self, page, language: str) -> None:
        try:
            from axe_playwright_python.base import AXE_SCRIPT
        except ImportError:
            missing("axe-playwright-python is not installed")
        self.page, self.language, self.script, self.found = page, language, AXE_SCRIPT, []

    def look(self, view: str) -> None:
        for (width, height), theme in LOOKS[self.language]:
            self.page.set_viewport_size({"width": width, "height": height})
            self.page.evaluate(
                "dark => [document.documentElement, document.body].forEach("
                "  node => node.classList.toggle('dark', dark))",
                theme == "dark",
            )
            if not self.page.evaluate("'axe' in window"):
                self.page.evaluate(self.script)
            where = f"{view}, {self.language}, {width} px, {theme}"
            self.found += [f"{where}: {line}" for line in self.page.evaluate(RUN, RULES)]


@pytest.mark.parametrize("language", LOOKS)
def test_every_view_of_the_page(open_page, language):
    root = "zh" if language == "zh" else ""
    page = open_page(*APP, query=f"{root}?__theme=light&{ROUND.format(lane=2)}")
    audit = Audit(page, language)
    page.wait_for_selector("#inside-tree [data-state=drawn]")
    audit.look("a plain round")
    page.locator("#inside-told input[type=radio]").nth(2).check()
    page.wait_for_selector("#inside-chances [data-state=drawn]")
    audit.look("a scheduled round")
    tabs = page.locator("#tabs > .tab-wrapper [role=tab]")
    tabs.nth(0).click()
    for closed in ("#lanes", "#knobs"):
        page.click(f"{closed} > button")
    page.click(".lane[data-lane='1'] .token >> nth=3")
    audit.look("the race, its lanes, knobs and a token opened")
    page.keyboard.press("Escape")
    tabs.nth(2).click()
    page.fill("#explore-prompts textarea", "Name a river.")
    page.click("#sweep")
    tabs.nth(3).click()
    page.click("#calibrate-run")
    tabs.nth(2).click()
    page.wait_for_selector("#sweep-notice .notice-done")
    page.wait_for_selector("#sweep-speed [data-state=drawn]")
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
    for keys in (["Home"], ["ArrowRight"], ["ArrowRight"], ["ArrowDown", "ArrowRight"], ["End"]):
        for key in keys:
            page.keyboard.press(key)
        audit.look("the stage: " + page.evaluate("window.sporkStage.shown.kind"))
    assert audit.found == []


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
    page.wait_for_selector("#tree [data-state=drawn]")
    audit = Audit(page, language)
    audit.look("the site")
    page.click("#stage")
    page.keyboard.press("End")
    audit.look("the stage of the site")
    context.close()
    assert audit.found == []
