// SPDX-License-Identifier: Apache-2.0
/* Addresses that change, hide in messages, or name a socket by path. */
#define _GNU_SOURCE
#include "victim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_in addr = { .sin_family = AF_INET };
static in_port_t own_port, other_port;
static int listener;

static void *flip_port(void *arg)
{
	volatile in_port_t *port = &addr.sin_port;

	(void)arg;
	for (;;) {
		*port = other_port;
		moved();
		for (volatile int i = 0; i < 60; i++)
			;
		*port = own_port;
		for (volatile int i = 0; i < 60; i++)
			;
	}
	return NULL;
}

static void *accept_all(void *arg)
{
	(void)arg;
	for (;;)
		close(accept(listener, NULL, NULL));
	return NULL;
}

static int listen_loopback(struct sockaddr_in *sin, int type)
{
	socklen_t len = sizeof(*sin);
	int fd = socket(AF_INET, type, 0);

	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)sin, sizeof(*sin)))
		die("bind");
	if (type == SOCK_STREAM && listen(fd, 1024))
		die("listen");
	if (getsockname(fd, (struct sockaddr *)sin, &len))
		die("getsockname");
	return fd;
}

/* Connects N times to its own listener while the port flips to PORT. */
static int run_connect_flip(int argc, char **argv)
{
	struct linger off = { .l_onoff = 1 };
	struct sockaddr_in sin = { 0 }, peer;
	long i, n, ok = 0, reached = 0;

	if (argc < 3)
		return 64;
	n = number(argv[1]);
	other_port = htons((in_port_t)number(argv[2]));
	listener = listen_loopback(&sin, SOCK_STREAM);
	own_port = sin.sin_port;
	addr = sin;
	spawn_thread(accept_all, NULL);
	contested();
	spawn_thread(flip_port, NULL);
	for (i = 0; under_way(i, n); i++) {
		socklen_t len = sizeof(peer);
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
		if (!connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
			ok++;
			if (!getpeername(fd, (struct sockaddr *)&peer, &len))
				reached += peer.sin_port == other_port;
		}
		close(fd);
	}
	printf("attempts=%ld opened=%ld reached=%ld\n", i, ok, reached);
	return 0;
}

/* Sends datagrams N times to its own socket while the port flips to PORT. */
static int run_send_flip(int argc, char **argv)
{
	struct sockaddr_in sin = { 0 };
	long i, n, ok = 0;
	char c[16];
	int fd;

	if (argc < 3)
		return 64;
	n = number(argv[1]);
	other_port = htons((in_port_t)number(argv[2]));
	listener = listen_loopback(&sin, SOCK_DGRAM);
	own_port = sin.sin_port;
	addr = sin;
	contested();
	spawn_thread(flip_port, NULL);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	for (i = 0; under_way(i, n); i++) {
		ok += sendto(fd, "x", 1, 0, (struct sockaddr *)&addr,
			     sizeof(addr)) == 1;
		while (recv(listener, c, sizeof(c), MSG_DONTWAIT) > 0)
			;
	}
	/* Who received them is known to the one behind PORT only. */
	printf("attempts=%ld opened=%ld reached=0\n", i, ok);
	return 0;
}

static socklen_t parse(const char *where, const char *arg, void *sa, int *family)
{
	struct sockaddr_un *un = sa;
	struct sockaddr_in *in = sa;
	struct sockaddr_in6 *in6 = sa;

	memset(sa, 0, sizeof(struct sockaddr_storage));
	if (!strcmp(where, "unix")) {
		*family = un->sun_family = AF_UNIX;
		if (strlen(arg) < sizeof(un->sun_path))
			strcpy(un->sun_path, arg);
		else
			memcpy(un->sun_path, arg, sizeof(un->sun_path));
		if (un->sun_path[0] == '@')
			un->sun_path[0] = 0;
		/* A path that fills the field has no NUL, as the kernel allows. */
		return (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				   strnlen(arg, sizeof(un->sun_path)));
	}
	if (!strcmp(where, "inet6")) {
		*family = in6->sin6_family = AF_INET6;
		in6->sin6_addr = in6addr_loopback;
		in6->sin6_port = htons((in_port_t)number(arg));
		return sizeof(*in6);
	}
	if (!strcmp(where, "mapped")) {
		*family = in6->sin6_family = AF_INET6;
		inet_pton(AF_INET6, "::ffff:127.0.0.1", &in6->sin6_addr);
		in6->sin6_port = htons((in_port_t)number(arg));
		return sizeof(*in6);
	}
	*family = in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in->sin_port = htons((in_port_t)number(arg));
	return sizeof(*in);
}

