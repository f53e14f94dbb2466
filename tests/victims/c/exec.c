// SPDX-License-Identifier: Apache-2.0
/* Programs that are not the one that was asked about. */
#define _GNU_SOURCE
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define RAN_GOOD 10 /* exit status of `victim ran` */
#define RAN_BAD	 20 /* exit status of the denied copy */

static char *name;
static const char *good, *bad;
static size_t from, room;

/* The program that is run: the copy below a directory p2 was denied. */
static int run_ran(int argc, char **argv)
{
	char exe[4096] = { 0 };

	(void)argc;
	(void)argv;
	if (readlink("/proc/self/exe", exe, sizeof(exe) - 1) < 0)
		return RAN_BAD;
	return strstr(exe, "/p2/") ? RAN_BAD : RAN_GOOD;
}

static void *flip(void *arg)
{
	(void)arg;
	for (;;) {
		memcpy(name + from, bad + from, room - from);
		moved();
		for (volatile int i = 0; i < 200; i++)
			;
		memcpy(name + from, good + from, room - from);
		for (volatile int i = 0; i < 200; i++)
			;
	}
	return NULL;
}

static void *swap_name(void *arg)
{
	const char *next = arg;

	for (int i = 0;; i++) {
		unlink(next);
		if (!symlink(i % 2 ? good : bad, next))
			rename(next, name);
		moved();
		usleep(100);
	}
	return NULL;
}

static int attempt(long n)
{
	char *args[] = { "tool", "ran", NULL }, *env[] = { NULL };
	long i, ran = 0, reached = 0, killed = 0;

	for (i = 0; under_way(i, n); i++) {
		int status = 0;
		pid_t pid = vfork();

		if (pid < 0)
			die("vfork");
		if (!pid) {
			execve(name, args, env);
			_exit(0);
		}
		waitpid(pid, &status, 0);
		if (WIFSIGNALED(status))
			killed++;
		else if (WEXITSTATUS(status) == RAN_BAD)
			reached++;
		else if (WEXITSTATUS(status) == RAN_GOOD)
			ran++;
	}
	printf("attempts=%ld opened=%ld reached=%ld killed=%ld\n", i,
	       ran + reached, reached, killed);
	return 0;
}

static int run_exec_flip(int argc, char **argv)
{
	size_t g, b;

	if (argc < 4)
		return 64;
	g = strlen(argv[2]);
	b = strlen(argv[3]);
	room = (g > b ? g : b) + 1;
	good = strcpy(calloc(1, room), argv[2]);
	bad = strcpy(calloc(1, room), argv[3]);
	name = memcpy(calloc(1, room), good, room);
	while (from < g && good[from] == bad[from])
		from++;
	contested();
	spawn_thread(flip, NULL);
	return attempt(number(argv[1]));
}

/* The name is a link that another thread renames over, again and again. */
static int run_exec_swap(int argc, char **argv)
{
	static char next[4096];

	if (argc < 5)
		return 64;
	name = argv[2];
	good = argv[3];
	bad = argv[4];
	snprintf(next, sizeof(next), "%s.next", name);
	contested();
	spawn_thread(swap_name, next);
	usleep(10000);
	return attempt(number(argv[1]));
}

static bool by_mapping;

/* Writes a script's first line anew into the file that it stands in. */
static void *rewrite(void *arg)
{
	(void)arg;
	for (int i = 0;; i++) {
		const char *text = i % 2 ? good : bad;
		int fd = open(name, O_RDWR | O_CLOEXEC);
		char *m = MAP_FAILED;

		if (fd < 0 && errno == ETXTBSY)
			continue; /* it is being run right now */
		if (fd < 0)
			die("open to rewrite");
		if (by_mapping) {
			m = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			if (m == MAP_FAILED)
				die("mmap");
		}
		/* As long as it is open for writing it cannot run: ETXTBSY. */
		for (volatile int j = 0; j < i % 64 * 100; j++)
			;
		if (by_mapping)
			munmap(memcpy(m, text, room), room);
		else
			pwrite(fd, text, room, 0);
		close(fd);
		moved();
		usleep(i % 16 * 10);
	}
	return NULL;
}

