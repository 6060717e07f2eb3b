"""The Inside tab and every chart on a page of their own, on handmade races: no model.

python tests/browser/inside_app.py PORT [handmade|hostile|empty] [ROOT_PATH]
"""

import sys
from pathlib import Path

import gradio as gr

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from spork_demo.charts import acceptance, comparison, palette  # noqa: E402
from spork_demo.trace import Race  # noqa: E402
from spork_demo.ui import parts  # noqa: E402
from spork_demo.ui.inside import build_inside  # noqa: E402
from spork_demo.ui.plotly_view import STYLE as SHEET  # noqa: E402
from spork_demo.ui.plotly_view import head, payload, plotly_view  # noqa: E402
from spork_demo.ui.round_text import STYLE, script_tag  # noqa: E402
from tests.handmade_rounds import handmade_race, hostile_race  # noqa: E402

RACES = {"handmade": handmade_race, "hostile": hostile_race, "empty": lambda: Race("", ())}


def race_charts(race: Race) -> dict[str, str]:
    """Payloads of the charts that compare lanes."""
    return {
        "speed": payload(
            comparison.speed_chart(race), comparison.speed_alt(race), title="Decode speed"
        ),
        "phases": payload(
            comparison.phase_chart(race),
            comparison.phase_alt(race),
            title="What a token costs",
            caption=comparison.prefill_sentence(race),
        ),
        "acceptance": payload(
            acceptance.acceptance_chart(race),
            acceptance.acceptance_alt(race),
            title="How far drafts are accepted",
            caption=acceptance.acceptance_caption(race),
        ),
    }


def build_page(race: Race) -> gr.Blocks:
    """Two tabs; the charts of the race stand in the one that is not selected first."""
    with gr.Blocks(title="Inside", fill_width=True, analytics_enabled=False) as page:
        state = gr.State(race)
        with gr.Tab("Inside a round"):
            parts = build_inside(state)
        with gr.Tab("Charts"), gr.Row():
            for name, value in race_charts(race).items():
                with gr.Column(min_width=320):
                    plotly_view(value, elem_id=name)
        page.load(parts.refresh, state, parts.outputs, queue=False, api_visibility="private")
    return page


if __name__ == "__main__":
    port, kind, root = [*sys.argv[1:], *["7863", "handmade", ""][len(sys.argv) - 1 :]]
    build_page(RACES[kind]()).launch(
        server_port=int(port),
        head=parts.script_tag() + head() + script_tag(),
        css=f"{palette.css_variables()}\n{STYLE}",
        css_paths=[SHEET],
        root_path=root or None,
        quiet=True,
        footer_links=[],
        ssr_mode=False,
        run_history=False,
    )
