"""The JSON: its fields, its escapes, and that it reads back as the same Sample."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given

from kernel_delay.model import Sample
from kernel_delay.model.schema import sample_schema
from kernel_delay.reporters import json as json_reporter
from tests.unit.samples import (
    ACCOUNTED,
    COUNTS,
    EVERYTHING,
    REVALIDATOR,
    TIMES,
    bare_sample,
    samples,
)

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "sample.schema.json"


def test_fields_are_those_documented() -> None:
    sample = json.loads(json_reporter.render(EVERYTHING))
    assert sample["schema"] == "kernel-delay/3"
    assert sample["target"] == {
        "pid": 27090,
        "comm": "ovs-vswitchd",
        "exe": "/usr/sbin/ovs-vswitchd",
        "container": None,
        "command_line": [],
    }
    assert (sample["kernel"], sample["host"]) == ("6.1.0-30-amd64", "compute-1")
    assert sample["window"] == {
        "start_ns": 791777093512008,
        "stop_ns": 791777593166008,
        "duration_ns": 499654000,
        "start_time": "2023-06-08T10:17:22.725127Z",
        "collected_time": "2023-06-08T10:17:23.224855Z",
        "ended_by": "exit",
        "start_trigger": None,
        "stop_trigger": None,
    }
    assert sample["lost"] == {
        "dropped_records": 12,
        "missed_events": 345,
        "missed_triggers": 0,
        "clamped_lengths": 0,
        "events": 0,
        "shorter_events": 0,
        "stacks": 0,
        "truncated_stacks": 0,
        "cut_stacks": 0,
        "failed_unwinds": 0,
        "upcalls": 0,
        "timeline_interrupts": 0,
        "timeline_states": 0,
        "timeline_modes": 0,
        "missed_calls": 0,
        "missed_switches": 0,
        "missed_interrupts": 0,
        "missed_wakeups": 0,
        "missed_context_switches": 0,
        "missed_others_switches": 0,
        "missed_threads": 0,
        "missed_by_recursion": 0,
        "untraced": None,
    }

    thread = json.loads(json_reporter.render(bare_sample(REVALIDATOR)))["threads"][0]
    assert " ".join(thread) == (
        "tid name exited syscalls long_poll run ready stopped hard_irqs soft_irqs"
        " time preempted_ns cpu_taken_by lock_waits page_faults"
        " sleeps own_soft_irq_ns signals migrations scheduling task_times threads"
        " kernel_worker cpu_taken_by_others_ns cpu_taken_by_unknown_ns lock_waits_others_ns chain"
        " pmd unsplit_ns newest_signal"
    )
    assert thread["syscalls"][2] == {
        "number": 7,
        "name": "poll",
        "count": 5,
        "total_ns": 184193176,
        "max_ns": 184191520,
        "histogram": [],
        "on_cpu_ns": None,
        "ready_ns": None,
        "blocked_ns": None,
        "stopped_ns": None,
        "abi": None,
        "without_entry": 0,
        "guest_ns": None,
        "unaccounted_ns": None,
        "across": 0,
        "timed_out": 0,
    }
    assert thread["run"] == {
        "count": 6,
        "total_ns": 136764071,
        "min_ns": 1480,
        "max_ns": 115146424,
        "histogram": [],
    }
    assert thread["hard_irqs"] == [
        {"name": "eno8303-rx-1", "count": 1, "total_ns": 3586, "max_ns": 3586}
    ]
    assert thread["soft_irqs"][1] == {
        "vector": 3,
        "name": "net_rx",
        "count": 1,
        "total_ns": 17699,
        "max_ns": 17699,
    }


def test_uncounted_statistics_are_null_in_json() -> None:
    odd = next(t for t in json.loads(json_reporter.render(EVERYTHING))["threads"] if t["exited"])
    assert [odd[k] for k in ("long_poll", "run", "ready", "stopped")] == [None] * 4


@given(samples(COUNTS, TIMES))
def test_any_sample_is_one_ascii_line_that_reads_back(sample: Sample) -> None:
    line = json_reporter.render(sample)
    assert line.endswith("\n")
    assert line[:-1].isascii()
    assert line[:-1].isprintable()
    assert msgspec.json.decode(line, type=Sample) == sample


def test_account_reads_back_and_is_valid_by_the_schema() -> None:
    line = json_reporter.render(ACCOUNTED)
    assert msgspec.json.decode(line, type=Sample) == ACCOUNTED
    thread = json.loads(line)["threads"][0]
    assert sum(thread["time"].values()) == 500_000_000
    assert thread["cpu_taken_by"][0] == {
        "tid": 4321,
        "comm": "stress\x1b",
        "waits": 90,
        "ns": 79_000_000,
        "pid": 4300,
        "policy": "FIFO",
        "nice": 0,
        "rt_priority": 7,
        "kernel_thread": False,
        "is_tool": False,
    }
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(json.loads(line))


def test_committed_schema_is_current() -> None:
    assert SCHEMA.read_text() == sample_schema(), (
        "make it anew: python -m kernel_delay.model.schema >docs/reference/sample.schema.json"
    )


@given(samples(COUNTS, TIMES))
def test_any_sample_is_valid_by_the_schema(sample: Sample) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    validator.validate(json.loads(json_reporter.render(sample)))


def test_recording_without_a_time_zone_is_refused() -> None:
    line = json_reporter.render(EVERYTHING).replace('725127Z"', '725127"')
    with pytest.raises(msgspec.ValidationError, match="start_time"):
        msgspec.json.decode(line, type=Sample)
