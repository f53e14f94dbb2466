// SPDX-License-Identifier: Apache-2.0
/*
 * Calls that are not what they were when somebody looked: a tracer changes a
 * register, a thread has descriptors of its own, a socket forgets its peer, a
 * message brings a descriptor.
 */
#define _GNU_SOURCE
#include "victim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* Opens GOOD in a child; its tracer, we, puts BAD in the place of the name. */
static int run_regs(int argc, char **argv)
{
	struct user_regs_struct regs;
	int status, done = 0;
	pid_t pid;

	if (argc < 3)
		return 64;
	pid = fork();
	if (!pid) {
		long fd;

		if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
			die("ptrace");
		raise(SIGSTOP);
		fd = syscall(SYS_openat, AT_FDCWD, argv[1], O_RDONLY);
		report("open", fd < 0 ? fd : 0);
		if (fd >= 0)
			show((int)fd);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		if (ptrace(PTRACE_GETREGS, pid, 0, &regs) < 0)
			die("ptrace regs");
		if (!done && regs.orig_rax == SYS_openat &&
		    regs.rsi == (unsigned long)argv[1]) {
			regs.rsi = (unsigned long)argv[2];
			done = ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0;
		}
		ptrace(PTRACE_SYSCALL, pid, 0, 0);
	}
	printf("changed=%d\n", done);
	return 0;
}

static const char *inner_dir, *inner_name;
static int number_of_dir;
static atomic_int inner_done;

/* A thread with descriptors of its own, where the number is another directory. */
static void *own_table(void *arg)
{
	int dir, fd;

	(void)arg;
	if (unshare(CLONE_FILES))
		die("unshare");
	dir = open(inner_dir, O_RDONLY | O_DIRECTORY);
	if (dir < 0 || dup2(dir, number_of_dir) < 0)
		die("directory");
	fd = openat(number_of_dir, inner_name, O_RDONLY);
	report("thread", fd < 0 ? fd : 0);
	if (fd >= 0)
		show(fd);
	inner_done = 1;
	return NULL;
}

/* Opens NAME by one number in two tables: DIR-A is ours, DIR-B the thread's. */
static int run_tables(int argc, char **argv)
{
	int fd;

	if (argc < 4)
		return 64;
	number_of_dir = open(argv[1], O_RDONLY | O_DIRECTORY);
	if (number_of_dir < 0)
		die("directory");
	inner_dir = argv[2];
	inner_name = argv[3];
	spawn_thread(own_table, NULL);
	while (!inner_done)
		usleep(1000);
	fd = openat(number_of_dir, argv[3], O_RDONLY);
	report("main", fd < 0 ? fd : 0);
	return 0;
}

/*
 * A datagram socket is connected to one of our own, then sends to PORT, forgets
 * its peer, and is connected to PORT.
 */
static int run_reconnect(int argc, char **argv)
{
	struct sockaddr_in own = { .sin_family = AF_INET }, other = own;
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	socklen_t len = sizeof(own);
	int l, fd;
	long ret;

	if (argc < 2)
		return 64;
	own.sin_addr.s_addr = other.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	other.sin_port = htons((in_port_t)number(argv[1]));
	l = socket(AF_INET, SOCK_DGRAM, 0);
	if (bind(l, (struct sockaddr *)&own, sizeof(own)))
		die("bind");
	getsockname(l, (struct sockaddr *)&own, &len);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	report("own", connect(fd, (struct sockaddr *)&own, sizeof(own)));
	report("send", send(fd, "hello", 5, 0));
	report("sendto", sendto(fd, "hello", 5, 0, (struct sockaddr *)&other,
				sizeof(other)));
	report("forget", connect(fd, &none, sizeof(none)));
	ret = connect(fd, (struct sockaddr *)&other, sizeof(other));
	report("other", ret);
	if (!ret)
		report("send other", send(fd, "hello", 5, 0));
	return 0;
}

/* Takes N messages from standard input, a socket, and what came with them. */
static int run_receive(int argc, char **argv)
{
	long n = argc > 1 ? number(argv[1]) : 0;

	if (!n)
		return 64;
	while (n--) {
		union {
			struct cmsghdr head;
			char space[CMSG_SPACE(sizeof(int))];
		} control;
		char word[64] = { 0 };
		struct iovec iov = { word, sizeof(word) - 1 };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
				    .msg_control = &control,
				    .msg_controllen = sizeof(control) };
		int fd = -1;

		if (recvmsg(0, &m, 0) < 0)
			die("recvmsg");
		if (m.msg_controllen)
			memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
		report(word, fd < 0 ? fd : 0);
		if (fd >= 0)
			show(fd);
	}
	return 0;
}

const struct technique peers_techniques[] = {
	{ "receive", run_receive, "N" },
	{ "regs", run_regs, "GOOD BAD" },
	{ "tables", run_tables, "DIR-A DIR-B NAME" },
	{ "reconnect", run_reconnect, "PORT" },
	{ 0 },
};
