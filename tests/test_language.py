"""Every sentence of the product exists in every language, with the same places to fill."""

import ast
import copy
import re
import string

import pytest

from spork_demo import language
from spork_demo.charts.figure import UNITS
from spork_demo.language import LANGUAGES, catalogue, known, later, say, speaking, spoken
from spork_demo.spacefile import read_spacefile
from spork_demo.trace_file import read_races
from tests.test_architecture import PACKAGE, ROOT, SOURCES

OTHERS = [code for code in LANGUAGES if code != language.ENGLISH]
MARKERS = {say.__name__, later.__name__}
MISSING = language.missing


def marked(tree: ast.AST) -> set[str]:
    """Every literal handed to `say` or `later`."""
    return {
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in MARKERS
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }


def sentences() -> set[str]:
    return set().union(*(marked(ast.parse(path.read_text("utf-8"))) for path in SOURCES))


def shipped() -> set[str]:
    """What the deployment's own files say: names of presets, what pairs learned from, titles and
    labels of recorded races. A deployment may say other things, which then stay as they are.
    """
    spacefile = read_spacefile(ROOT / "Spacefile")
    races = read_races(ROOT / "assets" / "traces")
    said = {preset.name for preset in spacefile.presets}
    said |= {pair.about for pair in spacefile.pairs}
    said |= {race.title for race in races}
    said |= {lane.label for race in races for lane in race.lanes}
    return said - {""}


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("code", OTHERS)
def test_every_sentence_is_translated_and_none_is_left_over(code):
    ours, theirs = sentences() | shipped(), set(catalogue(code))
    assert sorted(ours - theirs) == []
    assert sorted(theirs - ours) == []


@pytest.mark.parametrize("code", OTHERS)
def test_a_translation_has_the_places_of_its_sentence(code):
    differing = {text for text, told in catalogue(code).items() if places(text) != places(told)}
    assert not differing


SHOWN = {"label", "placeholder", "info", "title", "caption", "title_text"}
"""Keyword arguments that put a text on the page; in a figure's `add_...` calls `name` does too."""
UNLABELLED = {"HTML", "plotly_view"}
"""Components that do not show their label."""
TITLED = {"Accordion", "Button", "DownloadButton", "UploadButton", "Tab", "Markdown"}
"""Components whose first argument is one."""
PHRASE = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")
CODE = re.compile(r"[{}<>=;/]|^(top|middle|bottom) (left|center|right)$")


