/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The policy's automata over a path: the same tables that the supervisor runs.
 * The planes' outcomes are joined as policy.Decide joins them: the strictest
 * action, and of planes that say the same the first.
 */
#ifndef REEVE_LSM_JUDGE_H
#define REEVE_LSM_JUDGE_H

#include "lsm_path.h"

#include <bpf/bpf_helpers.h>

/* All automata, one after another: see struct plane. Frozen before it is used. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_RDONLY_PROG);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 8); /* the loader makes it as large as it has to be */
	__uint(max_entries, 1);
} cells SEC(".maps");

/*
 * Where we are comes from the loop's own counter: what each step changed the
 * verifier would follow step by step.
 */
struct run {
	const __u32 *cells;
	const __u8 *path;
	__u32 at;
	__u32 pad;
	__u32 state[MAX_PLANES];
};

static __always_inline __u32 cell(const __u32 *cells, __u32 i)
{
	/* The tables hold no larger number; the verifier cannot know. */
	return cells[i & (settings.cells - 1)];
}

/*
 * Bytes that one step of the loop follows, in all planes at once: without
 * branches, which the verifier would have to follow, too. What it asks of the
 * settings it knows the answer to, so planes that are not there cost nothing.
 */
#define STRIDE 8

static __always_inline void follow(struct run *r, __u32 at)
{
	__u32 p, b;

	at &= PATH_SIZE - 1;
	b = r->path[at];
#pragma unroll
	for (p = 0; p < MAX_PLANES; p++) {
		if (!settings.planes[p].need)
			break; /* nor are there any behind it */
		r->state[p] =
			cell(r->cells, r->state[p] + settings.class[p][b]);
	}
}

static long stride(__u32 i, struct run *r)
{
	__u32 k;

#pragma unroll
	for (k = 0; k < STRIDE; k++)
		follow(r, r->at + i * STRIDE + k);
	return 0;
}

static long step(__u32 i, struct run *r)
{
	follow(r, r->at + i);
	return 0;
}

struct conclusion {
	const struct run *run;
	struct verdict *v;
};

/* The stricter of two outcomes, way by way. */
static __always_inline __u32 join(__u32 a, __u32 b)
{
	__u32 out = (a | b) & ~((1U << OUT_HIDE) - 1), shift;

#pragma unroll
	for (shift = 0; shift < OUT_HIDE; shift += 2) {
		__u32 x = (a >> shift) & 3, y = (b >> shift) & 3;

		out |= (x > y ? x : y) << shift;
	}
	return out;
}

static __always_inline __u32 outcome_of(const struct run *r, __u32 p)
{
	return cell(r->cells, r->state[p] + settings.planes[p].classes);
}

/* What one plane says. */
static long conclude(__u32 p, struct conclusion *c)
{
	struct verdict *v = c->v;
	__u32 out, a;

	if (p >= MAX_PLANES || !(settings.planes[p].need & v->need))
		return 0;
	out = outcome_of(c->run, p);
	if (out & OUT_TERMINAL)
		v->terminal = 1;
	a = (out >> (2 * v->way)) & 3;
	if (v->own && out & OUT_OWN && v->way != WAY_READ &&
	    v->way != WAY_EXEC) {
		v->born = 1;
		a = ACTION_NONE;
	}
	if (v->mine && out & OUT_SECRET && v->way != WAY_EXEC)
		a = ACTION_NONE;
	if (a > v->action) {
		v->action = a;
		v->plane = p;
		v->hide = (out >> (OUT_HIDE + v->way)) & 1;
	}
	return 0;
}

static long join_all(__u32 p, struct conclusion *c)
{
	if (p < MAX_PLANES && settings.planes[p].need)
		c->v->joined = join(c->v->joined, outcome_of(c->run, p));
	return 0;
}

/* Answer the question in slot i. Fails towards denial. */
__noinline int judge_path(__u32 i)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &i);
	struct run r = {};
	struct conclusion c = { .run = &r };
	struct verdict *v;
	__u32 p, zero = 0, len;

	if (!s)
		return -EAGAIN;
	v = &s->v;
	r.path = s->path;
	r.at = v->at;
	len = v->end - v->at;
	c.v = v;
	v->action = ACTION_DENY;
	v->plane = MAX_PLANES;
	v->hide = 0;
	v->terminal = 0;
	v->joined = 0;
	v->born = 0;
	r.cells = bpf_map_lookup_elem(&cells, &zero);
	if (!r.cells || len > MAX_PATH)
		return -EAGAIN;
#pragma unroll
	for (p = 0; p < MAX_PLANES; p++)
		r.state[p] = settings.planes[p].from[v->from & 3];
	bpf_loop(len / STRIDE, stride, &r, 0);
	r.at += len / STRIDE * STRIDE;
	bpf_loop(len % STRIDE, step, &r, 0);
	v->action = ACTION_NONE;
	bpf_loop(MAX_PLANES, conclude, &c, 0);
	if (v->need == NEED_ALL)
		bpf_loop(MAX_PLANES, join_all, &c, 0);
	return 0;
}

#endif
