// SPDX-License-Identifier: Apache-2.0
/*
 * packets CPU LENGTH_NS: sends itself packets over the loopback device for
 * that long, from one poll to another. Each is received by a soft interrupt on the sender's
 * time, so hard ones that come to this CPU often come within a soft one.
 */
#include "workload.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int sender = socket(AF_INET, SOCK_DGRAM, 0), receiver = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t length = sizeof(to);
	char packet[1024] = "";
	int64_t end_ns;
	int sent = 0;

	run_on(atoi(argv[1]));
	require(!bind(receiver, (struct sockaddr *)&to, sizeof(to)), "bind");
	require(!getsockname(receiver, (struct sockaddr *)&to, &length), "getsockname");
	answer("{}");
	wait_for_line();
	poll(NULL, 0, 0);
	end_ns = now_ns() + atoll(argv[2]);
	while (now_ns() < end_ns) {
		require(sendto(sender, packet, sizeof(packet), 0, (struct sockaddr *)&to,
			       sizeof(to)) == sizeof(packet),
			"sendto");
		sent++;
	}
	poll(NULL, 0, 0);
	answer("{\"sent\": %d}", sent);
	wait_for_line();
	return 0;
}
