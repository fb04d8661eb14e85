/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */
/*
 * Both ends of a conversation over a kernel's sockets, each of which knows what the other has to
 * say: content that no offload, copy or ring can get wrong unnoticed. Runs in guests and on the
 * host.
 *
 *   peer tcp-serve PORT                    one connection; checks what it is sent, tells its sum
 *   peer tcp-send ADDRESS PORT MEGABYTES   sends, and compares sums
 *   peer udp-serve PORT                    checks datagrams and sends them back, until killed
 *   peer udp-send ADDRESS PORT COUNT SIZE..  COUNT of each size, one after the other
 *   peer udp-bad FROM ADDRESS PORT         one datagram with a wrong checksum
 *
 * And streams to be measured, whose content nobody looks at:
 *
 *   peer stream-serve PORT WARM-UP-MS      one after the other, until killed; tells the sender what
 *                                          arrived, and after the warm-up in which time
 *   peer stream-send ADDRESS PORT SIZE MS [EVERY-US]   messages of SIZE bytes for so long, as fast
 *                                          as it goes, or each at its time and without Nagle's
 * delay
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
	PIECE = 1 << 16,
	PATIENCE = 60, /* seconds without a byte */
	DATAGRAM_PATIENCE = 10,
};

/* Content that depends on where it stands, and its sum, which depends on all of it. */
struct content {
	uint64_t state;
	uint64_t sum;
};

static const struct content START = {0x9e3779b97f4a7c15, 0xcbf29ce484222325};

static void
fill(struct content *content, uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		content->state ^= content->state << 13;
		content->state ^= content->state >> 7;
		content->state ^= content->state << 17;
		words[i] = content->state;
		content->sum = (content->sum ^ words[i]) * 0x100000001b3;
	}
}

static struct sockaddr_in
address(const char *host, const char *port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};

	if (inet_pton(AF_INET, host, &to.sin_addr) != 1)
		errx(2, "%s is no address", host);
	return to;
}

static int
open_socket(int type, const struct sockaddr_in *local, int patience)
{
	struct timeval limit = {.tv_sec = patience};
	int on = 1;
	int fd = socket(AF_INET, type, 0);

	if (fd < 0)
		err(1, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (local && bind(fd, (const struct sockaddr *)local, sizeof(*local)) < 0)
		err(1, "bind");
	return fd;
}

static void
tcp_serve(const char *port)
{
	static uint64_t got[PIECE / 8], want[PIECE / 8];
	struct sockaddr_in local = address("0.0.0.0", port);
	struct content content = START;
	uint64_t bytes = 0;
	char line[64];
	int listener = open_socket(SOCK_STREAM, &local, PATIENCE);
	int fd;

	if (listen(listener, 1) < 0)
		err(1, "listen");
	printf("listening\n");
	fflush(stdout);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		err(1, "accept");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = PATIENCE},
		sizeof(struct timeval));
	for (;;) {
		ssize_t part = recv(fd, got, sizeof(got), MSG_WAITALL);

		if (part < 0)
			err(1, "after %llu bytes", (unsigned long long)bytes);
		if (part == 0)
			break;
		fill(&content, want, part / 8);
		if (part % 8 || memcmp(got, want, part))
			errx(1, "wrong content between bytes %llu and %llu",
				(unsigned long long)bytes, (unsigned long long)bytes + part);
		bytes += part;
	}
	snprintf(line, sizeof(line), "%llu bytes, sum %016llx\n", (unsigned long long)bytes,
		(unsigned long long)content.sum);
	if (write(fd, line, strlen(line)) < 0)
		err(1, "answer");
	fputs(line, stdout);
}

