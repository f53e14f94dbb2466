/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Room in the ring of the witness, whose programs tell of forks, programs and
 * exits: where what cannot be recorded must not happen a child, or a program, is
 * refused unless the ring has room for its record, whatever else is recorded
 * until then. An exit cannot be refused, so a child needs room for its own, too.
 *
 * `promised` is what is kept free. Whoever asks adds to it first and looks at the
 * ring then: of several who ask at once each sees the others, or what became of
 * them. What was promised is taken back when the record is in the ring, which
 * counts both for a moment; the witness is attached before us, so its programs
 * run before ours. A fork or an exec that fails later on keeps its room for the
 * task's next one, or until its end.
 *
 * All of it fails towards refusal; what has a right to its room never fails.
 */
#ifndef REEVE_LSM_ROOM_H
#define REEVE_LSM_ROOM_H

#include "lsm_record.h"

/* The witness's ring, which the loader puts here. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} facts SEC(".maps");

__u64 promised;

static __always_inline void take_back(__u64 bytes)
{
	__sync_fetch_and_add(&promised, -bytes);
}

static __always_inline int promise(__u64 bytes, enum lost cause)
{
	__u64 all = __sync_fetch_and_add(&promised, bytes) + bytes;

	if (bpf_ringbuf_query(&facts, BPF_RB_AVAIL_DATA) + all <= settings.room)
		return 0;
	take_back(bytes);
	count_lost(cause);
	return -EAGAIN;
}

static __always_inline int room_for_child(struct scope *s)
{
	if (!settings.room || s->forking)
		return 0;
	if (promise(settings.fork_room + settings.exit_room, LOST_FORK))
		return -EAGAIN;
	s->forking = 1;
	return 0;
}

/* The child is made and told of: the room for its exit is its own now. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(reeve_forked, struct task_struct *parent,
	     struct task_struct *child)
{
	struct scope *s = bpf_task_storage_get(&scopes, parent, 0, 0);

	if (!s || child->pid != child->tgid || !s->forking)
		return 0;
	s->forking = 0;
	take_back(settings.fork_room);
	s = bpf_task_storage_get(&scopes, child, 0, 0);
	if (s)
		s->promised = 1;
	return 0;
}

/* Once for each execve. */
SEC("lsm/bprm_creds_for_exec")
int BPF_PROG(reeve_creds_for_exec, struct linux_binprm *bprm, int ret)
{
	struct scope *s = ours();

	if (ret || !s || s->execing)
		return ret;
	if (promise(settings.exec_room, LOST_EXEC))
		return -EAGAIN;
	s->execing = 1;
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(reeve_executed, struct task_struct *task, int old_pid,
	     struct linux_binprm *bprm)
{
	struct scope *s = bpf_task_storage_get(&scopes, task, 0, 0);

	if (!s || !s->execing)
		return 0;
	s->execing = 0;
	take_back(settings.exec_room);
	return 0;
}

/*
 * A thread ends, and its process with the last. The process's right is on its
 * first thread, which each thread may become by an exec, so each has it; two
 * may think that they are the last.
 */
static __always_inline void gone(struct task_struct *task, struct scope *s)
{
	if (s->forking)
		take_back(settings.fork_room + settings.exit_room);
	if (s->execing)
		take_back(settings.exec_room);
	s->forking = s->execing = 0;
	if (BPF_CORE_READ(task, signal, live.counter))
		return;
	s = bpf_task_storage_get(&scopes, task->group_leader, 0, 0);
	if (s && __sync_lock_test_and_set(&s->promised, 0))
		take_back(settings.exit_room);
}

#endif
