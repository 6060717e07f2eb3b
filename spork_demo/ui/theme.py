"""The look Gradio's own widgets take: fonts, and colours that read on both backgrounds."""

from pathlib import Path

import gradio as gr

from spork_demo.charts import palette

CALM = Path(__file__).resolve().parents[2] / "assets" / "calm.css"


def theme() -> gr.themes.Base:
    fonts = (
        "system-ui",
        "-apple-system",
        "Segoe UI",
        "Noto Sans",
        "Noto Sans CJK SC",
        "sans-serif",
    )
    mono = ("ui-monospace", "Cascadia Mono", "DejaVu Sans Mono", "monospace")
    base = gr.themes.Default(
        primary_hue=gr.themes.colors.blue, neutral_hue=gr.themes.colors.slate, font=fonts,
        font_mono=mono,
    )  # fmt: skip
    return base.set(
        block_info_text_color=palette.MUTED.light,
        block_info_text_color_dark=palette.MUTED.dark,
        body_text_color_subdued=palette.MUTED.light,
        body_text_color_subdued_dark=palette.MUTED.dark,
        button_primary_background_fill=palette.BLUE.light,
        button_primary_background_fill_dark=palette.BLUE.light,
        button_primary_text_color="white",
    )


def calm_style() -> str:
    """What holds for everything on the page where less motion is asked for, as an inline tag."""
    return f"<style>\n{CALM.read_text(encoding='utf-8')}</style>"
