//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The judge of the engine `lsm`: the policy's automata over the path of the
 * object that the kernel resolved, for every task of one session, at the hooks
 * of the security modules. Each session loads programs and maps of its own.
 *
 * They see every task of the machine and act on those that carry our mark only.
 * User space marks the first process while it waits to execute the command;
 * task_alloc marks each child, the kernel's threads for io_uring among them,
 * before it exists for anybody else. A session inside a session has programs of
 * its own, of which all are asked that a task is in the scope of. Forks, programs and exits are the witness's
 * to record; where the audit is strict these programs keep room for it.
 *
 * Which way they fail: towards refusal. What no path can be found for, what no
 * buffer is free for, what has another root than the session is refused; a child
 * that cannot be marked is not made. Records do not decide: a denial that finds
 * no room is counted and stays a denial; with STRICT an allowed operation that
 * finds no room is refused, and so are a child and a program of which the witness
 * could not tell. When the supervisor ends, everything is refused from its first
 * thread's exit on.
 *
 * Where several such programs are at one hook the kernel ends with the first
 * that refuses, so a refusal of another never comes here; it is honoured all the
 * same where the hook has the same arguments on every kernel.
 *
 * A call that the supervisor makes for a task is made by the supervisor, who
 * carries no mark: the hooks do not judge it. Whoever closes the last descriptors
 * of the links detaches all this: it must be the last of the session.
 */
#include "lsm.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

const volatile struct session settings = {};

#include "lsm_scope.h"
#include "lsm_path.h"
#include "lsm_judge.h"
#include "lsm_record.h"
#include "lsm_hold.h"
#include "lsm_room.h"

/* Fails towards refusal: no mark, or no room, no child. */
SEC("lsm/task_alloc")
int BPF_PROG(reeve_task_alloc, struct task_struct *task,
	     unsigned long clone_flags, int ret)
{
	struct task_struct *self = bpf_get_current_task_btf();
	struct scope *s = ours(), *first, child = {};

	if (ret || !s)
		return ret;
	if (!(clone_flags & CLONE_THREAD) && room_for_child())
		return -EAGAIN;
	first = bpf_task_storage_get(&scopes, self->group_leader, 0, 0);
	child.session = s->session;
	child.promised = s->promised;
	child.inner = first ? first->inner : s->inner;
	if (clone_flags & CLONE_THREAD)
		child.warden = s->warden;
	if (!bpf_task_storage_get(&scopes, task, &child,
				  BPF_LOCAL_STORAGE_GET_F_CREATE)) {
		count_lost(LOST_SCOPE);
		return -EAGAIN;
	}
	return 0;
}

/* The child is made, and does not run yet. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(reeve_forked, struct task_struct *parent,
	     struct task_struct *child)
{
	struct scope *s = bpf_task_storage_get(&scopes, child, 0, 0);

	if (!s)
		return 0;
	if (settings.room && child->pid == child->tgid)
		made_child(parent, s);
	if (settings.flags & INNER && !s->counted) {
		s->counted = 1;
		__sync_fetch_and_add(&population, 1);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(reeve_exit, struct task_struct *task)
{
	__u32 tid = task->pid;
	struct scope *s;

	if ((__u32)task->tgid == settings.supervisor &&
	    (!BPF_CORE_READ(task, signal, live.counter) ||
	     BPF_CORE_READ(task, signal, flags) & SIGNAL_GROUP_EXIT))
		over = 1;
	s = bpf_task_storage_get(&scopes, task, 0, 0);
	if (!s)
		return 0;
	bpf_map_delete_elem(&injected, &tid);
	bpf_map_delete_elem(&announced, &tid);
	if (settings.room)
		gone(task);
	if (s->counted) {
		s->counted = 0;
		__sync_fetch_and_add(&population, -1ULL);
	}
	return 0;
}

#include "lsm_files.h"
#include "lsm_names.h"
#include "lsm_rest.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
