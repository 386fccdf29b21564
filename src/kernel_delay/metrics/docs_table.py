"""The table of docs/metrics.md: `python -m kernel_delay.metrics.docs_table` prints it."""

from kernel_delay.metrics.families import FAMILIES


def table() -> str:
    """Return all metrics as a table of Markdown."""
    lines = ["| metric | kind | labels | what it is |", "|---|---|---|---|"]
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        lines.append(f"| `{family.exported}` | {family.kind} | {labels} | {family.help} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