static void
tcp_send(const char *host, const char *port, uint64_t bytes)
{
	static uint64_t words[PIECE / 8];
	struct sockaddr_in to = address(host, port);
	struct content content = START;
	char want[64], got[64] = "";
	int fd = open_socket(SOCK_STREAM, NULL, PATIENCE);

	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		err(1, "connect");
	for (uint64_t done = 0; done < bytes;) {
		size_t part = bytes - done < PIECE ? bytes - done : PIECE;

		fill(&content, words, part / 8);
		for (size_t sent = 0; sent < part;) {
			ssize_t more = send(fd, (char *)words + sent, part - sent, MSG_NOSIGNAL);

			if (more < 0)
				err(1, "after %llu bytes", (unsigned long long)(done + sent));
			sent += more;
		}
		done += part;
	}
	shutdown(fd, SHUT_WR);
	snprintf(want, sizeof(want), "%llu bytes, sum %016llx\n", (unsigned long long)bytes,
		(unsigned long long)content.sum);
	if (recv(fd, got, sizeof(got) - 1, MSG_WAITALL) < 0)
		err(1, "no answer");
	if (strcmp(want, got))
		errx(1, "sent %.*s, it says \"%s\"", (int)strcspn(want, "\n"), want, got);
	fputs(got, stdout);
}

/* A datagram of any size from 8 bytes says its number; the rest follows from it. */
static void
datagram(uint8_t *data, uint32_t number, size_t size)
{
	static uint64_t words[PIECE / 8];
	struct content content = {number * 0x9e3779b97f4a7c15 + 1, 0};
	uint32_t head[2] = {htonl(number), htonl(size)};

	fill(&content, words, (size + 7) / 8);
	memcpy(data, words, size);
	memcpy(data, head, sizeof(head));
}

static uint32_t
check_datagram(const uint8_t *data, ssize_t size)
{
	static uint8_t want[PIECE];
	uint32_t head[2];

	if (size < (ssize_t)sizeof(head))
		errx(1, "a datagram of %zd bytes", size);
	memcpy(head, data, sizeof(head));
	datagram(want, ntohl(head[0]), size);
	if (memcmp(data, want, size))
		errx(1, "datagram %u of %zd bytes has wrong content", ntohl(head[0]), size);
	return ntohl(head[0]);
}

static void
udp_serve(const char *port)
{
	static uint8_t data[PIECE];
	struct sockaddr_in local = address("0.0.0.0", port), from;
	int fd = open_socket(SOCK_DGRAM, &local, 0);

	printf("listening\n");
	fflush(stdout);
	for (;;) {
		socklen_t length = sizeof(from);
		ssize_t size =
			recvfrom(fd, data, sizeof(data), 0, (struct sockaddr *)&from, &length);

		if (size < 0)
			err(1, "recvfrom");
		check_datagram(data, size);
		if (sendto(fd, data, size, 0, (struct sockaddr *)&from, length) != size)
			err(1, "sendto");
	}
}

static void
udp_send(const char *host, const char *port, uint32_t count, char **sizes)
{
	static uint8_t data[PIECE];
	struct sockaddr_in to = address(host, port);
	uint32_t number = 0;
	int fd = open_socket(SOCK_DGRAM, NULL, DATAGRAM_PATIENCE);

	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		err(1, "connect");
	for (; *sizes; sizes++) {
		ssize_t size = atoi(*sizes);

		for (uint32_t i = 0; i < count; i++, number++) {
			datagram(data, number, size);
			if (send(fd, data, size, 0) != size)
				err(1, "datagram %u of %zd bytes", number, size);
			memset(data, 0, size);
			if (recv(fd, data, sizeof(data), 0) != size)
				err(1, "datagram %u of %zd bytes did not come back", number, size);
			if (check_datagram(data, size) != number)
				errx(1, "another datagram than %u came back", number);
		}
	}
	printf("%u datagrams came back\n", number);
}

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Take a stream to its end, and answer. */
static void
stream_take(int fd, uint64_t warm_up)
{
	static uint8_t data[PIECE];
	uint64_t bytes = 0, begin = 0, last = 0, counted_from = 0, bytes_before = 0;
	ssize_t part;

	while ((part = recv(fd, data, sizeof(data), 0)) > 0) {
		last = now_ns();
		bytes += part;
		if (begin == 0)
			begin = last;
		if (counted_from == 0 && last - begin >= warm_up) {
			counted_from = last;
			bytes_before = bytes;
		}
	}
	if (part < 0)
		err(1, "after %llu bytes", (unsigned long long)bytes);
	if (counted_from == 0)
		errx(1, "the stream ended in its warm-up");
	dprintf(fd, "%llu bytes, %llu of them in %llu ns\n", (unsigned long long)bytes,
		(unsigned long long)(bytes - bytes_before),
		(unsigned long long)(last - counted_from));
}

