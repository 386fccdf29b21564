"""Slow rounds of programs that others wrote: `kernel-delay watch` names what made them slow."""

import os
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay.analysis.rounds import ran_functions
from kernel_delay.model import Sample
from tests.integration.capture.captures import thread
from tests.watching.watch import samples_in, watch_of
from tests.workload import compile_workload, wait_until

# A sample of a thread on a CPU takes its registers.
pytestmark = pytest.mark.usefixtures("earlier_calls")

# Of CPU time: watch, which may wait for a CPU itself, sees it and begins to take samples.
SLOW_MS = 1000
THRESHOLD = ("--threshold", "0.2")

# Of redis-tools: the same program as redis-server, which it becomes by its name.
REDIS = "redis-check-rdb"

# An approximate set of so many is kept in 12 KiB, and merging those takes a while.
ADDED = 8_000
MERGED = 15_000
COUNTED = 5

# Each name is looked for in all of a request's cookies: a step takes a nanosecond or so.
COOKIES = 1000
COOKIE_BYTES = 1 << 20
NAMES_OF_DIRECTIVE = 100

NGINX = """
daemon off; master_process off; error_log stderr; pid {folder}/pid; events {{}}
http {{
  access_log off; keepalive_timeout 1h;
  large_client_header_buffers 4 2m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen unix:{folder}/socket; location / {{ {slow} return 200 "done\\n"; }} }}
}}
"""

# V8 names what it compiled in /tmp/perf-PID.map.
NODE = """
const http = require("http");

function beSlow(ms) {
    const end = process.cpuUsage().user + ms * 1000;
    let found = 1;
    do {
        for (let i = 0; i < 1e6; i++)
            found = Math.imul(found, 1103515245) + 12345 | 0;
    } while (process.cpuUsage().user < end);
    return found;
}

const server = http.createServer((request, response) => {
    if (request.url === "/slow")
        beSlow(Number(process.argv[3]));
    response.end("done\\n");
});
server.keepAliveTimeout = 0;
server.listen(process.argv[2]);
"""

SERVER = """
import asyncio, ctypes, sys
library = ctypes.CDLL(sys.argv[1])

async def answer(reader, writer):
    while line := await reader.readline():
        if line == b"slow\\n":
            library.kd_be_slow(ctypes.c_longlong(int(sys.argv[3])))
        writer.write(line)
        await writer.drain()

async def main():
    server = await asyncio.start_unix_server(answer, sys.argv[2])
    await server.serve_forever()

asyncio.run(main())
"""


def started(
    closing: ExitStack, *command: object, cwd: Path | None = None
) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, cwd=cwd)
    closing.callback(process.wait)
    closing.callback(process.kill)
    return process


def connected(closing: ExitStack, path: Path) -> socket.socket:
    client = closing.enter_context(socket.socket(socket.AF_UNIX))
    client.settimeout(300)

    def is_accepted() -> bool:
        # The socket is there, and refuses, before the server listens to it.
        return client.connect_ex(os.fspath(path)) == 0

    wait_until(is_accepted, "the server")
    return client


def asked(client: socket.socket, request: bytes, end: bytes = b"\n") -> bytes:
    """Ask, and read the answer."""
    client.sendall(request)
    answer = b""
    while not answer.endswith(end):
        read = client.recv(1 << 16)
        assert read
        answer += read
    return answer


def ran_ns(pid: int) -> int:
    """How long its first thread was on a CPU (Documentation/scheduler/sched-stats.rst)."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])


def off_cpu_ns(sample: Sample) -> int:
    """How long the round's thread was known to be off its CPU."""
    assert sample.round is not None
    its = thread(sample, sample.round.tid).time
    assert its is not None
    return its.ready_ns + its.blocked_ns + its.stopped_ns + its.throttled_ns + its.frozen_ns


def dearest(
    pid: int, client: socket.socket, request: bytes, folder: Path, end: bytes = b"\n"
) -> Sample:
    """The round of the process that took most time on a CPU while the request is answered."""

    def cost_ns(sample: Sample) -> int:
        # Where others want the CPU, a round that waits for it may be a longer one.
        return sample.window.duration_ns - off_cpu_ns(sample)

    with watch_of(pid, folder, *THRESHOLD) as watching:
        before_ns = ran_ns(pid)
        asked(client, request, end)
        cpu_ns = ran_ns(pid) - before_ns

        def dearest_so_far() -> Sample | None:
            samples = [sample for path in watching.recordings() for sample in samples_in(path)]
            return max(samples, key=cost_ns, default=None)

        def is_there() -> bool:
            sample = dearest_so_far()
            return sample is not None and cost_ns(sample) > cpu_ns // 3

        wait_until(is_there, "the record")
        watching.end()
    found = dearest_so_far()
    assert found is not None
    return found


