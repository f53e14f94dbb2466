// SPDX-License-Identifier: Apache-2.0
/* One operation many times over, and how long each took. */
#define _GNU_SOURCE
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int listener;
static struct sockaddr_in own;

static void *accept_all(void *arg)
{
	(void)arg;
	for (;;)
		close(accept(listener, NULL, NULL));
	return NULL;
}

static void listen_own(void)
{
	socklen_t len = sizeof(own);

	listener = socket(AF_INET, SOCK_STREAM, 0);
	own.sin_family = AF_INET;
	own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&own, sizeof(own)) ||
	    listen(listener, 1024) ||
	    getsockname(listener, (struct sockaddr *)&own, &len))
		die("listen");
	spawn_thread(accept_all, NULL);
}

static int do_open(const char *path)
{
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		return -1;
	return close(fd);
}

static int do_write(const char *path)
{
	int fd = open(path, O_RDWR);

	if (fd < 0)
		return -1;
	return close(fd);
}

static int do_stat(const char *path)
{
	struct stat st;

	return stat(path, &st);
}

static int do_exec(const char *path)
{
	char *args[] = { "victim", "ran", NULL }, *env[] = { NULL };
	int status = 0;
	pid_t pid = vfork();

	if (!pid) {
		execve(path, args, env);
		_exit(1);
	}
	return waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) != 1 ? 0 :
									   -1;
}

static int do_connect(const char *path)
{
	struct linger off = { .l_onoff = 1 };
	int fd = socket(AF_INET, SOCK_STREAM, 0), ret;

	(void)path;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
	ret = connect(fd, (struct sockaddr *)&own, sizeof(own));
	close(fd);
	return ret;
}

static int run_loop(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const char *path);
	} kinds[] = {
		{ "open", do_open },   { "write", do_write },
		{ "stat", do_stat },   { "exec", do_exec },
		{ "connect", do_connect },
	};
	struct timespec a, b;
	long n, failed = 0;
	size_t k = 0;

	if (argc < 4)
		return 64;
	n = number(argv[2]);
	while (k < sizeof(kinds) / sizeof(kinds[0]) &&
	       strcmp(kinds[k].name, argv[1]))
		k++;
	if (k == sizeof(kinds) / sizeof(kinds[0]))
		return 64;
	if (kinds[k].run == do_connect)
		listen_own();
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (long i = 0; i < n; i++)
		failed += kinds[k].run(argv[3]) != 0;
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("each_ns=%.0f failed=%ld\n",
	       ((double)(b.tv_sec - a.tv_sec) * 1e9 +
		(double)(b.tv_nsec - a.tv_nsec)) /
		       (double)n,
	       failed);
	return failed != 0;
}

const struct technique loop_techniques[] = {
	{ "loop", run_loop, "open|write|stat|exec|connect N PATH" },
	{ 0 },
};
