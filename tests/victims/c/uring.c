// SPDX-License-Identifier: Apache-2.0
/* io_uring by hand: a ring does what no filter on system calls sees. */
#define _GNU_SOURCE
#include "victim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define ENTRIES 8
#define OP_SOCKET 45 /* IORING_OP_SOCKET, Linux 5.19 */
#define OP_BIND	  56 /* IORING_OP_BIND, Linux 6.11 */

struct ring {
	int fd;
	unsigned *head, *tail, *mask, *array;
	unsigned *chead, *ctail, *cmask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static void *map(int fd, size_t len, off_t off)
{
	void *m = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_POPULATE, fd, off);

	if (m == MAP_FAILED)
		die("mmap ring");
	return m;
}

/*
 * The offsets of a ring of ENTRIES are the same in every process of a kernel,
 * so that a process that only inherited the descriptor learns them from a
 * second ring, or takes those stated by the maker in p.
 */
static void ring_map(struct ring *r, int fd, const struct io_uring_params *p)
{
	char *sq = map(fd, p->sq_off.array + p->sq_entries * sizeof(unsigned),
		       IORING_OFF_SQ_RING);
	char *cq = map(fd,
		       p->cq_off.cqes +
			       p->cq_entries * sizeof(struct io_uring_cqe),
		       IORING_OFF_CQ_RING);

	r->fd = fd;
	r->head = (unsigned *)(sq + p->sq_off.head);
	r->tail = (unsigned *)(sq + p->sq_off.tail);
	r->mask = (unsigned *)(sq + p->sq_off.ring_mask);
	r->array = (unsigned *)(sq + p->sq_off.array);
	r->chead = (unsigned *)(cq + p->cq_off.head);
	r->ctail = (unsigned *)(cq + p->cq_off.tail);
	r->cmask = (unsigned *)(cq + p->cq_off.ring_mask);
	r->cqes = (struct io_uring_cqe *)(cq + p->cq_off.cqes);
	r->sqes = map(fd, p->sq_entries * sizeof(struct io_uring_sqe),
		      IORING_OFF_SQES);
}

static void ring_make(struct ring *r, struct io_uring_params *p)
{
	int fd;

	memset(p, 0, sizeof(*p));
	fd = (int)syscall(SYS_io_uring_setup, ENTRIES, p);
	if (fd < 0)
		die("io_uring_setup");
	ring_map(r, fd, p);
}

static long ring_do(struct ring *r, const struct io_uring_sqe *sqe)
{
	unsigned tail = *r->tail, i = tail & *r->mask;
	struct io_uring_cqe *c;
	long n;

	r->sqes[i] = *sqe;
	r->array[i] = i;
	__atomic_store_n(r->tail, tail + 1, __ATOMIC_RELEASE);
	n = syscall(SYS_io_uring_enter, r->fd, 1, 1, IORING_ENTER_GETEVENTS,
		    NULL, 0);
	if (n < 0)
		return n;
	if (*r->chead == __atomic_load_n(r->ctail, __ATOMIC_ACQUIRE)) {
		errno = ENODATA;
		return -1;
	}
	c = &r->cqes[*r->chead & *r->cmask];
	n = c->res;
	__atomic_store_n(r->chead, *r->chead + 1, __ATOMIC_RELEASE);
	if (n < 0) {
		errno = (int)-n;
		return -1;
	}
	return n;
}

static long do_open(struct ring *r, const char *path, int newer)
{
	struct open_how how = { .flags = O_RDONLY };
	struct io_uring_sqe s = {
		.opcode = newer ? IORING_OP_OPENAT2 : IORING_OP_OPENAT,
		.fd = AT_FDCWD,
		.addr = (uintptr_t)path,
	};

	if (newer) {
		s.len = sizeof(how);
		s.off = (uintptr_t)&how;
	}
	return ring_do(r, &s);
}

static long do_socket(struct ring *r, int family, int type)
{
	struct io_uring_sqe s = { .opcode = OP_SOCKET,
				  .fd = family,
				  .off = (unsigned)type };

	return ring_do(r, &s);
}

/*
 * Sockets that the ring makes, and what it does with each: it connects and sends
 * there, binds, sends a datagram; it also makes one of packets.
 */
