"""A link copied in one browser opens the same page in another."""

import pytest
from playwright.sync_api import expect

from tests.browser.test_race_page import turn
from tests.sample_race import PAIR

CLIPBOARD = ["clipboard-read", "clipboard-write"]
LANES = ("--dspark",)


def field(page) -> str:
    page.wait_for_selector("#share-link .share-field")
    return page.input_value("#share-link .share-field")


def choose(page, box: str, name: str) -> None:
    page.click(f"{box} input")
    page.get_by_role("option", name=name, exact=True).click()


@pytest.mark.parametrize("path", ["", "zh"])
def test_a_second_browser_gets_the_same_prompt_and_settings(open_page, browser, fake_app, path):
    page = open_page(*LANES, query=f"{path}?__theme=light", permissions=CLIPBOARD)
    page.fill("#prompt textarea", "Wie spät ist es? <b>&amp;=#</b>")
    page.click("#lanes button")
    page.locator("#lane-count label").nth(2).click()
    choose(page, "#lane4-method", "SPORK")
    page.click("#lane4-rules input[value=article]")
    choose(page, "#lane4-preset", "SPORK as in the article")
    expect(page.locator("#lane4-preset input")).to_have_value("SPORK as in the article")
    page.click("#knobs button")
    turn(page, "#knob-fork_width", 9)
    page.click("#copy-link")
    link = field(page)
    page.wait_for_function("document.querySelector('.share-told').textContent")
    assert page.evaluate("navigator.clipboard.readText()") == link
    assert page.evaluate("location.href") == link
    assert f"/{path}?" in link
    other = browser.new_context().new_page()
    other.set_default_timeout(60_000)
    other.goto(link)
    other.wait_for_selector(".lane .token")
    other.wait_for_function("document.querySelector('#prompt textarea').value.startsWith('Wie')")
    assert other.input_value("#prompt textarea") == "Wie spät ist es? <b>&amp;=#</b>"
    other.click("#lanes button")
    expect(other.locator("#lane4-method input")).to_have_value("SPORK")
    expect(other.locator("#lane4-rules input[value=article]")).to_be_checked()
    expect(other.locator("#lane4-preset input")).to_have_value("SPORK as in the article")
    other.click("#knobs button")
    expect(other.locator("#knob-fork_width input[type=number]")).to_have_value("9")
    other.click("#copy-link")
    assert field(other) == link
    other.context.close()


def test_without_the_clipboard_the_link_waits_in_a_field(open_page):
    page = open_page()
    page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject())")
    page.click("#copy-link")
    field(page)
    page.wait_for_function("document.activeElement.className === 'share-field'")
    assert "Copy the link" in page.inner_text("#share-link")


def test_a_link_to_a_round_opens_it_and_bad_parts_are_named(open_page):
    query = "?recording=1&tab=inside&lane=2&round=5&fork_width=999&<img src=x onerror=1>=1&seed=3"
    page = open_page(query=query)
    page.wait_for_function(
        "document.querySelector('#inside-told')?.textContent.includes('Round 5 of 22, 2 SPORK')"
    )
    page.get_by_role("tab").first.click()
    told = page.inner_text("#notice")
    assert "fork_width" in told and "<img" in told and "the rest was restored" in told
    assert page.locator("#notice img").count() == 0
    page.click("#knobs button")
    page.click("#knobs-sampling button")
    assert page.input_value("#knob-seed input") == "3"


def test_a_preset_of_a_pair_that_loads_late_is_still_restored(open_page):
    query = f"?lane2_rules=article&lane2_preset=SPORK+as+in+the+article&pair={PAIR.name}"
    page = open_page("--late", "6", query=query)
    page.wait_for_function("document.querySelector('#host-status').textContent.includes('ready')")
    page.click("#lanes button")
    page.wait_for_function(
        "document.querySelector('#lane2-preset input')?.value === 'SPORK as in the article'"
    )