/* The name is a script whose interpreter, GOOD or BAD, is written over in place. */
static int run_exec_rewrite(int argc, char **argv)
{
	char *lines[2];
	int fd;

	if (argc < 6 || strlen(argv[4]) != strlen(argv[5]))
		return 64;
	by_mapping = !strcmp(argv[2], "map");
	name = argv[3];
	for (int i = 0; i < 2; i++)
		if (asprintf(&lines[i], "#!%s ran\n", argv[4 + i]) < 0)
			die("asprintf");
	good = lines[0];
	bad = lines[1];
	room = strlen(good);
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (fd < 0 || write(fd, good, room) != (ssize_t)room)
		die("write");
	close(fd);
	contested();
	spawn_thread(rewrite, NULL);
	return attempt(number(argv[1]));
}

static int run_argv_show(int argc, char **argv)
{
	(void)argc;
	printf("ran pid=%d word=%s\n", getpid(), argv[1]);
	return 0;
}

/* Runs itself N times, at least, with a word that another thread rewrites. */
static int run_argv_flip(int argc, char **argv)
{
	char *args[] = { "victim", "argv-show", NULL, NULL };
	long i = 0;

	if (argc < 3)
		return 64;
	good = "harmless";
	bad = "perilous";
	room = 9;
	name = strcpy(malloc(16), good);
	args[2] = name;
	contested();
	spawn_thread(flip, NULL);
	for (long n = number(argv[1]); under_way(i, n); i++) {
		pid_t pid = vfork();

		if (!pid) {
			execv(argv[2], args);
			_exit(1);
		}
		waitpid(pid, NULL, 0);
	}
	printf("attempts=%ld opened=0 reached=0\n", i);
	return 0;
}

static void *exec_pair(void *arg)
{
	char **args = arg;

	execv(args[0], args + 1);
	return NULL;
}

/*
 * Two threads of one process exec at once, N times: GOOD with one word or another,
 * or the second of them BAD. Of two that may run, the later one replaces, or ends,
 * the other's program.
 */
static int run_exec_pair(int argc, char **argv)
{
	long ran = 0, reached = 0, killed = 0, failed = 0;

	if (argc < 4)
		return 64;
	char *first[] = { argv[2], "tool", "ran", "one", NULL };
	char *second[] = { argv[3], "tool", "ran", "two", NULL };
	for (long i = 0, n = number(argv[1]); i < n; i++) {
		int status = 0;
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (!pid) {
			spawn_thread(exec_pair, i % 2 ? second : first);
			usleep(i % 60);
			exec_pair(i % 2 ? first : second);
			pause(); /* for the other's */
		}
		waitpid(pid, &status, 0);
		killed += WIFSIGNALED(status);
		ran += WIFEXITED(status) && WEXITSTATUS(status) == RAN_GOOD;
		reached += WIFEXITED(status) && WEXITSTATUS(status) == RAN_BAD;
		failed += WIFEXITED(status) && WEXITSTATUS(status) < RAN_GOOD;
	}
	printf("attempts=%ld opened=%ld reached=%ld killed=%ld failed=%ld\n",
	       ran + reached + killed + failed, ran + reached, reached, killed, failed);
	return 0;
}

/* Runs PATH by a descriptor: alone, by fexecve's name, from memory. */
static char *flip_args[4], *flip_path;
static const char *flip_program;
static long flip_delay;

static void *flip_exec(void *arg)
{
	(void)arg;
	usleep((useconds_t)flip_delay);
	flip_args[0] = "victim";
	flip_args[1] = "argv-show";
	flip_args[2] = "perilous";
	strcpy(flip_path, flip_program);
	for (;;)
		pause();
	return NULL;
}

/* A script becomes its interpreter with words of its own, after it was judged. */
static int run_script_flip(int argc, char **argv)
{
	if (argc < 4)
		return 64;
	flip_program = argv[3];
	for (long i = 0, n = number(argv[1]); i < n; i++) {
		pid_t pid = fork();

		if (!pid) {
			flip_path = strcpy(calloc(1, 4096), argv[2]);
			flip_args[0] = flip_path;
			flip_delay = i % 80 * 25;
			spawn_thread(flip_exec, NULL);
			usleep(300);
			execv(flip_path, flip_args);
			_exit(1);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}

static int run_exec_fd(int argc, char **argv)
{
	char *args[] = { "tool", "ran", NULL }, *env[] = { NULL };
	char path[64], buf[65536];
	int fd, in;
	ssize_t n;

	if (argc < 3)
		return 64;
	if (!strncmp(argv[1], "memfd", 5)) {
		in = open(argv[2], O_RDONLY | O_CLOEXEC);
		if (in < 0)
			die("open");
		fd = (int)syscall(SYS_memfd_create, "payload", MFD_ALLOW_SEALING);
		if (fd < 0)
			die("memfd_create");
		while ((n = read(in, buf, sizeof(buf))) > 0)
			if (write(fd, buf, (size_t)n) != n)
				die("write");
		if (!strcmp(argv[1], "memfd-sealed") &&
		    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK))
			die("seal");
	} else {
		fd = open(argv[2], O_PATH | O_CLOEXEC);
	}
	if (fd < 0)
		die("open");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!strcmp(argv[1], "empty") || !strcmp(argv[1], "memfd") ||
	    !strcmp(argv[1], "memfd-sealed"))
		syscall(SYS_execveat, fd, "", args, env, AT_EMPTY_PATH);
	else
		execve(path, args, env);
	report("exec", -1);
	return 1;
}

