//go:build ignore

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The witness of the engine `unotify` under root: what became of fork, execve
 * and exit in one session, from tracepoints with typed arguments (tp_btf).
 *
 * They see every task of the machine and act on those that carry our mark only;
 * each session loads programs and maps of its own. A mark is given to the first
 * process by user space and to each child in sched_process_fork, which runs
 * before the child does.
 *
 * Which way they fail:
 * - A record that finds no room is counted and dropped. Marking and killing do
 *   not depend on the ring.
 * - fork: if the child cannot be marked, the parent is killed at once, and user
 *   space is told to kill the child.
 * - exec, with `verify`: what is not among the expected files, or what nobody
 *   announced, is killed before its first instruction, and so is what was told
 *   another argument vector than was judged. A missing or unreadable fact counts
 *   as a mismatch. The vector is read from the new address space, which nobody
 *   else can reach before the program runs.
 * - exit: observes only.
 * Not seen: the kernel's own threads for io_uring (no fork event), so a session
 * must not have io_uring where it matters who did something.
 * When the loader closes its descriptors the programs are gone: it must not
 * outlive the session's tree.
 */
#include "witness.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/*
 * Pointers are followed by BPF_CORE_READ, not by `->`, but where a helper wants
 * a typed pointer: for each `->` to a pointer the verifier looks through all
 * type names of the kernel, several times, and the command waits for us (13 ms
 * of it became 2).
 */

const volatile __u64 session_id = 0;
const volatile __u8 verify = 0;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mark);
} marks SEC(".maps");

/*
 * Who may execute what next, by the thread id that calls execve. An entry goes
 * with the exec or with the thread.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct expectation);
} expected SEC(".maps");

/*
 * The vectors of execs that were judged by theirs, by the thread that calls
 * execve. It is only looked at where the expectation says so: what an exec that
 * failed has left is replaced by the next, or goes with the thread. Memory is
 * there from the start, since a map that is allocated as needed may refuse.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TELLING);
	__type(key, __u32);
	__type(value, struct telling);
} tellings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* the loader may choose another size */
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NUM_LOSSES);
	__type(key, enum loss);
	__type(value, __u64);
} losses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static void count_loss(enum loss cause)
{
	__u64 *n = bpf_map_lookup_elem(&losses, &cause);

	if (n)
		(*n)++;
}

/* Kill the current process; false if the signal could not be sent. */
static int kill_current(void)
{
	if (!bpf_send_signal(SIGKILL))
		return 1;
	count_loss(LOSS_KILL);
	return 0;
}

/* The mark of a task's process, which is on its first thread. */
static struct mark *process_mark(struct task_struct *task)
{
	return bpf_task_storage_get(&marks, task->group_leader, 0, 0);
}

/*
 * The mark of a task, or of its process: a thread that was there before its
 * process was marked has none of its own. User space may have marked a single
 * thread, too: then its children are ours and it is not.
 */
static struct mark *find_mark(struct task_struct *task)
{
	struct mark *m = bpf_task_storage_get(&marks, task, 0, 0);

	return m ? m : process_mark(task);
}

static struct mark *give_mark(struct task_struct *task)
{
	struct mark init = { .session = session_id };

	return bpf_task_storage_get(&marks, task, &init,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}

static void fill_header(struct record_header *h, enum kind kind,
			__u32 size)
{
	h->version = WITNESS_VERSION;
	h->kind = kind;
	h->size = size;
	h->time = bpf_ktime_get_boot_ns();
	h->session = session_id;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(witness_fork, struct task_struct *parent, struct task_struct *child)
{
	struct fork_record *r;
	__u32 flags = 0;

	if (!find_mark(parent))
		return 0;
	if (!give_mark(child)) {
		count_loss(LOSS_SCOPE);
		kill_current();
		flags |= FORK_UNMARKED;
	}
	/* A new thread is no new process. */
	if (child->pid != child->tgid && !flags)
		return 0;

	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		count_loss(LOSS_RING_FORK);
		return 0;
	}
	fill_header(&r->header, KIND_FORK, sizeof(*r));
	r->parent_tgid = parent->tgid;
	r->parent_tid = parent->pid;
	r->child_tgid = child->tgid;
	r->flags = flags;
	r->parent_start = BPF_CORE_READ(parent, group_leader, start_boottime);
	r->child_start = child->start_boottime;
	bpf_ringbuf_submit(r, 0);
	return 0;
}

/*
 * Whether the new program is told what was judged. The judged vector is laid under
 * the real one, so that all words are the same exactly if the real one is: no byte
 * behind its end has to be known.
 */
static int same_telling(struct scratch *s, struct task_struct *task, __u32 tid)
{
	struct telling *t = bpf_map_lookup_elem(&tellings, &tid);
	unsigned long start, size;
	__u64 diff = 0;
	__u32 i, j;

	if (!t)
		return 0;
	start = BPF_CORE_READ(task, mm, arg_start);
	size = BPF_CORE_READ(task, mm, arg_end) - start;
	if (size != t->size || size > MAX_TOLD)
		return 0;
	if (bpf_probe_read_kernel(s->words, sizeof(s->words), t->words))
		return 0;
	asm volatile("if %0 <= 1024 goto +1; %0 = 1024" : "+r"(size));
	if (bpf_probe_read_user(s->words, size, (void *)start))
		return 0;
	/* The verifier looks back at each turn, so there are few. */
#pragma clang loop unroll(disable)
	for (i = 0; i < MAX_TOLD / 8; i += 64) {
#pragma clang loop unroll(full)
		for (j = 0; j < 64; j++)
			diff |= s->words[i + j] ^ t->words[i + j];
	}
	return !diff;
}

/* The flags of an exec: what it was compared with, and what followed. */
static __u32 judge_exec(const struct expectation *e, struct scratch *s,
			struct task_struct *task, __u32 tid, __u64 dev, __u64 ino)
{
	__u32 flags = 0;
	__u32 i;

