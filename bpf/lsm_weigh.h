/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the automata say of an operation on a path, what a grant and the session's
 * own things change, and the record of it.
 */
#ifndef REEVE_LSM_WEIGH_H
#define REEVE_LSM_WEIGH_H

#include "lsm.h"
#include "lsm_judge.h"
#include "lsm_path.h"
#include "lsm_record.h"
#include "lsm_scope.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct grant_key);
	__type(value, struct grant);
} grants SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct announcement);
} announced SEC(".maps");

/* Threads that the supervisor is about to hand a descriptor. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u32);
} injected SEC(".maps");

/* Device numbers of the terminals that the session was started on. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u32);
} terminals SEC(".maps");

/* The supervisor is gone. */
__u32 over;

extern struct task_struct *bpf_task_from_pid(int pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

/* A slot that is free, and its number; 0 if there is none. */
static __always_inline struct slot *take_slot(__u32 *number)
{
	__u32 i;

	for (i = 0; i < SLOTS; i++) {
		struct slot *s;

		*number = i;
		s = bpf_map_lookup_elem(&slots, number);
		if (s && !__sync_val_compare_and_swap(&s->busy, 0, 1))
			return s;
	}
	return 0;
}

static __always_inline void give_back(struct slot *s)
{
	/* Nobody but this processor looks at it. */
	*(volatile __u64 *)&s->busy = 0;
}

static __always_inline __u32 byte_at(const __u8 *path, __u32 at)
{
	/* The compiler may not forget this bound: the verifier wants it. */
	asm volatile("%0 &= 0x1fff" : "+r"(at));
	return path[at];
}

/* An own task's number is in the path at `at`; what follows it begins at *rest. */
static __noinline int own_task(const __u8 *path, __u32 at, __u32 *rest)
{
	struct task_struct *task;
	unsigned long pid = 0;
	long digits;
	int own;

	asm volatile("%0 &= 0x1fff" : "+r"(at));
	digits = bpf_strtoul((const char *)&path[at], 10, 10, &pid);
	if (digits <= 0 || digits > 9)
		return 0;
	at += digits;
	if (at > PATH_END || (at < PATH_END && byte_at(path, at) != '/'))
		return 0;
	*rest = at;
	task = bpf_task_from_pid(pid);
	if (!task)
		return 0;
	own = !stranger(task);
	bpf_task_release(task);
	return own;
}

/* Whether a path begins with up to eight bytes, given as one number. */
static __always_inline int begins(const __u8 *path, __u32 at, __u64 with,
				  __u32 len)
{
	__u64 first;

	asm volatile("%0 &= 0x1fff" : "+r"(at));
	first = *(const __u64 *)&path[at];
	return at + len <= PATH_END && !((first ^ with) << (8 * (8 - len)));
}

#define PROC_DIR 0x2f636f72702fULL /* "/proc/", little-endian */
#define DEV_DIR 0x2f7665642fULL	   /* "/dev/" */

struct prefix {
	const __u8 *path;
	__u32 at;
	__u32 same;
};

static long compare(__u32 i, struct prefix *p)
{
	if (byte_at(p->path, p->at + i) != settings.temp[i & (MAX_TEMP - 1)]) {
		p->same = 0;
		return 1;
	}
	return 0;
}

/* Whether the path is the session's own directory or below it. */
static __always_inline int in_temp(const __u8 *path, __u32 at)
{
	__u32 len = settings.temp_len, end = at + len;
	struct prefix p = { .path = path, .at = at, .same = 1 };

	if (!len || end > PATH_END)
		return 0;
	if (end < PATH_END && byte_at(path, end) != '/')
		return 0;
	bpf_loop(len, compare, &p, 0);
	return p.same;
}

static __always_inline int own_terminal(const struct request *q)
{
	struct dentry *d = (struct dentry *)q->dentry;
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 dev = BPF_CORE_READ(d, d_inode, i_rdev), own;
	struct tty_struct *tty;

	if (bpf_map_lookup_elem(&terminals, &dev))
		return 1;
	tty = BPF_CORE_READ(task, signal, tty);
	if (!tty)
		return 0;
	own = (__u32)BPF_CORE_READ(tty, driver, major) << 20 |
	      (BPF_CORE_READ(tty, driver, minor_start) +
	       BPF_CORE_READ(tty, index));
	return own == dev;
}

static __always_inline int refuse(struct ruling *g, enum why why, __s32 error)
{
	g->why = why;
	g->error = error;
	return 0;
}

static __always_inline int may_execute(const struct grant_key *key)
{
	struct announcement *a = bpf_map_lookup_elem(&announced, &key->tid);
	__u32 i;

	for (i = 0; a && i < MAX_ANNOUNCED; i++)
		if (i < a->count && a->files[i].dev == key->dev &&
		    a->files[i].ino == key->ino)
			return 1;
	return 0;
}

/* A question that was answered yes for this file. */
static __always_inline int granted(const struct request *q)
{
	const struct dentry *d = SEEN(struct dentry, q->dentry);
	struct grant_key key = {};
	__u32 need = q->need;
	struct grant *g;

	key.dev = d->d_sb->s_dev;
	key.ino = d->d_inode->i_ino;
	key.tid = bpf_get_current_pid_tgid();
	if (q->answered || (need == NEED_EXEC && may_execute(&key)))
		return 1;
	g = bpf_map_lookup_elem(&grants, &key);
	if (!g) {
		key.tid = 0;
		g = bpf_map_lookup_elem(&grants, &key);
	}
	if (!g || (g->access & need) != need)
		return 0;
	/* Only one of those who race for it takes a grant away. */
	return !g->once || !bpf_map_delete_elem(&grants, &key);
}

static __always_inline int is_device(__u32 mode)
{
	return (mode & S_IFMT) == S_IFCHR || (mode & S_IFMT) == S_IFBLK;
}

static __always_inline enum way way_of(const struct request *q)
{
	if (q->made)
		return WAY_MAKE;
	if (q->need & NEED_EXEC)
		return WAY_EXEC;
	if (q->need & NEED_WRITE)
		return q->need & NEED_READ ? WAY_UPDATE : WAY_WRITE;
	return WAY_READ;
}

/* What the automata say of the path in slot i, and what is made of it. */
__noinline int weigh(__u32 i)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &i);
	__u32 rest = 0;
	struct ruling *g;
	struct verdict *v;
	struct request *q;

	if (!s)
		return -EAGAIN;
	q = &s->q;
	v = &s->v;
	g = &s->g;
	v->at = s->at;
	v->end = PATH_END;
	v->from = FROM_START;
	v->need = q->whole ? NEED_ALL : q->need;
	v->way = way_of(q);
	v->own = q->own;
	v->mine = q->mine;
	if (begins(s->path, s->at, PROC_DIR, 6) &&
	    own_task(s->path, s->at + 6, &rest)) {
		g->flags |= REC_OWN;
		v->from = FROM_SELF;
		v->at = rest;
	} else if (in_temp(s->path, s->at)) {
		v->from = FROM_TEMP;
		v->at += settings.temp_len;
	}
	if (judge_path(i))
		return refuse(g, WHY_PLANE, EACCES);
	if (q->look)
		return 0;
	g->plane = v->plane;
	if (v->born)
		g->flags |= REC_BORN;
	if (q->mine) /* a session inside may have asked */
		g->flags |= REC_OWN;
	if (v->terminal && !q->made && !(q->flags & REC_OWN)) {
		if ((q->mode & S_IFMT) != S_IFCHR || !own_terminal(q))
			return refuse(g, WHY_TERMINAL, EACCES);
		g->flags |= REC_OWN;
	}
	if (v->action <= ACTION_ALLOW)
		return 0;
	if (v->action == ACTION_ASK && !q->made && granted(q)) {
		g->flags |= REC_GRANTED;
		return 0;
	}
	return refuse(g, v->action == ACTION_ASK ? WHY_ASK : WHY_PLANE,
		      v->hide ? ENOENT : EACCES);
}

