"""What clients of servers say of their answers."""

import os
import subprocess
import sys

from bench.served import Answers, Server, ab_p99_us, pgbench_p99_us, redis_p99_us

# redis-benchmark 7.0.15 --csv, ab 2.3 -e, pgbench 15 -l: cut short.
REDIS = """\
"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET","87719.30","0.030","0.008","0.031","0.039","0.047","0.383"
"""
AB = """\
Percentage served,Time in ms
0,0.027
98,0.105
99,0.131
100,1.023
"""


def test_percentiles_are_read_in_us() -> None:
    assert redis_p99_us(REDIS) == 47
    assert ab_p99_us(AB) == 131
    log = "".join(f"0 {number} {number} 0 1764241234 567\n" for number in range(1, 1001))
    assert 989 <= pgbench_p99_us(log) <= 991


def test_cpu_time_is_of_children_too_also_of_those_that_ended() -> None:
    script = """
import os, time
def spin():
    end = time.process_time() + 0.2
    while time.process_time() < end: pass
for ended in (True, False):
    pid = os.fork()
    if not pid:
        spin()
        print("spun", flush=True)
        if ended: os._exit(0)
        time.sleep(600)
    if ended: os.waitpid(pid, 0)
time.sleep(600)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout is not None
        for _ in range(2):
            assert process.stdout.readline() == b"spun\n"
        cpu_ns = Server(process.pid, lambda: Answers(0, 0)).cpu_ns()
        os.killpg(process.pid, 9)
    assert cpu_ns >= 390_000_000
