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

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct room);
} rooms SEC(".maps");

/* What the current task has asked for, 0 if there is no memory to note it. */
static __always_inline struct room *own_room(void)
{
	return bpf_task_storage_get(&rooms, bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}

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

static __always_inline int room_for_child(void)
{
	struct room *r;

	if (!settings.room)
		return 0;
	r = own_room();
	if (!r)
		return -EAGAIN;
	if (r->forking)
		return 0;
	if (promise(settings.fork_room + settings.exit_room, LOST_FORK))
		return -EAGAIN;
	r->forking = 1;
	return 0;
}

/* The child is made and told of: the room for its exit is its own now. */
static __always_inline void made_child(struct task_struct *parent,
				       struct scope *child)
{
	struct room *r = bpf_task_storage_get(&rooms, parent, 0, 0);

	if (!r || !r->forking)
		return;
	r->forking = 0;
	take_back(settings.fork_room);
	child->promised = 1;
}

/* Once for each execve. */
SEC("lsm/bprm_creds_for_exec")
int BPF_PROG(reeve_creds_for_exec, struct linux_binprm *bprm, int ret)
{
	struct room *r;

	if (ret || !ours())
		return ret;
	r = own_room();
	if (!r)
		return -EAGAIN;
	if (r->execing)
		return 0;
	if (promise(settings.exec_room, LOST_EXEC))
		return -EAGAIN;
	r->execing = 1;
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(reeve_executed, struct task_struct *task, int old_pid,
	     struct linux_binprm *bprm)
{
	struct room *r = bpf_task_storage_get(&rooms, task, 0, 0);

	if (!r || !r->execing)
		return 0;
	r->execing = 0;
	take_back(settings.exec_room);
	return 0;
}

/*
 * A thread ends, and its process with the last. The process's right is on its
 * first thread, which each thread may become by an exec, so each has it; two
 * may think that they are the last.
 */
static __always_inline void gone(struct task_struct *task)
{
	struct room *r = bpf_task_storage_get(&rooms, task, 0, 0);
	struct scope *s;

	if (r && r->forking)
		take_back(settings.fork_room + settings.exit_room);
	if (r && r->execing)
		take_back(settings.exec_room);
	if (r)
		r->forking = r->execing = 0;
	if (BPF_CORE_READ(task, signal, live.counter))
		return;
	s = bpf_task_storage_get(&scopes, task->group_leader, 0, 0);
	if (s && __sync_lock_test_and_set(&s->promised, 0))
		take_back(settings.exit_room);
}

#endif
