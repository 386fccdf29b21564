/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <termios.h>
#include <unistd.h>

/* Less than the second in which the tool shall have ended. */
#define END_SOON_MS 700

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
#define N_SIGNALS (sizeof(signals) / sizeof(*signals))

static struct sigaction before[N_SIGNALS];
static int depth;
static volatile sig_atomic_t first_does = END_AT_ONCE, noted, wake_fd = -1;
static volatile sig_atomic_t shutdown_fd, shutdown_len;
static char shutdown_text[32];
static volatile sig_atomic_t modes_fd = -1, has_quit;
static struct termios modes;

static void end(int number)
{
	if (shutdown_len && write(shutdown_fd, shutdown_text, shutdown_len) < 0)
		shutdown_len = 0;
	if (modes_fd >= 0) {
		signal(SIGTTOU, SIG_IGN); /* that stops who is in the background */
		tcsetattr(modes_fd, TCSANOW, &modes);
	}
	_exit(has_quit ? 0 : 128 + number);
}

static void arm(int ms)
{
	struct itimerval in = {.it_value = {.tv_usec = ms * 1000}};

	setitimer(ITIMER_REAL, &in, NULL); /* no more than the system call */
}

static void on_signal(int number)
{
	int error = errno;

	if (number == SIGALRM || noted || first_does == END_AT_ONCE)
		end(noted ? noted : number);
	noted = number;
	if (first_does == END_SOON)
		arm(END_SOON_MS);
	if (wake_fd >= 0 && write(wake_fd, "", 1) < 0)
		wake_fd = -1;
	errno = error;
}

void signals_take(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	size_t i;

	if (depth++)
		return;
	noted = 0;
	first_does = END_AT_ONCE;
	for (i = 0; i < N_SIGNALS; i++)
		sigaddset(&action.sa_mask, signals[i]);
	for (i = 0; i < N_SIGNALS; i++) {
		sigaction(signals[i], NULL, &before[i]);
		if (signals[i] != SIGHUP || before[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
}

void signals_give(void)
{
	size_t i;

	if (--depth)
		return;
	arm(0);
	for (i = 0; i < N_SIGNALS; i++)
		sigaction(signals[i], &before[i], NULL);
}

int signals_set(int how)
{
	int so_far = first_does;

	first_does = how;
	return so_far;
}

void signals_wake(int fd)
{
	wake_fd = fd;
}

int signals_noted(void)
{
	return noted;
}

void signals_set_shutdown_text(int fd, const char *text)
{
	shutdown_len = 0;
	shutdown_fd = fd;
	strncpy(shutdown_text, text, sizeof(shutdown_text));
	shutdown_len = strnlen(shutdown_text, sizeof(shutdown_text));
}

int signals_set_shutdown_modes(int fd)
{
	modes_fd = -1;
	if (fd >= 0 && tcgetattr(fd, &modes))
		return -errno;
	modes_fd = fd;
	return 0;
}

void signals_quit(void)
{
	has_quit = 1;
	kill(getpid(), SIGINT);
}
