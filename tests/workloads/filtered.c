// SPDX-License-Identifier: Apache-2.0
/*
 * filtered CPU LENGTH_NS FILTERS: sends itself packets over the loopback device of a network of
 * its own for that long. Each passes so many filters of 2,000 divisions before it is received,
 * in one soft interrupt on the sender's time: some five microseconds a filter.
 */
#include "workload.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static void start_loopback(int control)
{
	struct ifreq device = {.ifr_name = "lo", .ifr_flags = IFF_UP};

	require(!ioctl(control, SIOCSIFFLAGS, &device), "SIOCSIFFLAGS");
}

/* As many as sysctl net.core.optmem_max allows; on older kernels that is 20 KiB. */
#define STEPS 2000

/* Nobody reads the socket: all that it is there for is that its filter refuses each packet. */
static void add_filter(void)
{
	static struct sock_filter steps[STEPS];
	struct sock_fprog filter = {STEPS, steps};
	int all = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));

	require(all >= 0, "socket");
	for (int i = 0; i < STEPS - 1; i++)
		steps[i] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 3);
	steps[STEPS - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	require(!setsockopt(all, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)),
		"SO_ATTACH_FILTER");
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(9)};
	int64_t end_ns;
	int sender, sent = 0;

	run_on(atoi(argv[1]));
	require(!unshare(CLONE_NEWNET), "unshare");
	sender = socket(AF_INET, SOCK_DGRAM, 0);
	require(sender >= 0, "socket");
	start_loopback(sender);
	for (int i = atoi(argv[3]); i; i--)
		add_filter();
	answer("{}");
	wait_for_line();
	end_ns = now_ns() + atoll(argv[2]);
	while (now_ns() < end_ns) {
		/* Nobody has the port: the answer to one packet is the error of the next. */
		sendto(sender, "", 1, 0, (struct sockaddr *)&to, sizeof(to));
		sent++;
	}
	answer("{\"sent\": %d}", sent);
	wait_for_line();
	return 0;
}
