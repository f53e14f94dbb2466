// SPDX-License-Identifier: Apache-2.0
/* Processes that outlive, hide from, stop, kill or crowd their supervisor. */
#define _GNU_SOURCE
#include "victim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A grandchild in its own session sleeps, then reads SECRET and notes it. */
static int run_daemon(int argc, char **argv)
{
	int fd, secret;
	pid_t pid;

	if (argc < 5)
		return 64;
	pid = fork();
	if (pid) {
		waitpid(pid, NULL, 0);
		usleep((useconds_t)number(argv[4]) * 1000);
		return 0;
	}
	setsid();
	if (fork())
		_exit(0);
	fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	dprintf(fd, "pid=%d\n", getpid());
	usleep((useconds_t)number(argv[3]) * 1000);
	secret = open(argv[2], O_RDONLY);
	dprintf(fd, "secret=%d errno=%d\n", secret < 0 ? -1 : 0,
		secret < 0 ? errno : 0);
	_exit(0);
}

static void beat(int fd, const char *secret)
{
	for (;;) {
		int s = open(secret, O_RDONLY);

		dprintf(fd, "%d %s\n", getpid(),
			s < 0 ? "denied" : holds_secret(s) ? "LEAKED" : "empty");
		if (s >= 0)
			close(s);
		usleep(5000);
	}
}

/* Tries to read SECRET for ever, from three processes, and notes each try. */
static int run_beat(int argc, char **argv)
{
	int fd;

	if (argc < 3)
		return 64;
	fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd < 0)
		die("open");
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (!fork())
		beat(fd, argv[2]);
	if (!fork()) {
		setsid();
		if (!fork())
			beat(fd, argv[2]);
		_exit(0);
	}
	beat(fd, argv[2]);
	return 0;
}

/* Reads and writes the memory of PID without a descriptor. */
static int run_vm(int argc, char **argv)
{
	char buf[8];
	struct iovec local = { buf, sizeof(buf) };
	struct iovec remote = { (void *)0x400000, sizeof(buf) };
	pid_t pid;
	long ret;

	if (argc < 3)
		return 64;
	pid = !strcmp(argv[2], "ppid") ? getppid() : (pid_t)number(argv[2]);
	if (!strcmp(argv[1], "read"))
		ret = process_vm_readv(pid, &local, 1, &remote, 1, 0);
	else
		ret = process_vm_writev(pid, &local, 0, &remote, 0, 0);
	report(argv[1], ret);
	return ret < 0;
}

/* Lists its own descriptors and what they are. */
static int run_fds(int argc, char **argv)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;

	(void)argc;
	(void)argv;
	if (!d)
		die("opendir");
	while ((e = readdir(d))) {
		char what[4096] = { 0 };
		int fd = atoi(e->d_name);

		if (e->d_name[0] == '.' || fd == dirfd(d))
			continue;
		if (readlinkat(dirfd(d), e->d_name, what, sizeof(what) - 1) < 0)
			continue;
		printf("fd %d %s\n", fd, fd > 2 ? what : "standard");
	}
	return 0;
}

/* Makes its memory unreadable for others of its user, then opens. */
static int run_dumpable(int argc, char **argv)
{
	int fd;

	if (argc < 2)
		return 64;
	report("prctl", prctl(PR_SET_DUMPABLE, 0));
	fd = open(argv[1], O_RDONLY);
	report("open", fd < 0 ? fd : 0);
	if (fd >= 0)
		show(fd);
	return fd < 0;
}

struct score {
	atomic_long good, good_refused, bad_opened, bad_refused;
};

static void open_both(struct score *s, const char *good, const char *bad, int odd)
{
	for (;;) {
		int fd = open(odd ? bad : good, O_RDONLY);

		if (odd) {
			if (fd >= 0 && holds_secret(fd))
				s->bad_opened++;
			else
				s->bad_refused++;
		} else {
			if (fd >= 0 && !holds_secret(fd))
				s->good++;
			else
				s->good_refused++;
		}
		if (fd >= 0)
			close(fd);
	}
}

/*
 * N children open for ever, the even ones GOOD, the odd ones BAD, and are
 * stopped, continued and killed at any moment; a killed one is replaced, so
 * that its pid and its place are soon another's.
 */