/* Write the record of slot i before its path and send it. */
__noinline int record_access(__u32 i)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &i);
	const struct dentry *d;
	struct record *r;
	__u32 at, len, other;

	if (!s)
		return -EAGAIN;
	at = s->at;
	len = PATH_END - at;
	other = s->other;
	d = SEEN(struct dentry, s->q.dentry);
	asm volatile("%0 &= 0x1fff" : "+r"(at));
	if (at < sizeof(*r))
		return -EAGAIN;
	r = (struct record *)&s->path[at - sizeof(*r)];
	fill_record(r, KIND_ACCESS);
	r->op = s->q.op;
	r->why = s->g.why;
	r->access = s->q.need;
	r->arg = s->q.arg;
	r->error = s->g.error;
	r->flags = s->g.flags | (s->q.made ? REC_MADE : 0);
	r->mode = s->q.mode;
	r->plane = s->g.plane;
	r->dev = d->d_sb->s_dev;
	r->ino = d->d_inode->i_ino;
	/* Last, since the verifier follows both ways of each. */
	asm volatile("if %0 <= 4096 goto +1; %0 = 4096" : "+r"(len));
	asm volatile("if %0 <= 4096 goto +1; %0 = 4096" : "+r"(other));
	r->size = sizeof(*r) + len + other;
	r->path_len = len;
	r->other_len = other;
	return send_record(r, sizeof(*r) + len + other, s->g.error);
}

#endif
