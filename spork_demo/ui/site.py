"""What a tab is built on. Apart from `page`, which names the builders, so they can import it."""

from dataclasses import dataclass

import gradio as gr

from spork_demo.ui.handlers import Desk
from spork_demo.ui.inside import InsideParts
from spork_demo.ui.race_tab import RaceTab


@dataclass(frozen=True, slots=True)
class Site:
    """What a tab may read and write: the page being built, the visitor's race, and where it shows.

    race: the gr.State that holds the race on the page. tabs: to open another tab by its id.
    """

    page: gr.Blocks
    desk: Desk
    race: gr.State
    tabs: gr.Tabs
    race_tab: RaceTab
    inside: InsideParts
