// SPDX-License-Identifier: Apache-2.0
/*
 * flood DEVICE: UDP packets of 64 bytes, of 100 streams, out of a device as fast
 * as they go, from one line on standard input ("go") to the next ("rest").
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAMS 100
#define LENGTH 64

struct __attribute__((packed)) packet {
	struct ether_header ethernet;
	struct iphdr ip;
	struct udphdr udp;
	char data[LENGTH - sizeof(struct ether_header) - sizeof(struct iphdr) -
		  sizeof(struct udphdr)];
};

static struct packet packets[STREAMS];

static uint16_t checksum(const void *header)
{
	const uint16_t *words = header;
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(struct iphdr) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

static void make_packet(struct packet *packet, int stream)
{
	memcpy(packet->ethernet.ether_dhost, "\2\0\0\0\0\2", 6);
	memcpy(packet->ethernet.ether_shost, "\2\0\0\0\0\1", 6);
	packet->ethernet.ether_type = htons(ETHERTYPE_IP);
	packet->ip.version = 4;
	packet->ip.ihl = 5;
	packet->ip.ttl = 64;
	packet->ip.protocol = IPPROTO_UDP;
	packet->ip.tot_len = htons(LENGTH - sizeof(packet->ethernet));
	/* 198.18.0.0/15 is for benchmarks: RFC 2544, appendix C.2.2. */
	packet->ip.saddr = htonl(0xc6120001 + stream);
	packet->ip.daddr = htonl(0xc6130001);
	packet->ip.check = checksum(&packet->ip);
	packet->udp.source = htons(1024 + stream);
	packet->udp.dest = htons(4789);
	packet->udp.len = htons(LENGTH - sizeof(packet->ethernet) - sizeof(packet->ip));
}

static int reported(int timeout_ms)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[64];

	if (!poll(&input, 1, timeout_ms))
		return 0;
	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		exit(0);
	puts("done");
	fflush(stdout);
	return 1;
}

int main(int argc, char **argv)
{
	struct mmsghdr messages[STREAMS] = {0};
	struct iovec parts[STREAMS];
	struct sockaddr_ll device = {.sll_family = AF_PACKET};
	int socket_fd = socket(AF_PACKET, SOCK_RAW, 0);

	puts("ready");
	fflush(stdout);
	/* The device is there when the first line comes. */
	reported(-1);
	device.sll_ifindex = argc > 1 ? if_nametoindex(argv[1]) : 0;
	if (bind(socket_fd, (struct sockaddr *)&device, sizeof(device))) {
		perror("bind");
		return 1;
	}
	for (int i = 0; i < STREAMS; i++) {
		make_packet(&packets[i], i);
		parts[i] = (struct iovec){&packets[i], LENGTH};
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	for (;;) {
		reported(-1);
		/* What finds no room in the socket is sent the next time. */
		while (!reported(0))
			sendmmsg(socket_fd, messages, STREAMS, 0);
	}
}
