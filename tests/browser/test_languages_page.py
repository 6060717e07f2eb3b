"""The page in 中文: what a reader of it sees, and the way between the two languages.

The fake app ends when a sentence has no translation, so every step here also checks for that.
"""

import re

LANG = "document.documentElement.lang"
DARK = "?__theme=dark"


def notice(page, part):
    page.wait_for_function(
        "part => document.querySelector('#notice').textContent.includes(part)", arg=part
    )


def test_a_race_is_run_and_read_in_chinese(open_page):
    page = open_page("--gap", "0.01", query=f"zh{DARK}")
    assert (page.evaluate(LANG), page.title()) == ("zh", "spork_demo：看语言模型加速解码")
    assert page.inner_text(".badge") == "录制"
    assert "● 接受" in " ".join(page.inner_text(".race-legend").split())
    page.fill("#prompt textarea", "")
    page.click("#run")
    notice(page, "请先写提示词")
    page.fill("#prompt textarea", "你好")
    page.click("#run")
    page.wait_for_selector(".is-live .badge-live")
    notice(page, "已完成")
    page.wait_for_selector(".race:not(.is-live) .lane[data-lane='2'].is-finished")
    assert "实时" in page.inner_text(".badge")
    assert page.inner_text(".lane[data-lane='0'] .lane-verdict") == "基准"
    assert page.inner_text(".lane[data-lane='1'] .lane-verdict") == "与贪心完全一致"
    assert "加速比" in page.inner_text(".lane[data-lane='1'] .lane-strip")
    parts = ".race-buttons, .race-legend-line, .lane-head, .lane-meter, .lane-end, .lane-verdict,"
    seen = "".join(page.locator(f"{parts} .lane-strip").all_inner_texts())
    names = "「[^」]*」|spork_demo|SPORK|DSpark|SmolLM2|Instruct|CPU|cores|float|gram|ROUGE|BLEU"
    assert re.findall(r"[A-Za-z]{3,}", re.sub(names, "", seen)) == []
    page.locator("#speed-chart").scroll_into_view_if_needed()
    page.wait_for_selector("#speed-chart .main-svg")
    chart = page.locator("#speed-chart")
    assert "解码速度（词元/秒）" in chart.locator(".pv-chart").text_content()
    assert chart.locator(".pv-chart").get_attribute("aria-label").startswith("解码速度：1 贪心 ")
    assert chart.locator(".pv-save").inner_text() == "保存图片"


def test_a_token_leads_to_its_round_told_in_chinese(open_page):
    page = open_page(query="zh")
    page.focus(".lane[data-lane='1'] .token[tabindex='0']")
    page.keyboard.press("Enter")
    card = page.inner_text(".token-card")
    assert "词元编号" in card
    assert "接受：起草的词元，被裁判保留" in card
    page.keyboard.press("Enter")
    page.wait_for_function(
        "document.querySelector('.rt-verdict')?.textContent.includes('n-gram 草稿器提出了')"
    )
    assert "本轮提交" in page.inner_text(".rt-verdict")


def test_the_switch_keeps_the_query_and_leads_back(open_page, fake_app):
    page = open_page(query=DARK)
    for path, lang, name in (("zh", "zh", "运行"), ("", "en", "Run")):
        page.click("a.other-language")
        page.wait_for_url(f"{fake_app()}{path}{DARK}")
        page.wait_for_selector(".lane .token")
        assert page.evaluate(LANG) == lang
        assert page.inner_text("#run") == name
        assert page.evaluate("document.body.classList.contains('dark')")
        assert page.locator("a[href]:text('Home')").is_hidden()


def test_the_switch_works_under_a_root_path(open_page, fake_app):
    page = open_page(query="zh")
    page.evaluate("history.replaceState(null, '', '/some/space/zh?a=1#b')")
    page.hover("a.other-language")
    there = page.evaluate("document.querySelector('a.other-language').href")
    assert there == f"{fake_app()}some/space/?a=1#b"
