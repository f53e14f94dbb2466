/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which tasks are ours. */
#ifndef REEVE_LSM_SCOPE_H
#define REEVE_LSM_SCOPE_H

#include "lsm.h"

#include <bpf/bpf_helpers.h>

extern const volatile struct session settings;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct scope);
} scopes SEC(".maps");

/*
 * Tasks of a session inside another, but for the process that began it: when it
 * and they are gone nobody is judged here any more.
 */
__u64 population;

/*
 * A process that begins a session has threads already, and some may be made while
 * it is put into scope: what counts is its first one's mark.
 */
static __always_inline struct scope *scope_of(struct task_struct *task)
{
	struct scope *s = bpf_task_storage_get(&scopes, task, 0, 0);

	if (!s && settings.flags & INNER)
		s = bpf_task_storage_get(&scopes, task->group_leader, 0, 0);
	return s;
}

static __always_inline struct scope *ours(void)
{
	return scope_of(bpf_get_current_task_btf());
}

/*
 * Whether a task is none of ours: those alone are looked into or signalled. The
 * process that began the session is in it, and yet is not for it to touch.
 */
static __always_inline int stranger(struct task_struct *task)
{
	struct task_struct *self = bpf_get_current_task_btf();
	struct scope *s = scope_of(task);

	return !s || (s->warden && BPF_CORE_READ(task, tgid) != self->tgid);
}

#endif
