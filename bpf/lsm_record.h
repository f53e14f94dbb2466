/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is told to user space: denials in a ring of their own, so that a flood of
 * what is allowed cannot crowd them out.
 */
#ifndef REEVE_LSM_RECORD_H
#define REEVE_LSM_RECORD_H

#include "lsm_scope.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* the loader may choose another size */
} urgent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} flow SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NUM_LOST);
	__type(key, enum lost);
	__type(value, __u64);
} losts SEC(".maps");

static void count_lost(enum lost cause)
{
	__u64 *n = bpf_map_lookup_elem(&losts, &cause);

	if (n)
		__sync_fetch_and_add(n, 1); /* a hook may preempt a hook */
}

static __always_inline void fill_record(struct record *r, enum kind kind)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 id = bpf_get_current_pid_tgid();
	struct scope *s = ours();

	__builtin_memset(r, 0, sizeof(*r));
	r->version = LSM_VERSION;
	r->kind = kind;
	r->size = sizeof(*r);
	r->time = bpf_ktime_get_boot_ns();
	r->session = settings.session;
	r->start = task->group_leader->start_boottime;
	r->tgid = id >> 32;
	r->tid = id;
	if (s)
		r->inner = s->inner;
}

/*
 * Send `size` bytes: 0, or -EAGAIN if that an allowed operation is not recorded
 * must stop it.
 */
static __always_inline int send_record(void *data, __u32 size, __s32 error)
{
	int failed;

	if (error)
		failed = bpf_ringbuf_output(&urgent, data, size, 0);
	else
		failed = bpf_ringbuf_output(&flow, data, size, 0);
	if (!failed)
		return 0;
	count_lost(error ? LOST_URGENT : LOST_FLOW);
	return !error && settings.flags & STRICT ? -EAGAIN : 0;
}

/* Refuse and record what has no path. */
static __always_inline int refuse_surface(enum op op, enum why why, __u64 arg)
{
	struct record r;

	fill_record(&r, KIND_SURFACE);
	r.op = op;
	r.why = why;
	r.error = EPERM;
	r.arg = arg;
	send_record(&r, sizeof(r), EPERM);
	return -EPERM;
}

#endif
