// SPDX-License-Identifier: Apache-2.0
/* Other ways to enter the kernel, and calls whose arguments live in memory. */
#define _GNU_SOURCE
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define X32_BIT 0x40000000

/* i386 calls see 32-bit pointers only. */
static char *low_string(const char *s)
{
	char *m = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (m == MAP_FAILED)
		die("mmap");
	return strcpy(m, s);
}

static long int80(long nr, long b, long c, long d)
{
	long ret;

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(nr), "b"(b), "c"(c), "d"(d)
			 : "memory", "r8", "r9", "r10", "r11");
	ret = (int)ret;
	if (ret < 0) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}

static int run_int80(int argc, char **argv)
{
	char *path;
	long fd;

	if (argc < 3)
		return 64;
	path = low_string(argv[2]);
	if (!strcmp(argv[1], "open")) {
		fd = int80(5, (long)path, O_RDONLY, 0);
	} else if (!strcmp(argv[1], "openat")) {
		fd = int80(295, AT_FDCWD, (long)path, O_RDONLY);
	} else {
		fd = int80(39, (long)path, 0755, 0);
		report("int80", fd);
		return fd < 0;
	}
	report("int80", fd);
	if (fd >= 0)
		show((int)fd);
	return fd < 0;
}

static int run_x32(int argc, char **argv)
{
	long fd;

	if (argc < 2)
		return 64;
	fd = syscall(X32_BIT | SYS_openat, AT_FDCWD, argv[1], O_RDONLY, 0);
	report("x32", fd);
	if (fd >= 0)
		show((int)fd);
	return fd < 0;
}

static struct open_how how;

static void *flip_how(void *arg)
{
	volatile __u64 *flags = &how.flags;

	(void)arg;
	for (;;) {
		*flags = O_RDONLY;
		for (volatile int i = 0; i < 60; i++)
			;
		*flags = O_RDWR;
		moved();
		for (volatile int i = 0; i < 60; i++)
			;
	}
	return NULL;
}

/* Opens PATH with flags that another thread changes from read to write. */
static int run_openat2_flip(int argc, char **argv)
{
	long i, n, opened = 0, writable = 0;

	if (argc < 3)
		return 64;
	n = number(argv[1]);
	contested();
	spawn_thread(flip_how, NULL);
	for (i = 0; under_way(i, n); i++) {
		int fd = (int)syscall(SYS_openat2, AT_FDCWD, argv[2], &how,
				      sizeof(how));

		if (fd < 0)
			continue;
		opened++;
		if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR)
			writable++;
		close(fd);
	}
	printf("attempts=%ld opened=%ld reached=%ld\n", i, opened, writable);
	return 0;
}

/* System calls of one code range come back as SIGSYS: turn that on, then open. */
static int run_user_dispatch(int argc, char **argv)
{
	static volatile char selector;
	int fd;

	if (argc < 2)
		return 64;
	report("prctl", prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0UL, 0UL,
			      &selector));
	fd = open(argv[1], O_RDONLY);
	report("open", fd);
	if (fd >= 0)
		show(fd);
	return fd < 0;
}

/* Listens to its own calls as a supervisor of another kind would, then runs. */
static int run_supervise(int argc, char **argv)
{
	struct sock_filter insns[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0 /* nr */),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_acct, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(insns) / sizeof(insns[0]), insns };
	int fd;

	if (argc < 2)
		return 64;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			  SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	if (fd < 0)
		die("seccomp");
	fcntl(fd, F_SETFD, 0);
	execv(argv[1], argv + 1);
	die("execv");
}

const struct technique abi_techniques[] = {
	{ "int80", run_int80, "open|openat|mkdir PATH" },
	{ "x32", run_x32, "PATH" },
	{ "openat2-flip", run_openat2_flip, "N PATH" },
	{ "user-dispatch", run_user_dispatch, "PATH" },
	{ "supervise", run_supervise, "PROGRAM [ARG...]" },
	{ 0 },
};
