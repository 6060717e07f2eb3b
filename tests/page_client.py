"""Asks what the page itself asks, by name; programs are meant to use the typed endpoints."""

from collections.abc import Sequence
from typing import Any

import gradio as gr
from gradio_client import Client
from gradio_client.client import Job


class PageClient(Client):
    """A client for which the page's own events are endpoints as well."""

    def _get_config(self) -> dict[str, Any]:
        config = super()._get_config()
        for event in config["dependencies"]:
            if event["api_name"] and event["backend_fn"]:
                event["api_visibility"] = "undocumented"
        return config

    def run(self, values: Sequence[Any]) -> Job:
        """A race with what the widgets hold, in the order of `widgets`."""
        return self.submit(*values, api_name="/race")


def widgets(page: gr.Blocks) -> list[str]:
    """Names of the values a race takes, in their order."""
    event = next(each for each in page.fns.values() if each.api_name == "race")
    return list(event.input_parameter_names)
