// SPDX-License-Identifier: Apache-2.0
/*
 * waits KIND COUNT LENGTH_NS: waits that often for another process, which ends each wait so long
 * after it sees that this one sleeps; for clock, for none. Tells that process's id, 0 for none, and
 * answers with how long the waits took, seen from outside.
 *
 * KIND: clock, pipe, flock, fcntl, futex, child, vfork, or away: a pipe, on another CPU than the
 * other process.
 */
#include "workload.h"

#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const char *kind;
static int64_t length_ns;
static int requests[2], replies[2], file, others_file;
static uint32_t *word;
static pid_t waiter;

static bool is(const char *name)
{
	return !strcmp(kind, name);
}

static void send_byte(int *pipe)
{
	require(write(pipe[1], "x", 1) == 1, "write");
}

static void take_byte(int *pipe)
{
	char byte;

	if (read(pipe[0], &byte, 1) != 1)
		exit(0);
}

static void set_file_lock(short type)
{
	struct flock whole = {.l_type = type, .l_whence = SEEK_SET};

	if (is("flock"))
		require(!flock(file, type == F_UNLCK ? LOCK_UN : LOCK_EX), "flock");
	else
		require(!fcntl(file, F_SETLKW, &whole), "fcntl");
}

static bool is_file_lock(void)
{
	return is("flock") || is("fcntl");
}

/* A while after the waiter sleeps: on a busy machine it may have no CPU before. */
static void sleep_beside_waiter(void)
{
	wait_for_state(waiter, "SD");
	sleep_ns(length_ns);
}

/* The other process: on each request it ends a wait, after a while. */
static void end_waits(void)
{
	file = others_file;
	for (;;) {
		take_byte(requests);
		if (is_file_lock()) {
			set_file_lock(F_WRLCK);
			send_byte(replies);
		}
		sleep_beside_waiter();
		if (is_file_lock()) {
			set_file_lock(F_UNLCK);
		} else if (is("futex")) {
			__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
			syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
		} else {
			send_byte(replies);
		}
	}
}

static void wait_for_child(void)
{
	pid_t child = is("vfork") ? vfork() : fork();

	require(child >= 0, "fork");
	if (!child) {
		sleep_beside_waiter();
		_exit(0);
	}
	require(waitpid(child, NULL, 0) == child, "waitpid");
}

static void wait_once(void)
{
	if (is("clock")) {
		sleep_ns(length_ns);
		return;
	}
	if (is("child") || is("vfork")) {
		wait_for_child();
		return;
	}
	*word = 0;
	send_byte(requests);
	if (is("futex")) {
		while (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
			syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
		return;
	}
	take_byte(replies);
	if (is_file_lock()) {
		set_file_lock(F_WRLCK);
		set_file_lock(F_UNLCK);
	}
}

int main(int argc, char **argv)
{
	char path[] = "/tmp/waits.XXXXXX";
	int64_t start_ns;
	pid_t other = 0;

	kind = argv[1];
	length_ns = atoll(argv[3]);
	waiter = getpid();
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	file = mkstemp(path);
	/* A lock is an open file's, which children share: each process has its own. */
	others_file = open(path, O_RDWR);
	require(word != MAP_FAILED && file >= 0 && others_file >= 0 && !pipe(requests) &&
			!pipe(replies),
		"waits");
	unlink(path);
	if (!is("clock") && !is("child") && !is("vfork")) {
		other = fork_child();
		if (!other) {
			run_on(0);
			end_waits();
		}
	}
	if (is("away"))
		run_on(sysconf(_SC_NPROCESSORS_ONLN) - 1);
	answer("{\"waker\": %d}", other);
	wait_for_line();
	start_ns = now_ns();
	for (int left = atoi(argv[2]); left > 0; left--)
		wait_once();
	answer("{\"total_ns\": %lld}", (long long)(now_ns() - start_ns));
	wait_for_line();
	return 0;
}
