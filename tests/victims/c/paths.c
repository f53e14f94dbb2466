// SPDX-License-Identifier: Apache-2.0
/* Paths that lead elsewhere than they say, and opens with side conditions. */
#define _GNU_SOURCE
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

extern char **environ;

static size_t slurp(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY);
	size_t n = 0;
	ssize_t r;

	if (fd < 0) {
		report(path, -1);
		return 0;
	}
	while (n < size - 1 && (r = read(fd, buf + n, size - 1 - n)) > 0)
		n += (size_t)r;
	close(fd);
	buf[n] = 0;
	return n;
}

static long status_pid(const char *path)
{
	static char buf[65536];
	char *p;

	slurp(path, buf, sizeof(buf));
	p = strstr(buf, "\nPid:");
	return p ? strtol(p + 5, NULL, 10) : -1;
}

static void *thread_view(void *arg)
{
	(void)arg;
	printf("thread-self is this thread: %d\n",
	       status_pid("/proc/thread-self/status") == syscall(SYS_gettid));
	return NULL;
}

/* What /proc/self says must be about the one who asks. */
static int run_self(int argc, char **argv)
{
	static char buf[262144], link[4096];
	pthread_t t;
	ssize_t n;
	size_t len;
	int fd;

	(void)argc;
	len = slurp("/proc/self/environ", buf, sizeof(buf));
	printf("environ is this environment: %d\n",
	       len > 0 && environ[0] && !strcmp(buf, environ[0]));
	len = slurp("/proc/self/cmdline", buf, sizeof(buf));
	printf("cmdline names the technique: %d\n",
	       len > 0 && !strcmp(buf + strlen(buf) + 1, argv[0]));
	printf("status has this pid: %d\n",
	       status_pid("/proc/self/status") == getpid());
	printf("task has this pid: %d\n",
	       status_pid("/proc/self/task/../status") == getpid());
	n = readlink("/proc/self/exe", link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = 0;
	slurp("/proc/self/maps", buf, sizeof(buf));
	printf("maps name this program: %d\n", strstr(buf, link) != NULL);
	fd = open("/proc/self", O_RDONLY | O_DIRECTORY);
	fd = openat(fd, "stat", O_RDONLY);
	n = fd < 0 ? 0 : read(fd, buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = 0;
	printf("stat by descriptor has this pid: %d\n", atoi(buf) == getpid());
	pthread_create(&t, NULL, thread_view, NULL);
	pthread_join(t, NULL);
	return 0;
}

/* Opens read-only, then the same file again for writing by its descriptor. */
static int run_reopen(int argc, char **argv)
{
	char path[64];
	int fd;

	if (argc < 3)
		return 64;
	fd = open(argv[2], O_RDONLY);
	report("open", fd < 0 ? fd : 0);
	if (!strcmp(argv[1], "stdin")) {
		dup2(fd, 0);
		strcpy(path, "/dev/stdin");
	} else if (!strcmp(argv[1], "devfd")) {
		snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	} else if (!strcmp(argv[1], "opath")) {
		close(fd);
		fd = open(argv[2], O_PATH);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	} else {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	fd = open(path, O_RDWR);
	report("reopen", fd < 0 ? fd : 0);
	if (fd >= 0)
		report("write", write(fd, "changed\n", 8));
	return fd < 0;
}

static int patched(void)
{
	return 1;
}

/* Writes over its own code through a mem file. */
static int run_mem(int argc, char **argv)
{
	char path[64], code[64];
	uintptr_t at = (uintptr_t)patched;
	int fd;

	if (argc < 2)
		return 64;
	if (!strcmp(argv[1], "pid"))
		snprintf(path, sizeof(path), "/proc/%d/mem", getpid());
	else if (!strcmp(argv[1], "parent"))
		snprintf(path, sizeof(path), "/proc/%d/mem", getppid());
	else
		snprintf(path, sizeof(path), "/proc/%s/mem", argv[1]);
	fd = open(path, O_RDWR);
	report("mem", fd < 0 ? fd : 0);
	if (fd < 0)
		return 1;
	if (!strcmp(argv[1], "parent"))
		return 0;
	memcpy(code, (void *)at, 16);
	report("pwrite", pwrite(fd, code, 16, (off_t)at));
	return 0;
}

/* A nameless file, then a name for it in a directory of its own choosing. */
static int run_tmpfile(int argc, char **argv)
{
	char path[64];
	int fd;
	long ret;

	if (argc < 4)
		return 64;
	fd = open(argv[2], O_TMPFILE | O_RDWR, 0755);
	report("tmpfile", fd < 0 ? fd : 0);
	if (fd < 0)
		return 1;
	dprintf(fd, "#!/bin/sh\n");
	if (!strcmp(argv[1], "empty")) {
		ret = linkat(fd, "", AT_FDCWD, argv[3], AT_EMPTY_PATH);
	} else {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ret = linkat(AT_FDCWD, path, AT_FDCWD, argv[3],
			     AT_SYMLINK_FOLLOW);
	}
	report("linkat", ret);
	return ret < 0;
}

/* Goes through a path-only descriptor of DIR. */
static int run_opath(int argc, char **argv)
{
	char *args[] = { "tool", NULL }, *env[] = { NULL };
	int dir, fd = -1;
	long ret;

	if (argc < 4)
		return 64;
	dir = open(argv[2], O_PATH | O_DIRECTORY);
	report("opath", dir < 0 ? dir : 0);
	if (dir < 0)
		return 1;
	if (!strcmp(argv[1], "openat")) {
		ret = fd = openat(dir, argv[3], O_RDONLY);
	} else if (!strcmp(argv[1], "fchdir")) {
		report("fchdir", fchdir(dir));
		ret = fd = open(argv[3], O_RDONLY);
	} else if (!strcmp(argv[1], "execveat")) {
		ret = syscall(SYS_execveat, dir, argv[3], args, env, 0);
	} else {
		ret = fchmodat(dir, argv[3], 0777, 0);
	}
	report(argv[1], ret < 0 ? ret : 0);
	if (fd >= 0)
		show(fd);
	return ret < 0;
}

static const char *fifo;

static void *open_fifo(void *arg)
{
	*(int *)arg = open(fifo, O_RDONLY);
	return NULL;
}

/* One thread waits in open(2) for a writer while the other goes on opening. */
static int run_fifo(int argc, char **argv)
{
	pthread_t t;
	long n, ok = 0;
	int fd = -1, w;
	char c = 0;

	if (argc < 4)
		return 64;
	n = number(argv[1]);
	fifo = argv[2];
	if (mkfifo(fifo, 0644))
		die("mkfifo");
	pthread_create(&t, NULL, open_fifo, &fd);
	usleep(50000);
	for (long i = 0; i < n; i++) {
		int f = open(argv[3], O_RDONLY);

		ok += f >= 0;
		close(f);
	}
	printf("opened while waiting: %ld of %ld\n", ok, n);
	w = open(fifo, O_WRONLY);
	report("writer", w < 0 ? w : 0);
	pthread_join(t, NULL);
	report("reader", fd < 0 ? fd : 0);
	if (write(w, "x", 1) == 1 && read(fd, &c, 1) == 1)
		printf("passed: %c\n", c);
	return 0;
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* An open that waits is broken off by a signal; a killed waiter is gone. */
static int run_fifo_signal(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	int status = 0, fd;
	pid_t pid;

	if (argc < 2)
		return 64;
	if (mkfifo(argv[1], 0644))
		die("mkfifo");
	sigaction(SIGALRM, &sa, NULL);
	alarm(1);
	fd = open(argv[1], O_RDONLY);
	report("interrupted", fd < 0 ? fd : 0);
	pid = fork();
	if (!pid) {
		open(argv[1], O_RDONLY);
		_exit(0);
	}
	usleep(200000);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	printf("killed: %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	fd = open(argv[1], O_WRONLY | O_NONBLOCK);
	report("no reader left", fd < 0 ? fd : 0);
	return 0;
}

/* Ways to make a file, each with the mode and the owner that came of it. */
static int run_create(int argc, char **argv)
{
	static const mode_t masks[] = { 0, 022, 077, 0777 };
	static const mode_t modes[] = { 0600, 0644, 0777, 02755, 04711, 0 };
	/* user::rwx user:65533:rw- group::r-x mask::rwx other::--- */
	static const unsigned char acl[] = {
		2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2,	 0, 6,
		0, 253, 255, 0, 0, 4, 0, 5, 0, 255, 255, 255, 255, 16, 0,
		7, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
	};
	char name[64];
	struct stat st;

	if (argc < 3 || chdir(argv[1]))
		die("chdir");
	if (argc > 3 && !strcmp(argv[3], "acl"))
		report("acl", setxattr(".", "system.posix_acl_default", acl,
				       sizeof(acl), 0));
	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++)
		for (size_t j = 0; j < sizeof(modes) / sizeof(modes[0]); j++) {
			int fd;

			if (modes[j] > 0777 && strcmp(argv[2], "all"))
				continue;
			umask(masks[i]);
			snprintf(name, sizeof(name), "f-%o-%o", masks[i],
				 modes[j]);
			fd = open(name, O_CREAT | O_EXCL | O_WRONLY, modes[j]);
			if (fd < 0 || fstat(fd, &st)) {
				report(name, -1);
				continue;
			}
			printf("%s: mode=%o uid=%d gid=%d\n", name, st.st_mode,
			       st.st_uid, st.st_gid);
			close(fd);
			snprintf(name, sizeof(name), "d-%o-%o", masks[i],
				 modes[j]);
			if (mkdir(name, modes[j]) || stat(name, &st)) {
				report(name, -1);
				continue;
			}
			printf("%s: mode=%o uid=%d gid=%d\n", name, st.st_mode,
			       st.st_uid, st.st_gid);
		}
	return 0;
}

const struct technique paths_techniques[] = {
	{ "self", run_self, "" },
	{ "reopen", run_reopen, "proc|devfd|stdin|opath PATH" },
	{ "mem", run_mem, "self|thread-self|pid|parent" },
	{ "tmpfile", run_tmpfile, "empty|proc DIR NAME" },
	{ "opath", run_opath, "openat|fchdir|execveat|fchmodat DIR NAME" },
	{ "fifo", run_fifo, "N FIFO FILE" },
	{ "fifo-signal", run_fifo_signal, "FIFO" },
	{ "create", run_create, "DIR plain|all [acl]" },
	{ 0 },
};
