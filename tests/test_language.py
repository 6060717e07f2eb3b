"""Every sentence of the product exists in every language, with the same places to fill."""

import ast
import string

import pytest

from spork_demo import language
from spork_demo.language import LANGUAGES, catalogue, later, say, speaking, spoken
from tests.test_architecture import SOURCES

OTHERS = [code for code in LANGUAGES if code != language.ENGLISH]
MARKERS = {say.__name__, later.__name__}


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


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("code", OTHERS)
def test_every_sentence_is_translated_and_none_is_left_over(code):
    ours, theirs = sentences(), set(catalogue(code))
    assert sorted(ours - theirs) == []
    assert sorted(theirs - ours) == []


@pytest.mark.parametrize("code", OTHERS)
def test_a_translation_has_the_places_of_its_sentence(code):
    differing = {text for text, told in catalogue(code).items() if places(text) != places(told)}
    assert not differing


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


def test_what_is_not_in_the_catalogue_stays_english(two_words, caplog):
    with speaking("zh"):
        assert say("Stop") == "Stop"
    assert "Stop" in caplog.text


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
