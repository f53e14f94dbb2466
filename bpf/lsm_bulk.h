/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How many files that were there before the session have lost what they held: a
 * limit that a rule sets. The ledger of package policy says what counts, and
 * counts deletions here as well, see reeve_lose; opens are counted by the hooks
 * themselves, since nobody else sees them in time. A change is one too many when
 * the one that many before it is within the window.
 *
 * What cannot be looked up counts. Two who open one file at once may count twice.
 */
#ifndef REEVE_LSM_BULK_H
#define REEVE_LSM_BULK_H

#include "lsm_own.h"
#include "lsm_weigh.h"

/* When files were lost, CLOCK_BOOTTIME; the loader makes it as long as the limit. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

__u64 next_loss;

/* Take one loss; whether it is one too many. */
static __always_inline int one_too_many(void)
{
	__u32 at = __sync_fetch_and_add(&next_loss, 1) % settings.bulk_files;
	__u64 now = bpf_ktime_get_boot_ns(), was;
	__u64 *slot = bpf_map_lookup_elem(&losses, &at);

	if (!slot)
		return 1;
	was = __sync_lock_test_and_set(slot, now);
	/* Another processor may have been a little later. */
	return was && (__s64)(now - was) < (__s64)settings.bulk_window;
}

struct spending {
	const __u32 *cells;
	const __u8 *path;
	__u32 at;
	__u32 state;
};

static long spend(__u32 i, struct spending *r)
{
	__u32 b = byte_at(r->path, r->at + i);

	r->state = cell(r->cells, r->state + settings.expendable_class[b & 255]);
	return 0;
}

/* Whether what is called as in slot i is made again by a build, or temporary. */
__noinline int expendable(__u32 i)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &i);
	struct spending r = {};
	__u32 zero = 0, len;

	if (!s)
		return 0;
	r.cells = bpf_map_lookup_elem(&cells, &zero);
	r.path = s->path;
	r.at = s->at;
	r.state = settings.expendable.from[FROM_START];
	if (!r.cells)
		return 0;
	if (in_temp(s->path, s->at)) {
		r.state = settings.expendable.from[FROM_TEMP];
		r.at += settings.temp_len;
	}
	len = PATH_END - r.at;
	if (len > MAX_PATH)
		return 0;
	bpf_loop(len, spend, &r, 0);
	return cell(r.cells, r.state + settings.expendable.classes) != 0;
}

/*
 * The current task runs a program that keeps what it deletes, or whose commands
 * are judged by what they mean.
 */
__noinline int keeps(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct dentry *d = BPF_CORE_READ(task, mm, exe_file, f_path.dentry);
	__u32 i, j = 0, len = 0;
	__u64 name[KEEPER_WORDS] = {};
	struct slot *s;
	int found = 0;

	if (!d)
		return 0;
	len = BPF_CORE_READ(d, d_name.len);
	if (!len || len >= sizeof(name))
		return 0;
	asm volatile("%0 &= 0x1f" : "+r"(len));
	if (bpf_probe_read_kernel(name, len, BPF_CORE_READ(d, d_name.name)))
		return 0;
#pragma unroll
	for (i = 0; i < MAX_KEEPERS; i++) {
		const volatile __u64 *k = settings.keeper[i];

		found |= k[0] && name[0] == k[0] && name[1] == k[1] &&
			 name[2] == k[2] && name[3] == k[3];
	}
	if (!found)
		return 0;
	s = take_slot(&j);
	if (!s)
		return 0;
	s->q.dentry = (__u64)d;
	s->q.mnt = (__u64)BPF_CORE_READ(task, mm, exe_file, f_path.mnt);
	found = 0;
	if (find_path(j) || s->end != END_ROOT)
		goto out;
	s->v.at = s->at;
	s->v.end = PATH_END;
	s->v.from = FROM_START;
	s->v.need = NEED_ALL;
	s->v.way = WAY_WRITE;
	s->v.own = 0;
	s->v.mine = 0;
	if (in_temp(s->path, s->at)) {
		s->v.from = FROM_TEMP;
		s->v.at += settings.temp_len;
	}
	/* What the session can write is not what its name says. */
	found = !judge_path(j) && s->v.action > ACTION_ALLOW;
out:
	give_back(s);
	return found;
}

/*
 * Whether slot i is about a file too many that loses what it holds: it is asked
 * about what nothing else stands against, and takes it. A file whose name is gone
 * may have another.
 */
static __always_inline int too_many(struct slot *s, __u32 i)
{
	return settings.bulk_files && !s->g.error && s->q.loses &&
	       s->end == END_ROOT &&
	       !(s->g.flags & REC_ANONYMOUS) &&
	       !expendable(i) && !keeps() && one_too_many();
}

/* The same for the supervisor, who tells how many files a call of his loses. */
struct losing {
	__u32 files;
	__u32 over; /* written back */
};

static long lose_one(__u32 i, struct losing *l)
{
	l->over |= one_too_many();
	return 0;
}

SEC("syscall")
int reeve_lose(struct losing *l)
{
	struct losing all = {};
	__u32 n = l->files;

	if (!settings.bulk_files)
		return -EAGAIN;
	all.over = n > settings.bulk_files;
	if (n > settings.bulk_files)
		n = settings.bulk_files;
	bpf_loop(n, lose_one, &all, 0);
	l->over = all.over;
	return 0;
}

#endif
