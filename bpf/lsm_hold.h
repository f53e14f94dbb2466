/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* One operation on one path, from its object to the answer. */
#ifndef REEVE_LSM_HOLD_H
#define REEVE_LSM_HOLD_H

#include "lsm_bulk.h"
#include "lsm_weigh.h"

/* What stands against an operation whose path is found. */
static __always_inline int decide(struct slot *s, __u32 i)
{
	int record_only = settings.flags & RECORD_ONLY;
	const struct dentry *d = SEEN(struct dentry, s->q.dentry);
	struct request *q = &s->q;
	struct ruling *g = &s->g;

	switch (s->end) {
	case END_INTERNAL:
		g->flags |= REC_ANONYMOUS;
		if (q->op == LSM_EXEC && !(settings.flags & MEMORY_EXEC) &&
		    d->d_sb->s_flags & SB_NOUSER)
			return refuse(g, WHY_MEMORY, EACCES);
		return 0;
	case END_ROOT:
		break;
	case END_LONG:
		g->flags |= REC_LONG;
		return record_only ? 0 : refuse(g, WHY_LONG, ENAMETOOLONG);
	default:
		return record_only ? 0 : refuse(g, WHY_FOREIGN, EACCES);
	}
	if (!d->d_hash.pprev && d->d_inode) {
		__u8 c = 0;

		g->flags |= REC_DELETED;
		bpf_probe_read_kernel(&c, 1, d->d_name.name);
		if (c == '#' && !q->tmpfile) { /* it never had a name */
			g->flags |= REC_ANONYMOUS;
			return 0;
		}
	}
	if (q->op == LSM_OPEN && is_device(q->mode) && !record_only &&
	    !begins(s->path, s->at, DEV_DIR, 5))
		return refuse(g, WHY_DEVICE, EACCES);
	if (weigh(i))
		return refuse(g, WHY_BUSY, EAGAIN);
	return 0;
}

/* Judge what is asked in slot i: 0 or an errno. */
__noinline int judge_slot(__u32 i)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &i);
	struct ruling *g;

	if (!s)
		return EAGAIN;
	g = &s->g;
	if (!s->q.mode)
		s->q.mode = SEEN(struct dentry, s->q.dentry)->d_inode->i_mode;
	g->why = 0;
	g->error = 0;
	g->plane = MAX_PLANES;
	g->flags = s->q.flags;
	s->v.joined = 0;
	s->at = PATH_END;
	s->other = 0;
	if (find_path(i)) {
		count_lost(LOST_NAMES);
		refuse(g, WHY_CHANGING, EAGAIN);
	} else if (over) {
		refuse(g, WHY_OVER, EPERM);
	} else if (s->q.why) {
		refuse(g, s->q.why, s->q.error);
	} else {
		decide(s, i);
	}
	return g->error;
}

/*
 * Record what came of it: 0 or an errno. Of the programs at a hook the kernel
 * runs the youngest first (kernel/bpf/trampoline.c), and none after one that
 * refuses: so what all allow is known to the outermost session, which tells it.
 */
static __always_inline int tell(struct slot *s, __u32 i)
{
	struct ruling *g = &s->g;

	if (!g->error && (s->q.quiet || settings.flags & INNER ||
			  !(settings.flags & RECORD_ALLOWED)))
		return 0;
	if (record_access(i) && !g->error)
		g->error = EAGAIN;
	return g->error;
}

/* Judge and record what is asked in slot i: 0 or an errno. */
__noinline int hold_slot(__u32 i)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &i);
	long n;

	if (!s)
		return EAGAIN;
	judge_slot(i);
	if (too_many(s, i))
		refuse(&s->g, WHY_BULK, EACCES);
	if (s->q.text) {
		n = bpf_probe_read_kernel_str(&s->path[PATH_END], MAX_PATH + 1,
					      (const char *)s->q.text);
		s->other = n > 0 ? n - 1 : 0;
	}
	return tell(s, i);
}

static __always_inline __u32 at_least_allow(__u32 joined, enum way way)
{
	__u32 a = (joined >> (2 * way)) & 3;

	return a > ACTION_ALLOW ? a : ACTION_ALLOW;
}

/* A name under `to` could do something that it could not under `from`. */
static __always_inline int widens(__u32 to, __u32 from)
{
	return at_least_allow(to, WAY_READ) < at_least_allow(from, WAY_READ) ||
	       at_least_allow(to, WAY_WRITE) < at_least_allow(from, WAY_WRITE) ||
	       at_least_allow(to, WAY_EXEC) < at_least_allow(from, WAY_EXEC) ||
	       (from & ~to & (1U << OUT_HIDE));
}

/*
 * Judge and record that what is asked about in slot i gets the name in slot j: 0
 * or an errno. There is one record, with both names.
 */
__noinline int hold_pair(__u32 i, __u32 j)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &i);
	struct slot *to = bpf_map_lookup_elem(&slots, &j);
	__u32 at, len;

	if (!s || !to)
		return EAGAIN;
	judge_slot(i);
	judge_slot(j);
	if (!s->g.error) {
		if (to->g.error) {
			s->g.why = to->g.why;
			s->g.error = to->g.error;
			s->g.plane = to->g.plane;
		} else if (widens(to->v.joined, s->v.joined)) {
			refuse(&s->g, WHY_WIDENS, EXDEV);
		} else if (too_many(s, i) || too_many(to, j)) {
			refuse(&s->g, WHY_BULK, EACCES);
		}
	}
	if (to->q.made)
		s->g.flags |= REC_MADE;
	if (to->g.flags & REC_LONG)
		s->g.flags |= REC_OTHER_LONG;
	at = to->at;
	len = PATH_END - at;
	asm volatile("%0 &= 0x1fff" : "+r"(at));
	asm volatile("if %0 <= 4096 goto +1; %0 = 4096" : "+r"(len));
	bpf_probe_read_kernel(&s->path[PATH_END], len, &to->path[at]);
	s->other = len;
	return tell(s, i);
}

/*
 * An errno as a hook returns it. The verifier wants to see its bounds, and knows
 * none of a negation, but of a difference.
 */
static __always_inline int answer(__u32 error)
{
	__u64 positive = error;
	__s64 out = 0;

	asm volatile("if %1 <= 4095 goto +1; %1 = 1; %0 -= %1"
		     : "+r"(out), "+r"(positive));
	return out;
}

/* Judge and record: 0 or a negative errno. */
static __noinline int hold(const struct request *q)
{
	__u32 i = 0, error;
	struct slot *s = take_slot(&i);

	if (!s) {
		count_lost(LOST_SLOT);
		return -EAGAIN;
	}
	s->q = *q;
	error = hold_slot(i);
	give_back(s);
	return answer(error);
}

/* The same for an object that gets another name, which the tests' judge has not. */
static __noinline __attribute__((unused)) int
hold_names(const struct request *from, const struct request *to)
{
	__u32 i = 0, j = 0, error;
	struct slot *b, *a = take_slot(&i);

	if (!a) {
		count_lost(LOST_SLOT);
		return -EAGAIN;
	}
	b = take_slot(&j);
	if (!b) {
		give_back(a);
		count_lost(LOST_SLOT);
		return -EAGAIN;
	}
	a->q = *from;
	b->q = *to;
	error = hold_pair(i, j);
	give_back(b);
	give_back(a);
	return answer(error);
}

#endif
