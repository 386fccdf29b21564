"""Hooks of mkdocs: the site loads nothing from elsewhere."""

from typing import Any

# Search over file:// takes it. The theme would load it from there.
SHIM = "https://unpkg.com/iframe-worker/shim"
OURS = "assets/iframe-worker.js"


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Let a page have our copy of the script."""
    up = "../" * page.url.count("/")
    return output.replace(SHIM, f"{up}{OURS}")


def on_post_template(output: str, *, template_name: str, **_: Any) -> str:
    """Let the page for missing pages have it too."""
    return output.replace(SHIM, OURS) if template_name.endswith(".html") else output
