// SPDX-License-Identifier: Apache-2.0
/* What a call must leave alone when a limit of the task makes it fail. */
#define _GNU_SOURCE
#include "victim.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static long length(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : (long)st.st_size;
}

static void limit(int which, rlim_t n)
{
	struct rlimit r = { n, n };

	if (setrlimit(which, &r))
		die("setrlimit");
}

/* With no descriptor left FILE keeps its content, and NEW is not made. */
static int run_full_table(int argc, char **argv)
{
	int fd;

	if (argc < 3)
		return 64;
	limit(RLIMIT_NOFILE, 20);
	while ((fd = dup(0)) >= 0)
		;
	report("read", open(argv[1], O_RDONLY));
	report("truncate", open(argv[1], O_WRONLY | O_TRUNC));
	report("create", open(argv[2], O_WRONLY | O_CREAT | O_EXCL, 0644));
	printf("length=%ld new=%ld\n", length(argv[1]), length(argv[2]));
	close(10);
	report("create with room", open(argv[2], O_WRONLY | O_CREAT | O_EXCL, 0644));
	return 0;
}

/* FILE grows to the limit and shrinks, but does not grow beyond it. */
static int run_file_size(int argc, char **argv)
{
	if (argc < 2)
		return 64;
	signal(SIGXFSZ, SIG_IGN);
	limit(RLIMIT_FSIZE, 10);
	report("beyond", truncate(argv[1], 100));
	report("to it", truncate(argv[1], 10));
	printf("length=%ld\n", length(argv[1]));
	fflush(stdout);
	signal(SIGXFSZ, SIG_DFL);
	truncate(argv[1], 100);
	return 0;
}

const struct technique limits_techniques[] = {
	{ "full-table", run_full_table, "FILE NEW" },
	{ "file-size", run_file_size, "FILE" },
	{ 0 },
};