def called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def english(tree: ast.AST) -> set[str]:
    """Literals that look like something said, and are handed neither to `say` nor to `later`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    apart = [
        call for call in calls if called(call) in {*MARKERS, "counted", "exception", "warning"}
    ]
    apart += [arg for call in calls if called(call) == "Example" for arg in call.args[1:]]
    apart += [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    apart = [node for node in apart if not isinstance(node, ast.Expr) or is_text(node.value)]
    apart += [key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys]
    apart += [node for node in ast.walk(tree) if is_source(node)]
    apart += [word for call in calls if called(call) in UNLABELLED for word in call.keywords
              if word.arg == "label"]  # fmt: skip
    away = {part for node in apart if node for part in ast.walk(node)}
    shown = {word.value for call in calls for word in call.keywords if shows(call, word.arg)}
    shown |= {call.args[0] for call in calls if called(call) in TITLED and call.args}
    return {
        node.value
        for node in ast.walk(tree)
        if is_text(node) and node not in away and not CODE.search(node.value)
        and (PHRASE.search(node.value) or node in shown and re.search("[A-Za-z][a-z]", node.value))
    }  # fmt: skip


def shows(call: ast.Call, argument: str | None) -> bool:
    if argument == "label":
        return called(call) not in UNLABELLED
    return argument in SHOWN or (argument == "name" and called(call).startswith("add_"))


def is_source(node: ast.AST) -> bool:
    """Whether it is a work with its address: names of authors and titles stay as they are."""
    parts = node.elts if isinstance(node, ast.Tuple) else []
    return any(is_text(part) and part.value.startswith("https://") for part in parts)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@pytest.mark.parametrize("path", [path for path in SOURCES if path.parent.name in ("ui", "charts")],
                         ids=lambda path: path.name)  # fmt: skip
def test_nothing_is_said_past_the_catalogue(path):
    assert english(ast.parse(path.read_text("utf-8"))) == set()


TO_THE_PAGE = {
    *("RunRefusedError", "SettingsError", "TraceError", "EntryError", "ModelUnavailable"),
    *("FetchFailed", "Status", "Progress"),
}
"""What carries a sentence from below to the page."""
FOR_THE_SHELL = {"cli.py", "sweep_command.py"}


def test_what_comes_up_to_the_page_can_be_said_in_any_language():
    for path in SOURCES:
        if path.parent.name in ("bench", "train") or path.name in FOR_THE_SHELL:
            continue
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and called(call) in TO_THE_PAGE:
                bare = [a for a in call.args if isinstance(a, ast.JoinedStr) or is_text(a)]
                said = [a for a in bare if not is_text(a) or " " in a.value]
                assert not said, (path.name, call.lineno)


def test_every_word_of_words_is_marked():
    tree = ast.parse((PACKAGE / "ui" / "words.py").read_text("utf-8"))
    tables = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    texts = {node for table in tables for node in ast.walk(table) if is_text(node)}
    keys = {key for table in tables for node in ast.walk(table) if isinstance(node, ast.Dict)
            for key in node.keys}  # fmt: skip
    assert {node.value for node in texts - keys} == marked(tree)


def test_what_is_counted_has_a_unit():
    for path in SOURCES:
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and called(call) == "counted":
                assert call.args[1].value in UNITS, (path.name, call.lineno)


@pytest.fixture
def two_words(monkeypatch):
    said = {"Run": "运行", "{count} rounds": "{count} 轮"}
    monkeypatch.setattr(language, "catalogue", lambda code: said)
    language._translated.cache_clear()
    yield
    language._translated.cache_clear()


def test_a_sentence_is_said_in_the_language_of_the_moment(two_words):
    assert say("Run") == "Run"
    with speaking("zh"):
        assert say("Run") == "运行"
        assert say("{count} rounds", count=3) == "3 轮"
    assert say("{count} rounds", count=3) == "3 rounds"


def test_what_is_not_in_the_catalogue_stays_english(two_words, caplog, monkeypatch):
    monkeypatch.setattr(language, "missing", MISSING)
    with speaking("zh"):
        assert say("Stop") == "Stop"
    assert "Stop" in caplog.text


def test_a_sentence_filled_in_early_is_still_said_in_the_readers_language(two_words):
    inner = later("{count} rounds", count=3)
    error = copy.deepcopy(ValueError(inner))
    assert inner == str(error) == "3 rounds"
    with speaking("zh"):
        assert say(str(error)) == known(str(error)) == "3 轮"
        assert say("Run") + say(later("{count} rounds", count=inner)) == "运行3 轮 轮"


def test_a_name_that_is_not_ours_stays_as_it_is(two_words):
    with speaking("zh"):
        assert known("Run") == "运行"
        assert known("{count} <b>") == "{count} <b>"


def test_a_language_we_do_not_have_is_refused():
    with pytest.raises(ValueError, match="xx"), speaking("xx"):
        pass


def test_a_generator_speaks_its_language_at_every_step_and_not_between(two_words):
    closed = []

    def steps():
        try:
            yield say("Run")
            yield say("Run")
        finally:
            closed.append(True)

    running = spoken("zh", steps)()
    assert next(running) == "运行"
    assert say("Run") == "Run"
    assert next(running) == "运行"
    running.close()
    assert closed == [True]


def test_a_function_speaks_its_language_and_keeps_its_parameters(two_words):
    def handler(prompt: str) -> str:
        return say("Run") + prompt

    told = spoken("zh", handler)
    assert told("!") == "运行!"
    assert told.__wrapped__ is handler
