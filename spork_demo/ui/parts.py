"""What the page's scripts share: assets/parts.js, which every page loads before them."""

from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "assets" / "parts.js"


def script_tag() -> str:
    """The script as an inline tag: it works offline and under any root path."""
    return f"<script>\n{SCRIPT.read_text(encoding='utf-8')}\n</script>"
