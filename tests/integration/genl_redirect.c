// SPDX-License-Identifier: Apache-2.0
/*
 * LD_PRELOAD object for the tests: generic netlink sockets of the program
 * become connections to the UNIX socket $GENL_REDIRECT, where a test plays
 * the kernel's openvswitch module.  So the real ovs-dpctl prints flow keys
 * whose bytes the test chose, on a machine without that module.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_FD 1024

static bool redirected[MAX_FD];

static bool is_redirected(int fd)
{
	return fd >= 0 && fd < MAX_FD && redirected[fd];
}

#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

int socket(int domain, int type, int protocol)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const char *path = getenv("GENL_REDIRECT");
	int fd;

	if (domain != AF_NETLINK || protocol != NETLINK_GENERIC || !path)
		return NEXT(socket)(domain, type, protocol);
	if (strlen(path) >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(addr.sun_path, path);
	fd = NEXT(socket)(AF_UNIX, SOCK_SEQPACKET, 0);
	if (fd < 0)
		return fd;
	if (fd >= MAX_FD || NEXT(connect)(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		close(fd);
		errno = ECONNREFUSED;
		return -1;
	}
	redirected[fd] = true;
	return fd;
}

int close(int fd)
{
	if (is_redirected(fd))
		redirected[fd] = false;
	return NEXT(close)(fd);
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return is_redirected(fd) ? 0 : NEXT(connect)(fd, addr, len);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	if (is_redirected(fd) && level == SOL_NETLINK)
		return 0;
	return NEXT(setsockopt)(fd, level, name, value, len);
}

int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct sockaddr_nl local = {.nl_family = AF_NETLINK, .nl_pid = getpid()};

	if (!is_redirected(fd))
		return NEXT(getsockname)(fd, addr, len);
	if (*len < sizeof(local)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(addr, &local, sizeof(local));
	*len = sizeof(local);
	return 0;
}

/* The kernel answers before sendmsg() returns; the test does not, so wait. */
ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	if (is_redirected(fd))
		flags &= ~MSG_DONTWAIT;
	return NEXT(recvmsg)(fd, msg, flags);
}
