// SPDX-License-Identifier: Apache-2.0
/* What holds one task up, and how long another waits meanwhile. */
#define _GNU_SOURCE
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Opens PATH again and again for so long, twice at least, and says the longest wait. */
static void stand_by(const char *path, double seconds)
{
	double began = now(), worst = 0;
	long opened = 0, failed = 0;

	do {
		double t = now();
		int fd = open(path, O_RDONLY);

		t = now() - t;
		if (fd < 0)
			failed++;
		else
			opened++;
		close(fd);
		if (t > worst)
			worst = t;
		usleep(1000);
	} while (now() < began + seconds || opened + failed < 2);
	printf("bystander: opened=%ld failed=%ld worst_ms=%.0f\n", opened,
	       failed, worst * 1e3);
	fflush(stdout);
}

static pid_t child(void (*work)(const char *), const char *path)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		work(path);
		_exit(0);
	}
	return pid;
}

static void end(pid_t a, pid_t b)
{
	kill(a, SIGKILL);
	kill(b, SIGKILL);
	while (wait(NULL) > 0)
		;
}

static void take_lease(const char *path)
{
	int fd = open(path, O_RDWR);

	signal(SIGIO, SIG_IGN);
	report("lease", fcntl(fd, F_SETLEASE, F_WRLCK));
	sleep(60);
}

static void open_leased(const char *path)
{
	open(path, O_RDONLY);
	report("leased open ended", 0);
}

/* One holds a lease of FILE and does not give it up, another waits for it. */
static int run_lease(int argc, char **argv)
{
	pid_t a, b;

	if (argc < 3)
		return 64;
	a = child(take_lease, argv[1]);
	usleep(300000);
	b = child(open_leased, argv[1]);
	usleep(200000);
	stand_by(argv[2], 0.5);
	end(a, b);
	return 0;
}

static off_t size;

static void grow_and_shrink(const char *path)
{
	int fd = open(path, O_RDWR);

	for (;;) {
		if (fallocate(fd, 0, 0, size) || ftruncate(fd, 0))
			die("fallocate");
	}
}

static void change_mode(const char *path)
{
	int fd = open(path, O_RDWR);

	for (;;)
		fchmod(fd, 0600);
}

/* One grows and shrinks FILE by so many MiB, another changes its mode. */
static int run_inode(int argc, char **argv)
{
	pid_t a, b;

	if (argc < 4)
		return 64;
	size = (off_t)number(argv[2]) << 20;
	close(open(argv[1], O_RDWR | O_CREAT, 0600));
	a = child(grow_and_shrink, argv[1]);
	b = child(change_mode, argv[1]);
	usleep(200000);
	stand_by(argv[3], 1.5);
	end(a, b);
	unlink(argv[1]);
	return 0;
}

static const char *fifo;
static atomic_long freed;

static void *read_fifo(void *arg)
{
	int fd = open(fifo, O_RDONLY);

	(void)arg;
	freed += fd >= 0;
	close(fd);
	return NULL;
}

/* N threads wait for a writer of FIFO; a bystander opens; the writer comes. */
static int run_fifo(int argc, char **argv)
{
	pthread_attr_t attr;
	pthread_t *t;
	long n, made = 0;
	double began;
	int fd;

	if (argc < 4)
		return 64;
	n = number(argv[1]);
	fifo = argv[2];
	t = calloc((size_t)n, sizeof(*t));
	if (mkfifo(fifo, 0600))
		die("mkfifo");
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (long i = 0; i < n; i++)
		made += !pthread_create(&t[i], &attr, read_fifo, NULL);
	usleep(500000);
	printf("early=%ld\n", (long)freed);
	stand_by(argv[3], 0.5);
	began = now();
	fd = open(fifo, O_WRONLY);
	report("writer", fd < 0 ? fd : 0);
	for (long i = 0; i < made; i++)
		pthread_join(t[i], NULL);
	printf("readers=%ld freed=%ld after_ms=%.0f\n", made, (long)freed,
	       (now() - began) * 1e3);
	return 0;
}

static void on_signal(int sig)
{
	(void)sig;
}

static int makes; /* a directory, instead of opening a file */

static void open_slow(const char *path)
{
	struct sigaction sa = { .sa_handler = on_signal };
	int fd;

	sigaction(SIGUSR1, &sa, NULL);
	if (makes) {
		report("open", mkdir(path, 0755));
		return;
	}
	fd = open(path, O_RDONLY);
	report("open", fd < 0 ? fd : 0);
	if (fd >= 0)
		show(fd);
}

/*
 * One opens NEVER1 until a signal comes, another NEVER2 until it is killed; LATE comes.
 * Of two that look one name up the second waits for the first, and for no signal.
 */
static int run_slow(int argc, char **argv)
{
	char path[4096];
	int status = 0;
	pid_t a, b;

	if (argc < 4)
		return 64;
	makes = argc > 4;
	snprintf(path, sizeof(path), "%s1", argv[1]);
	a = child(open_slow, path);
	usleep(100000); /* two that make something there go one after the other */
	snprintf(path, sizeof(path), "%s2", argv[1]);
	b = child(open_slow, path);
	usleep(300000);
	stand_by(argv[3], 0.1);
	printf("waiting=%d\n", !waitpid(a, NULL, WNOHANG) + !waitpid(b, NULL, WNOHANG));
	fflush(stdout);
	kill(a, SIGUSR1);
	waitpid(a, NULL, 0);
	kill(b, SIGKILL);
	waitpid(b, &status, 0);
	printf("killed=%d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	fflush(stdout);
	makes = 0;
	waitpid(child(open_slow, argv[2]), NULL, 0);
	return 0;
}

const struct technique stalls_techniques[] = {
	{ "lease", run_lease, "FILE BYSTANDER" },
	{ "inode", run_inode, "FILE MIB BYSTANDER" },
	{ "fifo-readers", run_fifo, "N FIFO BYSTANDER" },
	{ "slow", run_slow, "NEVER LATE BYSTANDER [mkdir]" },
	{ 0 },
};