/* A child that shares our memory opens or connects, and never execs. */
static int run_vfork(int argc, char **argv)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	volatile int fd = -1, err = 0;
	pid_t pid;

	if (argc < 3)
		return 64;
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pid = vfork();
	if (!pid) {
		if (!strcmp(argv[1], "open")) {
			fd = open(argv[2], O_RDONLY);
			err = errno;
			if (fd >= 0)
				show(fd);
		} else {
			int s = socket(AF_INET, SOCK_STREAM, 0);

			sin.sin_port = htons((unsigned short)number(argv[2]));
			fd = connect(s, (struct sockaddr *)&sin, sizeof(sin));
			err = errno;
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	errno = err;
	report("vfork", fd < 0 ? fd : 0);
	return fd < 0;
}

/* N times vfork and exec: the parent sleeps in the kernel until the exec. */
static int run_spawn(int argc, char **argv)
{
	char *args[] = { "victim", "ran", NULL };
	long n, ran = 0;

	if (argc < 3)
		return 64;
	n = number(argv[1]);
	for (long i = 0; i < n; i++) {
		int status = 0;
		pid_t pid = vfork();

		if (!pid) {
			execv(argv[2], args);
			_exit(1);
		}
		waitpid(pid, &status, 0);
		ran += WIFEXITED(status) && WEXITSTATUS(status) == RAN_GOOD;
	}
	printf("ran=%ld of %ld\n", ran, n);
	return 0;
}

/* Maps the first page of PATH as code. */
static int run_map_code(int argc, char **argv)
{
	int fd, private = MAP_PRIVATE, rx = PROT_READ | PROT_EXEC;
	char *m;

	if (argc < 2)
		return 64;
	if (!strcmp(argv[1], "memory")) {
		m = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			 private | MAP_ANONYMOUS, -1, 0);
		if (m == MAP_FAILED)
			die("mmap");
		m[0] = 1;
		report("code", mprotect(m, 4096, rx));
		return 0;
	}
	if (argc < 3)
		return 64;
	fd = open(argv[2], O_RDONLY);
	report("open", fd < 0 ? -1 : 0);
	if (fd < 0)
		return 1;
	if (!strcmp(argv[1], "mmap")) {
		m = mmap(NULL, 4096, rx, private, fd, 0);
		report("code", m == MAP_FAILED ? -1 : 0);
		return 0;
	}
	m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, private, fd, 0);
	if (m == MAP_FAILED)
		die("mmap");
	if (!strcmp(argv[1], "written"))
		m[0] = 1;
	report("code", mprotect(m, 4096, rx));
	return 0;
}

const struct technique exec_techniques[] = {
	{ "ran", run_ran, "" },
	{ "exec-flip", run_exec_flip, "N GOOD BAD" },
	{ "exec-swap", run_exec_swap, "N LINK GOOD BAD" },
	{ "exec-rewrite", run_exec_rewrite, "N pwrite|map SCRIPT GOOD BAD" },
	{ "argv-show", run_argv_show, "WORD" },
	{ "exec-pair", run_exec_pair, "N FIRST SECOND" },
	{ "argv-flip", run_argv_flip, "N VICTIM" },
	{ "script-flip", run_script_flip, "N SCRIPT INTERPRETER" },
	{ "exec-fd", run_exec_fd, "empty|proc|memfd|memfd-sealed|memfd-proc PATH" },
	{ "vfork", run_vfork, "open PATH | connect PORT" },
	{ "spawn", run_spawn, "N VICTIM" },
	{ "map-code", run_map_code, "mmap|mprotect|written PATH | memory" },
	{ 0 },
};
