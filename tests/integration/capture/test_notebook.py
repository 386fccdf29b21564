"""The notebook of docs/how-to/ runs, and shows what it measured."""

from pathlib import Path

import nbclient
import nbformat
import pytest


def read(path: Path) -> nbformat.NotebookNode:
    """Read a notebook."""
    notebook: nbformat.NotebookNode = nbformat.reads(  # type: ignore[no-untyped-call]
        path.read_text(), as_version=4
    )
    return notebook


def outputs(cell: nbformat.NotebookNode) -> str:
    """The HTML that a cell shows."""
    return "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)


@pytest.mark.long
def test_the_notebook_shows_what_it_measured(
    measurable: None, project: Path, tmp_path: Path
) -> None:
    notebook = read(project / "docs" / "how-to" / "notebook.ipynb")
    assert not any(cell.get("outputs") for cell in notebook.cells)
    # An error of a cell is one of execute().
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    block, recording, table, comparison = filter(None, map(outputs, code))
    assert "waited for a futex" in block
    assert "before.kdr: python" in recording
    assert table.count("<tr") == 1 + 5
    assert "figures changed" in comparison
