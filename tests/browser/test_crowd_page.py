"""The page when others are before: told its place, left again, turned away, and run in the end."""

import httpx
from playwright.sync_api import expect

from tests.sample_race import LIMITS

SLOW = ("--gap", "0.03")


def run(page):
    page.locator("#run").click()


def notice(page):
    return page.locator("#notice")


def fill_the_line(address: str, session: str) -> str:
    """As many races as may wait, of one visitor elsewhere; returns the number of the run event."""
    config = httpx.get(f"{address}config").json()
    (event,) = [each for each in config["dependencies"] if each["api_name"] == "race"]
    values = {each["id"]: each["props"].get("value") for each in config["components"]}
    data = [values[number] for number in event["inputs"]]
    body = {"data": data, "fn_index": event["id"], "session_hash": session}
    for _ in range(LIMITS.queue_races):
        httpx.post(f"{address}gradio_api/queue/join", json=body).raise_for_status()


def test_who_comes_second_is_told_so_may_leave_and_runs_in_the_end(open_page):
    first, second = open_page(*SLOW), open_page(*SLOW, query="zh")
    run(first)
    expect(notice(first)).to_contain_text("Running live")
    run(second)
    expect(notice(second)).to_contain_text("前面还有 1 个")
    second.locator("#stop").click()
    expect(notice(second)).to_contain_text("没有运行任何内容")
    run(second)
    expect(notice(second)).to_contain_text("前面还有 1 个")
    first.locator("#stop").click()
    expect(notice(first)).to_contain_text("Stopped")
    expect(notice(second)).not_to_contain_text("前面还有")
    expect(second.locator(".lane .token").first).to_be_visible()
    second.locator("#stop").click()
    expect(notice(second)).to_contain_text("已停止")


def test_where_the_line_is_full_the_page_says_so_and_stays_as_it_was(open_page):
    first, second = open_page(*SLOW), open_page(*SLOW)
    prompt = second.locator("#prompt textarea")
    prompt.fill("My own prompt")
    run(first)
    expect(notice(first)).to_contain_text("Running live")
    fill_the_line(first.url.split("?")[0], "elsewhere")
    run(second)
    expect(notice(second)).to_contain_text(f"no more than {LIMITS.queue_races} of this kind")
    assert prompt.input_value() == "My own prompt"
    assert second.locator(".lane .token").count()