@pytest.mark.long
def test_slow_answer_of_an_asyncio_server_names_its_function(
    root_user: None, closing: ExitStack, tmp_path: Path
) -> None:
    library = compile_workload("slow_library", "-shared", "-fPIC")
    path = tmp_path / "socket"
    server = started(closing, sys.executable, "-c", SERVER, library, path, SLOW_MS)
    client = connected(closing, path)
    asked(client, b"hello\n")

    sample = dearest(server.pid, client, b"slow\n", tmp_path / "records")

    assert sample.window.duration_ns >= SLOW_MS * 1_000_000
    assert ran_functions(sample)[0].name == "kd_be_slow"


@pytest.mark.long
def test_a_slow_command_of_redis_has_its_function(
    root_user: None, closing: ExitStack, tmp_path: Path
) -> None:
    program = shutil.which(REDIS)
    assert program is not None, "redis-tools is not installed: setup/packages-test.txt has it"
    server, path = tmp_path / "redis-server", tmp_path / "socket"
    server.symlink_to(program)
    private = ("--port", "0", "--unixsocket", path, "--save", "", "--dir", tmp_path)
    redis = started(closing, server, *private)
    client = connected(closing, path)
    values = b"".join(b" %d" % at for at in range(ADDED))
    asked(client, b"PFADD set" + values + b"\r\n")

    # One after the other is merged, and all of a transaction in one round.
    assert asked(client, b"MULTI\r\n") == b"+OK\r\n"
    for _ in range(COUNTED):
        assert asked(client, b"PFCOUNT" + b" set" * MERGED + b"\r\n") == b"+QUEUED\r\n"
    sample = dearest(redis.pid, client, b"EXEC\r\n", tmp_path / "records")

    assert ran_functions(sample)[0].name.startswith("hll")


def http_request(path: str, cookie: bytes = b"") -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: here\r\nCookie: %s\r\n\r\n" % (path.encode(), cookie)


def test_a_slow_request_of_nginx_has_its_function(
    root_user: None, closing: ExitStack, tmp_path: Path
) -> None:
    assert shutil.which("nginx"), "nginx is not installed: setup/packages-test.txt has it"
    names = [f"$cookie_name{number}" for number in range(COOKIES)]
    values = [
        "".join(names[at:][:NAMES_OF_DIRECTIVE]) for at in range(0, COOKIES, NAMES_OF_DIRECTIVE)
    ]
    slow = " ".join(f'set $found "{value}";' for value in values)
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(NGINX.format(folder=tmp_path, slow=slow))
    nginx = started(closing, "nginx", "-p", tmp_path, "-e", "stderr", "-c", configuration)
    client = connected(closing, tmp_path / "socket")
    asked(client, http_request("/"), b"done\n")

    request = http_request("/", b"other=" + b"x" * COOKIE_BYTES)
    sample = dearest(nginx.pid, client, request, tmp_path / "records", b"done\n")

    assert ran_functions(sample)[0].name == "ngx_http_parse_multi_header_lines"


@pytest.mark.long
def test_a_slow_request_of_node_has_its_function(
    root_user: None, closing: ExitStack, tmp_path: Path
) -> None:
    assert shutil.which("node"), "nodejs is not installed: setup/packages-test.txt has it"
    path, program = tmp_path / "socket", tmp_path / "server.js"
    program.write_text(NODE)
    # It writes a log of its own to its folder.
    node = started(closing, "node", "--perf-basic-prof", program, path, SLOW_MS, cwd=tmp_path)
    closing.callback(Path(f"/tmp/perf-{node.pid}.map").unlink, missing_ok=True)
    client = connected(closing, path)
    asked(client, http_request("/"), b"done\n")

    sample = dearest(node.pid, client, http_request("/slow"), tmp_path / "records", b"done\n")

    # V8's own threads, which compile it, use some of the process's CPU time.
    assert sample.window.duration_ns >= SLOW_MS * 1_000_000 // 2
    assert "beSlow" in ran_functions(sample)[0].name
