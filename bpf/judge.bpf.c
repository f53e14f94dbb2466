//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The judge of lsm.bpf.c in program types that load where LSM programs do not:
 * the same headers, for tests and measurements. These programs see what they are
 * asked about and refuse nothing.
 */
#include "judge.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

const volatile struct session settings = {};

#include "lsm_hold.h"

static long again(__u32 n, __u32 *i)
{
	struct slot *s = bpf_map_lookup_elem(&slots, i);

	if (!s)
		return 1;
	s->g.why = 0;
	s->g.error = 0;
	s->g.flags = 0;
	weigh(*i);
	if (!s->q.quiet)
		record_access(*i);
	return 0;
}

/* Judge a path, `times` times; what came of it is written back. */
SEC("syscall")
int judge(struct question *a)
{
	__u32 i = 0, at, len = a->len;
	struct slot *s = take_slot(&i);
	__u64 began;

	if (!s)
		return -EAGAIN;
	if (!len || len > MAX_PATH) {
		give_back(s);
		return -ENAMETOOLONG;
	}
	at = PATH_END - len;
	asm volatile("%0 &= 0x1fff" : "+r"(at));
	bpf_probe_read_kernel(&s->path[at], MAX_PATH, a->path);
	__builtin_memset(&s->q, 0, sizeof(s->q));
	s->q.op = LSM_OPEN;
	s->q.need = a->need;
	s->q.made = a->made;
	s->q.whole = a->whole;
	s->q.own = a->own;
	s->q.mine = a->mine;
	s->q.quiet = !a->record;
	s->q.mode = S_IFREG;
	s->at = at;
	began = bpf_ktime_get_ns();
	bpf_loop(a->times, again, &i, 0);
	a->ns = bpf_ktime_get_ns() - began;
	a->why = s->g.why;
	a->error = s->g.error;
	a->plane = s->g.plane;
	a->joined = s->v.joined;
	a->expendable = settings.bulk_files && expendable(i);
	give_back(s);
	return 0;
}

static long find_again(__u32 n, __u32 *i)
{
	find_path(*i);
	return 0;
}

/* The path of each open file of each task, `walks` times. */
const volatile __u32 walks = 1;

SEC("iter/task_file")
int files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct found f = {};
	__u32 i = 0, at, len;
	struct slot *s;
	__u64 began;

	if (!file || !task)
		return 0;
	s = take_slot(&i);
	if (!s)
		return 0;
	s->q.dentry = (__u64)BPF_CORE_READ(file, f_path.dentry);
	s->q.mnt = (__u64)BPF_CORE_READ(file, f_path.mnt);
	began = bpf_ktime_get_ns();
	bpf_loop(walks, find_again, &i, 0);
	f.ns = bpf_ktime_get_ns() - began;
	f.tgid = task->tgid;
	f.fd = ctx->fd;
	f.end = s->end;
	at = s->at;
	len = PATH_END - at;
	asm volatile("if %0 <= 4096 goto +1; %0 = 4096" : "+r"(len));
	asm volatile("%0 &= 0x1fff" : "+r"(at));
	f.len = len;
	bpf_seq_write(ctx->meta->seq, &f, sizeof(f));
	bpf_seq_write(ctx->meta->seq, &s->path[at], len);
	give_back(s);
	return 0;
}

/* What a hook costs a task of no session: how long so many looks took. */
__u32 strange_times;
__u64 strange_ns;
__u32 strange_own; /* how many of them found it to be ours */

static long look_again(__u32 n, __u32 *own)
{
	if (ours())
		++*own;
	return 0;
}

SEC("syscall")
int strange(void *ctx)
{
	__u32 own = 0;
	__u64 began = bpf_ktime_get_ns();

	bpf_loop(strange_times, look_again, &own, 0);
	strange_ns = bpf_ktime_get_ns() - began;
	strange_own = own;
	return 0;
}

/* Which file of the supervisor's is held, and how often. */
__u32 held_fd;
__u32 held_times;
__u64 held_ns; /* how long all of it took */
__u32 held_error;

static long hold_again(__u32 n, struct request *q)
{
	int error = hold(q);

	if (error)
		held_error = -error;
	return 0;
}

/* What an open of an open file would cost: from the object to the record. */
SEC("iter/task_file")
int opens(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct request q = { .op = LSM_OPEN, .need = NEED_READ };
	struct file *file = ctx->file;
	__u64 began;

	if (!file || !task || ctx->fd != held_fd ||
	    (__u32)task->pid != settings.supervisor)
		return 0;
	q.dentry = (__u64)BPF_CORE_READ(file, f_path.dentry);
	q.mnt = (__u64)BPF_CORE_READ(file, f_path.mnt);
	began = bpf_ktime_get_ns();
	bpf_loop(held_times, hold_again, &q, 0);
	held_ns = bpf_ktime_get_ns() - began;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