	if (!verify)
		return 0;
	if (!e) {
		flags = EXEC_MISMATCH | EXEC_UNEXPECTED;
	} else {
		flags = EXEC_MISMATCH;
		for (i = 0; i < MAX_EXPECTED; i++) {
			if (i < e->count && e->inodes[i].dev == dev &&
			    e->inodes[i].ino == ino)
				flags = 0;
		}
		if (!flags && e->told && (!s || !same_telling(s, task, tid)))
			flags = EXEC_TOLD;
	}
	if (flags && kill_current())
		flags |= EXEC_KILLED;
	return flags;
}

/*
 * Append the file name and the arguments to the record. The arguments are in
 * the new address space, which nobody else shares yet.
 */
static __u32 read_strings(struct scratch *s, struct task_struct *task,
			  struct linux_binprm *bprm)
{
	struct exec_record *r = &s->exec;
	unsigned long start, full;
	__u32 len = 0;
	long n;

	n = bpf_probe_read_kernel_str(s->data, MAX_FILENAME,
				      BPF_CORE_READ(bprm, filename));
	if (n > 0 && n <= MAX_FILENAME)
		len = n - 1;
	else
		count_loss(LOSS_FILENAME);
	r->filename_len = len;

	start = BPF_CORE_READ(task, mm, arg_start);
	full = BPF_CORE_READ(task, mm, arg_end) - start;
	r->argv_full = full;
	r->argv_len = 0;
	if (full > MAX_ARGV)
		full = MAX_ARGV;
	/* The compiler may not forget these bounds: the verifier wants them. */
	asm volatile("%0 &= 0xfff" : "+r"(len));
	asm volatile("if %0 <= 4096 goto +1; %0 = 4096" : "+r"(full));
	if (bpf_probe_read_user(s->data + len, full, (void *)start)) {
		count_loss(LOSS_ARGV);
		return len;
	}
	r->argv_len = full;
	return len + full;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(witness_exec, struct task_struct *task, int old_pid,
	     struct linux_binprm *bprm)
{
	__u32 key = old_pid, zero = 0, size;
	struct expectation *e;
	struct exec_record *r;
	struct scratch *s;
	__u64 dev, ino;
	__u32 flags;

	/*
	 * A thread that was there before its process was marked and now takes
	 * the leader's place has no mark: that it was announced makes it ours.
	 */
	e = bpf_map_lookup_elem(&expected, &key);
	if (!bpf_task_storage_get(&marks, task, 0, 0)) {
		if (!e)
			return 0;
		if (!give_mark(task)) {
			count_loss(LOSS_SCOPE);
			kill_current();
		}
	}
	dev = BPF_CORE_READ(bprm, file, f_inode, i_sb, s_dev);
	ino = BPF_CORE_READ(bprm, file, f_inode, i_ino);
	s = bpf_map_lookup_elem(&scratches, &zero);
	flags = judge_exec(e, s, task, key, dev, ino);
	if (e && e->told)
		bpf_map_delete_elem(&tellings, &key);
	bpf_map_delete_elem(&expected, &key);
	if (!s) {
		count_loss(LOSS_SCRATCH);
		return 0;
	}
	r = &s->exec;
	r->tgid = task->tgid;
	r->old_tid = old_pid;
	r->start = task->start_boottime;
	r->dev = dev;
	r->ino = ino;
	r->flags = flags;
	size = read_strings(s, task, bprm);
	asm volatile("if %0 <= 8192 goto +1; %0 = 8192" : "+r"(size));
	size += sizeof(*r);
	fill_header(&r->header, KIND_EXEC, size);
	if (bpf_ringbuf_output(&records, s, size, 0))
		count_loss(LOSS_RING_EXEC);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(witness_exit, struct task_struct *task)
{
	struct mark *m = process_mark(task);
	__u32 tid = task->pid;
	struct exit_record *r;

	if (!m)
		return 0;
	bpf_map_delete_elem(&expected, &tid);
	bpf_map_delete_elem(&tellings, &tid);

	/* The process is gone when its last thread is; two may see that. */
	if (BPF_CORE_READ(task, signal, live.counter))
		return 0;
	if (__sync_lock_test_and_set(&m->exited, 1))
		return 0;

	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		count_loss(LOSS_RING_EXIT);
		return 0;
	}
	fill_header(&r->header, KIND_EXIT, sizeof(*r));
	r->tgid = task->tgid;
	r->start = BPF_CORE_READ(task, group_leader, start_boottime);
	/* kernel/exit.c, wait_task_zombie() */
	if (BPF_CORE_READ(task, signal, flags) & SIGNAL_GROUP_EXIT)
		r->status = BPF_CORE_READ(task, signal, group_exit_code);
	else
		r->status = BPF_CORE_READ(task, group_leader, exit_code);
	bpf_ringbuf_submit(r, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