static int run_storm(int argc, char **argv)
{
	struct score *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long n, turns, forks = 0;
	pid_t *kids;

	if (argc < 5)
		return 64;
	n = number(argv[1]);
	turns = number(argv[2]);
	kids = calloc((size_t)n, sizeof(*kids));
	srand(1);
	for (long t = 0; t < turns; t++) {
		long k = rand() % n;

		if (!kids[k]) {
			forks++;
			kids[k] = fork();
			if (!kids[k])
				open_both(s, argv[3], argv[4], (int)(k % 2));
			if (kids[k] < 0)
				die("fork");
			continue;
		}
		if (rand() % 3) {
			kill(kids[k], SIGSTOP);
			if (rand() % 2)
				usleep((useconds_t)(rand() % 300));
			kill(kids[k], SIGCONT);
		} else {
			kill(kids[k], SIGKILL);
			waitpid(kids[k], NULL, 0);
			kids[k] = 0;
		}
	}
	/* One of each kind at least has had its turn. */
	for (long k = 0; k < 2 && k < n; k++)
		if (!kids[k] && !(kids[k] = fork()))
			open_both(s, argv[3], argv[4], (int)(k % 2));
	while (!(s->good + s->good_refused) || !(s->bad_opened + s->bad_refused))
		usleep(1000);
	for (long k = 0; k < n; k++)
		if (kids[k] > 0) {
			kill(kids[k], SIGKILL);
			waitpid(kids[k], NULL, 0);
		}
	printf("forks=%ld good=%d refused=%ld reached=%ld\n", forks,
	       s->good > 0, (long)s->good_refused, (long)s->bad_opened);
	return 0;
}

static const char *thread_path;
static atomic_long thread_ok;

static void *open_once(void *arg)
{
	int fd = open(thread_path, O_RDONLY);

	(void)arg;
	if (fd >= 0) {
		thread_ok++;
		close(fd);
	}
	usleep(1000);
	return NULL;
}

/* N threads at once, each with one open. */
static int run_threads(int argc, char **argv)
{
	pthread_attr_t attr;
	long n, made = 0;
	pthread_t *t;

	if (argc < 3)
		return 64;
	n = number(argv[1]);
	thread_path = argv[2];
	t = calloc((size_t)n, sizeof(*t));
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (long i = 0; i < n; i++)
		made += !pthread_create(&t[i], &attr, open_once, NULL);
	for (long i = 0; i < made; i++)
		pthread_join(t[i], NULL);
	printf("threads=%ld opened=%ld\n", made, (long)thread_ok);
	return 0;
}

/* A child that asks not to be traced reads SECRET. */
static int run_untraced(int argc, char **argv)
{
	pid_t pid;

	if (argc < 2)
		return 64;
	pid = (pid_t)syscall(SYS_clone, 0x00800000 | SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		int fd = open(argv[1], O_RDONLY);

		report("untraced", fd < 0 ? fd : 0);
		if (fd >= 0)
			show(fd);
		_exit(0);
	}
	if (pid < 0)
		die("clone");
	waitpid(pid, NULL, 0);
	return 0;
}

/* Becomes CMD with descriptor FD connected to a socket of its parent. */
static int run_hold(int argc, char **argv)
{
	int pair[2];

	if (argc < 3 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("socketpair");
	if (dup2(pair[0], (int)number(argv[1])) < 0)
		die("dup2");
	close(pair[0]);
	fcntl(pair[1], F_SETFD, FD_CLOEXEC);
	execvp(argv[2], argv + 2);
	die("exec");
}

/* Exits with N, or by signal N. */
static int run_exit(int argc, char **argv)
{
	if (argc < 3)
		return 64;
	if (strcmp(argv[1], "signal"))
		return (int)number(argv[2]);
	signal((int)number(argv[2]), SIG_DFL);
	kill(getpid(), (int)number(argv[2]));
	pause();
	return 0;
}

/*
 * Leaves behind a chain of processes, each of which forks the next and exits, for so
 * many seconds or until the file PATH is gone, and then makes PATH.end. With "open" each
 * opens the file.
 */
static int run_chain(int argc, char **argv)
{
	time_t end = time(NULL) + number(argv[1]);
	int opens = argc > 3 && !strcmp(argv[3], "open"), n = 0;
	char over[4096];

	if (argc < 3)
		return 64;
	snprintf(over, sizeof over, "%s.end", argv[2]);
	signal(SIGTERM, SIG_IGN);
	if (fork())
		return 0;
	setsid();
	while (time(NULL) < end && (++n % 64 || !access(argv[2], F_OK))) {
		if (fork() > 0)
			_exit(0);
		if (opens)
			close(open(argv[2], O_RDONLY));
	}
	close(open(over, O_WRONLY | O_CREAT, 0644));
	_exit(0);
}

const struct technique procs_techniques[] = {
	{ "chain", run_chain, "SECONDS PATH [open]" },
	{ "daemon", run_daemon, "NOTES SECRET SLEEP-MS STAY-MS" },
	{ "beat", run_beat, "NOTES SECRET" },
	{ "vm", run_vm, "read|write PID|ppid" },
	{ "fds", run_fds, "" },
	{ "dumpable", run_dumpable, "PATH" },
	{ "storm", run_storm, "N TURNS GOOD BAD" },
	{ "threads", run_threads, "N PATH" },
	{ "untraced", run_untraced, "PATH" },
	{ "hold", run_hold, "FD CMD..." },
	{ "exit", run_exit, "status|signal N" },
	{ 0 },
};
