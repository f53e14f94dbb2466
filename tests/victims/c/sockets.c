// SPDX-License-Identifier: Apache-2.0
/*
 * Sockets of others under cover of one's own: the same port at another
 * address, the same name with another type, another name for the same file,
 * and a name that changes while it is bound.
 */
#define _GNU_SOURCE
#include "victim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static socklen_t inet_name(struct sockaddr_storage *to, const char *addr,
			   const char *port)
{
	struct sockaddr_in6 *in6 = (void *)to;
	struct sockaddr_in *in = (void *)to;

	memset(to, 0, sizeof(*to));
	if (inet_pton(AF_INET6, addr, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((in_port_t)number(port));
		return sizeof(*in6);
	}
	memset(to, 0, sizeof(*to));
	in->sin_family = AF_INET;
	in->sin_port = htons((in_port_t)number(port));
	inet_pton(AF_INET, addr, &in->sin_addr);
	return sizeof(*in);
}

/* Listens at ADDRESS and PORT, then connects to that port of TO. */
static int run_twin(int argc, char **argv)
{
	struct sockaddr_storage own, to;
	socklen_t own_len, to_len;
	int l, c, on = 1;

	if (argc < 4)
		return 64;
	own_len = inet_name(&own, argv[1], argv[2]);
	to_len = inet_name(&to, argv[3], argv[2]);
	l = socket(own.ss_family, SOCK_STREAM, 0);
	if (own.ss_family == AF_INET6)
		setsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	report("bind", bind(l, (struct sockaddr *)&own, own_len));
	report("listen", listen(l, 8));
	c = socket(to.ss_family, SOCK_STREAM, 0);
	report("connect", connect(c, (struct sockaddr *)&to, to_len));
	return 0;
}

static int connect_stream(const struct sockaddr_un *un, socklen_t len)
{
	int c = socket(AF_UNIX, SOCK_STREAM, 0);
	int ret = connect(c, (const struct sockaddr *)un, len);

	report("connect", ret);
	close(c);
	return ret;
}

/* Binds the abstract NAME as datagram or stream, then connects to it. */
static int run_abstract(int argc, char **argv)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	socklen_t len;
	int own;

	if (argc < 3 || strlen(argv[2]) > sizeof(un.sun_path) - 1)
		return 64;
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			  strlen(argv[2]));
	memcpy(un.sun_path + 1, argv[2], strlen(argv[2]));
	own = socket(AF_UNIX,
		     strcmp(argv[1], "stream") ? SOCK_DGRAM : SOCK_STREAM, 0);
	report("bind", bind(own, (struct sockaddr *)&un, len));
	listen(own, 8);
	return connect_stream(&un, len) != 0;
}

/*
 * Gives the socket file FROM the name TO, and connects there. A TO that begins
 * with "tmp/" stands in the directory for temporary files.
 */
static int run_adopt(int argc, char **argv)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const char *tmp = getenv("TMPDIR");
	long ret;

	if (argc < 4)
		return 64;
	if (strncmp(argv[3], "tmp/", 4))
		snprintf(un.sun_path, sizeof(un.sun_path), "%s", argv[3]);
	else
		snprintf(un.sun_path, sizeof(un.sun_path), "%s/%s",
			 tmp ? tmp : "/tmp", argv[3] + 4);
	if (!strcmp(argv[1], "link"))
		ret = link(argv[2], un.sun_path);
	else
		ret = rename(argv[2], un.sun_path);
	report(argv[1], ret);
	ret = connect_stream(&un, sizeof(un));
	unlink(un.sun_path);
	return ret != 0;
}

static struct sockaddr_un shared = { .sun_family = AF_UNIX };
static const char *good, *bad;
static size_t from, upto;

static void *flip(void *arg)
{
	(void)arg;
	for (;;) {
		memcpy(shared.sun_path + from, bad + from, upto - from);
		moved();
		for (volatile int i = 0; i < 600; i++)
			;
		memcpy(shared.sun_path + from, good + from, upto - from);
		for (volatile int i = 0; i < 600; i++)
			;
	}
	return NULL;
}

/* Binds N times to GOOD, of the length of BAD, while it flips to BAD. */
static int run_bind_flip(int argc, char **argv)
{
	long i, n, bound = 0, reached = 0;
	struct stat st;

	if (argc < 4 || strlen(argv[2]) != strlen(argv[3]))
		return 64;
	n = number(argv[1]);
	good = argv[2];
	bad = argv[3];
	upto = strlen(good);
	while (good[from] == bad[from])
		from++;
	while (good[upto - 1] == bad[upto - 1])
		upto--;
	strcpy(shared.sun_path, good);
	contested();
	spawn_thread(flip, NULL);
	for (i = 0; under_way(i, n); i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		bind(fd, (struct sockaddr *)&shared, sizeof(shared));
		close(fd);
		bound += !unlink(good);
		if (!lstat(bad, &st)) {
			reached++;
			unlink(bad);
		}
	}
	printf("attempts=%ld opened=%ld reached=%ld\n", i, bound, reached);
	return 0;
}

const struct technique sockets_techniques[] = {
	{ "twin", run_twin, "ADDRESS PORT TO" },
	{ "abstract", run_abstract, "stream|datagram NAME" },
	{ "adopt", run_adopt, "link|rename FROM TO" },
	{ "bind-flip", run_bind_flip, "N GOOD BAD" },
	{ 0 },
};