static void
stream_serve(const char *port, uint64_t warm_up_ms)
{
	const struct timeval patience = {.tv_sec = PATIENCE};
	struct sockaddr_in local = address("0.0.0.0", port);
	int listener = open_socket(SOCK_STREAM, &local, 0);

	if (listen(listener, 1) < 0)
		err(1, "listen");
	printf("listening\n");
	fflush(stdout);
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			err(1, "accept");
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		stream_take(fd, warm_up_ms * 1000000);
		close(fd);
	}
}

/* A message is a system call. What makes them packets of their own is that the others are far. */
static void
stream_send(const char *host, const char *port, size_t size, uint64_t ms, uint64_t every_us)
{
	static uint8_t message[PIECE];
	struct sockaddr_in to = address(host, port);
	uint64_t messages = 0, bytes = 0, due, end;
	int fd = open_socket(SOCK_STREAM, NULL, PATIENCE);
	int paced = every_us != 0;
	char said[128] = "";

	if (size == 0 || size > sizeof(message))
		errx(2, "a message of %zu bytes", size);
	prctl(PR_SET_TIMERSLACK, 1UL);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &paced, sizeof(paced));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		err(1, "connect");
	for (end = (due = now_ns()) + ms * 1000000; now_ns() < end; due += every_us * 1000) {
		const struct timespec at = {due / 1000000000, due % 1000000000};
		ssize_t part;

		if (paced)
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		part = send(fd, message, size, MSG_NOSIGNAL);
		if (part < 0)
			err(1, "after %llu bytes", (unsigned long long)bytes);
		messages++;
		bytes += part;
	}
	shutdown(fd, SHUT_WR);
	if (recv(fd, said, sizeof(said) - 1, MSG_WAITALL) < 0)
		err(1, "no answer");
	printf("%llu messages, arrived: %s", (unsigned long long)messages, said);
	if (strtoull(said, NULL, 10) != bytes)
		errx(1, "%llu bytes were sent", (unsigned long long)bytes);
}

static void
udp_bad(const char *source, const char *host, const char *port)
{
	struct {
		struct iphdr ip;
		struct udphdr udp;
		char text[22];
	} packet = {.text = "the checksum is wrong"};
	struct sockaddr_in to = address(host, port);
	int fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);

	if (fd < 0)
		err(1, "socket");
	packet.ip = (struct iphdr){.version = 4,
		.ihl = 5,
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.tot_len = htons(sizeof(packet)),
		.saddr = address(source, "0").sin_addr.s_addr,
		.daddr = to.sin_addr.s_addr};
	packet.udp = (struct udphdr){.source = htons(9),
		.dest = to.sin_port,
		.len = htons(sizeof(packet) - sizeof(packet.ip)),
		.check = htons(0x1234)};
	if (sendto(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		err(1, "sendto");
}

int
main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "tcp-serve") && argc == 3)
		tcp_serve(argv[2]);
	else if (!strcmp(mode, "tcp-send") && argc == 5)
		tcp_send(argv[2], argv[3], strtoull(argv[4], NULL, 10) << 20);
	else if (!strcmp(mode, "udp-serve") && argc == 3)
		udp_serve(argv[2]);
	else if (!strcmp(mode, "udp-send") && argc >= 6)
		udp_send(argv[2], argv[3], strtoul(argv[4], NULL, 10), argv + 5);
	else if (!strcmp(mode, "stream-serve") && argc == 4)
		stream_serve(argv[2], strtoull(argv[3], NULL, 10));
	else if (!strcmp(mode, "stream-send") && (argc == 6 || argc == 7))
		stream_send(argv[2], argv[3], strtoull(argv[4], NULL, 10),
			strtoull(argv[5], NULL, 10), argc == 7 ? strtoull(argv[6], NULL, 10) : 0);
	else if (!strcmp(mode, "udp-bad") && argc == 5)
		udp_bad(argv[2], argv[3], argv[4]);
	else
		errx(2, "see the head of test/e2e/guest/peer.c");
	return 0;
}
