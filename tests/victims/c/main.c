// SPDX-License-Identifier: Apache-2.0
#include "victim.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct technique *const tables[] = {
	abi_techniques,	  call_techniques,  exec_techniques,  flip_techniques,
	net_techniques,	  paths_techniques, procs_techniques, swap_techniques,
	tty_techniques,	  uring_techniques, loop_techniques,
	appear_techniques, creds_techniques, pts_techniques, sched_techniques,
	shm_techniques,	  sockets_techniques, stalls_techniques,
	peers_techniques, limits_techniques,
};

void report(const char *what, long ret)
{
	printf("%s: ret=%ld errno=%d\n", what, ret, ret < 0 ? errno : 0);
	fflush(stdout);
}

void die(const char *what)
{
	printf("%s: ret=-1 errno=%d\n", what, errno);
	fflush(stdout);
	_exit(70);
}

long number(const char *s)
{
	if (s[0] == '-')
		return strtol(s, NULL, 0);
	return (long)strtoul(s, NULL, 0);
}

void show(int fd)
{
	char buf[512];
	ssize_t n = read(fd, buf, sizeof(buf) - 1);

	if (n < 0) {
		report("read", n);
		return;
	}
	buf[n] = 0;
	printf("content: %s%s", buf, n && buf[n - 1] == '\n' ? "" : "\n");
	fflush(stdout);
}

int holds_secret(int fd)
{
	char buf[256];
	ssize_t n = pread(fd, buf, sizeof(buf) - 1, 0);

	if (n <= 0)
		return 0;
	buf[n] = 0;
	return strstr(buf, SECRET_MARKER) != NULL;
}

void spawn_thread(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	errno = pthread_create(&t, NULL, fn, arg);
	if (errno)
		die("pthread_create");
	pthread_detach(t);
}

static volatile long *moves; /* shared with all that we make */

void contested(void)
{
	void *m = mmap(NULL, sizeof(*moves), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		die("mmap");
	moves = m;
}

void moved(void)
{
	++*moves;
}

int under_way(long i, long n)
{
	static long seen, met;

	if (moves && *moves != seen) {
		seen = *moves;
		met++;
	}
	if (i < n)
		return 1;
	if (!moves || met >= MEETINGS)
		return 0;
	usleep(1000); /* it is its turn */
	return 1;
}

static int usage(void)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct technique *t = tables[i]; t->name; t++)
			fprintf(stderr, "victim %s %s\n", t->name, t->usage);
	return 64;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return usage();
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const struct technique *t = tables[i]; t->name; t++)
			if (!strcmp(t->name, argv[1]))
				return t->run(argc - 1, argv + 1);
	fprintf(stderr, "victim: no technique %s\n", argv[1]);
	return usage();
}
