"""Prompts to start from, each with a word on whether drafting ahead pays there."""

from dataclasses import dataclass

from spork_demo.language import later


@dataclass(frozen=True, slots=True)
class Example:
    """`label` says whether drafting ahead tends to pay, and on what kind of text."""

    label: str
    prompt: str


EXAMPLES = (
    Example(
        later("pays: repetition"),
        "Write the sentence 'A slow river carries small boats to the sea.' six times, one per "
        "line.",
    ),
    Example(
        later("pays: code"),
        "Write Python functions add, subtract, multiply and divide. Each takes a and b and has a "
        "one-line docstring.",
    ),
    Example(
        later("pays: counting"),
        "Count from one to twenty. Write each number as a digit, then in words, one per line.",
    ),
    Example(
        later("pays: copying a list"),
        "Copy this shopping list and put a tick before each item: apples, apricots, bananas, "
        "blackberries, cherries, cranberries, grapes, lemons.",
    ),
    Example(
        later("pays: 中文 repetition"),
        "把这句话抄写五遍,每行一遍:春天来了,小河边的柳树发芽了。",
    ),
    Example(
        later("mixed: a recipe"),
        "Give a short recipe for vegetable soup: first the ingredients as a list, then the steps.",
    ),
    Example(
        later("pays less: a story"),
        "Tell a short story about a lighthouse keeper who finds a letter that was never sent.",
    ),
    Example(
        later("pays less: 中文 prose"),
        "写一小段文字,描述一位老人在雨天的车站等人。",
    ),
)
