"""Surveys of a fleet for the tests of its page."""

from kernel_delay.fleet import Extent, FleetSurvey, LongRounds, Outlier, Peers

MARCH_NS = 1_773_446_400_000_000_000
"""2026-03-14 00:00 UTC."""


def survey_of(count: int, node: str = "node-{}", text: str = "had no CPU") -> FleetSurvey:
    """A fleet of which so many differ, the first one most."""
    outliers = tuple(
        Outlier(
            node=node.format(number),
            pod="" if number % 2 else "0c9fc2a3-8b1d-4f5e-9a51-7d3c2b1a0e9f",
            comm="ovs-vswitchd",
            thread_class=f"handler*{text}",
            cause="ready" if number % 3 else "wait_disk",
            lost_ns=10**9,
            present_ns=4 * 10**9,
            share=0.9 - number / 1000,
            peers=500,
            median_share=0.01,
            score=20.0,
            hours=24,
            over_hours=10,
            since_ns=MARCH_NS + 14 * 3600 * 10**9,
            until_ns=MARCH_NS + 23 * 3600 * 10**9,
            evidence=text,
            recording="r",
            sample=3,
        )
        for number in range(count)
    )
    peers = tuple(
        Peers("ovs-vswitchd", f"t{number}*", "kernel", 500, 0.1, 0.2, node.format(number), 0.01)
        for number in range(7)
    )
    rounds = (
        LongRounds(
            node.format(3), "", "ovs-vswitchd", "main", "lock", 3, 1, 10**9, 10**9, 1, MARCH_NS
        ),
    )
    return FleetSurvey(
        extent=Extent(500, 3, 500, 24_000, 3, MARCH_NS, MARCH_NS + 24 * 3600 * 10**9),
        outliers=outliers,
        all_outliers=count,
        peers=peers,
        all_peers=9,
        long_rounds=rounds,
        all_long_rounds=1,
    )