/* Gives one datagram or stream a destination, in each way there is. */
static int run_send(int argc, char **argv)
{
	struct sockaddr_storage to;
	struct iovec iov = { "hello", 5 };
	struct mmsghdr mm = { 0 };
	int family, fd, type = SOCK_DGRAM;
	socklen_t len;
	long ret = -1;

	if (argc < 4)
		return 64;
	len = parse(argv[2], argv[3], &to, &family);
	if (!strcmp(argv[1], "stream") || !strcmp(argv[1], "fastopen"))
		type = SOCK_STREAM;
	fd = socket(family, type, 0);
	if (fd < 0)
		die("socket");
	mm.msg_hdr.msg_name = &to;
	mm.msg_hdr.msg_namelen = len;
	mm.msg_hdr.msg_iov = &iov;
	mm.msg_hdr.msg_iovlen = 1;
	if (!strcmp(argv[1], "connect") || !strcmp(argv[1], "stream"))
		ret = connect(fd, (struct sockaddr *)&to, len);
	else if (!strcmp(argv[1], "sendto"))
		ret = sendto(fd, "hello", 5, 0, (struct sockaddr *)&to, len);
	else if (!strcmp(argv[1], "fastopen"))
		ret = sendto(fd, "hello", 5, MSG_FASTOPEN, (struct sockaddr *)&to,
			     len);
	else if (!strcmp(argv[1], "sendmsg"))
		ret = sendmsg(fd, &mm.msg_hdr, 0);
	else if (!strcmp(argv[1], "sendmmsg"))
		ret = sendmmsg(fd, &mm, 1, 0);
	report(argv[1], ret);
	return ret < 0;
}

/* Listens, says where, connects to itself and passes a word through. */
static int run_listen(int argc, char **argv)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM, 0), c, s;
	char buf[8] = { 0 };
	long ret;

	if (argc < 3)
		return 64;
	inet_pton(AF_INET, argv[1], &sin.sin_addr);
	sin.sin_port = htons((in_port_t)number(argv[2]));
	ret = bind(fd, (struct sockaddr *)&sin, sizeof(sin));
	report("bind", ret);
	if (ret)
		return 1;
	report("listen", listen(fd, 8));
	getsockname(fd, (struct sockaddr *)&sin, &len);
	printf("port=%d\n", ntohs(sin.sin_port));
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	c = socket(AF_INET, SOCK_STREAM, 0);
	ret = connect(c, (struct sockaddr *)&sin, sizeof(sin));
	report("connect", ret);
	if (ret)
		return 1;
	s = accept(fd, NULL, NULL);
	if (write(c, "word", 4) == 4 && read(s, buf, 4) == 4)
		printf("passed: %s\n", buf);
	return 0;
}

/* Listens on a unix socket at PATH and connects to it. */
static int run_unix(int argc, char **argv)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), c;
	long ret;

	if (argc < 2 || strlen(argv[1]) > sizeof(un.sun_path))
		return 64;
	memcpy(un.sun_path, argv[1], strlen(argv[1]));
	ret = bind(fd, (struct sockaddr *)&un, sizeof(un));
	report("bind", ret);
	if (ret)
		return 1;
	report("listen", listen(fd, 8));
	c = socket(AF_UNIX, SOCK_STREAM, 0);
	report("connect", connect(c, (struct sockaddr *)&un, sizeof(un)));
	return 0;
}

const struct technique net_techniques[] = {
	{ "connect-flip", run_connect_flip, "N PORT" },
	{ "send-flip", run_send_flip, "N PORT" },
	{ "send", run_send,
	  "connect|stream|sendto|fastopen|sendmsg|sendmmsg "
	  "unix|inet|inet6|mapped PATH|PORT" },
	{ "listen", run_listen, "ADDRESS PORT" },
	{ "unix", run_unix, "PATH" },
	{ 0 },
};
