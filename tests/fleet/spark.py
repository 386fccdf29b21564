"""The queries on Spark, in one process, as docs/reference/fleet-tables.md has it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
    SparkSession,
)

from kernel_delay.fleet.database import QUERIES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "fleet-tables.md"


@contextmanager
def session(scratch: Path) -> Iterator[SparkSession]:
    """Spark on two threads of this machine, heard by no other."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def make_views(spark: SparkSession, folder: Path) -> None:
    """The tables of a folder, and of each query a view: by what the page says, word for word."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(program.replace("DIR/", f"{folder}/"), {"spark": spark})
    for name in QUERIES:
        # Others read it: it is not to be asked anew for each of them.
        spark.catalog.cacheTable(name)


def rows(spark: SparkSession, name: str) -> list[dict[str, Any]]:
    """What a query returns, as `name` is a view by now."""
    return [row.asDict() for row in spark.table(name).collect()]