static int do_net(struct ring *r, int port, int udp)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct sockaddr_in to = sin;
	struct iovec text = { (void *)"hello", 5 };
	struct msghdr msg = { .msg_name = &to,
			      .msg_namelen = sizeof(to),
			      .msg_iov = &text,
			      .msg_iovlen = 1 };
	int a = (int)do_socket(r, AF_INET, SOCK_STREAM);
	int b = (int)do_socket(r, AF_INET, SOCK_STREAM);
	int c = (int)do_socket(r, AF_INET, SOCK_DGRAM);
	struct io_uring_sqe connect = { .opcode = IORING_OP_CONNECT,
					.fd = a,
					.addr = (uintptr_t)&sin,
					.off = sizeof(sin) };
	struct io_uring_sqe send = { .opcode = IORING_OP_SEND,
				     .fd = a,
				     .addr = (uintptr_t) "hello",
				     .len = 5 };
	struct io_uring_sqe bind = { .opcode = OP_BIND,
				     .fd = b,
				     .addr = (uintptr_t)&any,
				     .off = sizeof(any) };
	struct io_uring_sqe sendmsg = { .opcode = IORING_OP_SENDMSG,
					.fd = c,
					.addr = (uintptr_t)&msg,
					.len = 1 };

	to.sin_port = htons((uint16_t)udp);
	report("sockets", a < 0 || b < 0 || c < 0 ? -1 : 0);
	report("packets", do_socket(r, AF_PACKET, SOCK_RAW) < 0 ? -1 : 0);
	report("connect", ring_do(r, &connect));
	signal(SIGPIPE, SIG_IGN);
	report("send", ring_do(r, &send));
	report("bind", ring_do(r, &bind));
	report("sendmsg", ring_do(r, &sendmsg));
	return 0;
}

static int run_uring(int argc, char **argv)
{
	struct io_uring_params p;
	struct io_uring_sqe s = { .fd = AT_FDCWD };
	struct ring r;
	long ret;

	if (argc < 3)
		return 64;
	ring_make(&r, &p);
	s.addr = (uintptr_t)argv[2];
	if (!strncmp(argv[1], "open", 4)) {
		ret = do_open(&r, argv[2], argv[1][4] != 0);
	} else if (!strcmp(argv[1], "unlink")) {
		s.opcode = IORING_OP_UNLINKAT;
		ret = ring_do(&r, &s);
	} else if (!strcmp(argv[1], "rename") && argc > 3) {
		s.opcode = IORING_OP_RENAMEAT;
		s.off = (uintptr_t)argv[3];
		s.len = (unsigned)AT_FDCWD;
		ret = ring_do(&r, &s);
	} else if (!strcmp(argv[1], "net") && argc > 3) {
		return do_net(&r, (int)number(argv[2]), (int)number(argv[3]));
	} else {
		return 64;
	}
	report("uring", ret);
	if (ret >= 0 && !strncmp(argv[1], "open", 4))
		show((int)ret);
	return ret < 0;
}

/* Leaves a ring open at descriptor FD, then becomes CMD. */
static int run_ring_hold(int argc, char **argv)
{
	struct io_uring_params p;
	struct ring r;
	int fd;

	if (argc < 3)
		return 64;
	fd = (int)number(argv[1]);
	ring_make(&r, &p);
	if (dup2(r.fd, fd) < 0)
		die("dup2");
	close(r.fd);
	execvp(argv[2], argv + 2);
	die("exec");
}

/* Opens PATH through the ring that stands at descriptor FD. */
static int run_ring_use(int argc, char **argv)
{
	/* What the kernel states for a ring of ENTRIES, since 5.4. */
	struct io_uring_params p = { .sq_entries = ENTRIES,
				     .cq_entries = 2 * ENTRIES };
	struct io_uring_params probe = { 0 };
	struct ring r;
	long fd;
	int own;

	if (argc < 3)
		return 64;
	own = (int)syscall(SYS_io_uring_setup, ENTRIES, &probe);
	if (own >= 0) {
		p = probe;
	} else {
		/* Layout of Linux 6.x: struct io_rings. */
		p.sq_off.head = 0;
		p.sq_off.tail = 64;
		p.sq_off.ring_mask = 256;
		p.cq_off.head = 128;
		p.cq_off.tail = 192;
		p.cq_off.ring_mask = 260;
		p.cq_off.cqes = 320;
		p.sq_off.array = 320 + 2 * ENTRIES * 16;
	}
	ring_map(&r, (int)number(argv[1]), &p);
	fd = do_open(&r, argv[2], 0);
	report("uring", fd);
	if (fd >= 0)
		show((int)fd);
	return fd < 0;
}

const struct technique uring_techniques[] = {
	{ "uring", run_uring,
	  "open|open2|unlink|rename PATH [NEW] | net PORT UDP-PORT" },
	{ "ring-hold", run_ring_hold, "FD CMD..." },
	{ "ring-use", run_ring_use, "FD PATH" },
	{ 0 },
};
