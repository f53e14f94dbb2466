/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Opens, execs and what else is done to files that are there. All may refuse;
 * all fail towards refusal.
 */

/* include/linux/fs.h, uapi/asm-generic/fcntl.h, uapi/linux/mman.h */
#define FMODE_READ 0x1
#define FMODE_WRITE 0x2
#define FMODE_CREATED 0x100000
#define OPEN_EXEC 0x20 /* __FMODE_EXEC in f_flags: the kernel will run it */
#define OPEN_TRUNC 01000
#define OPEN_APPEND 02000
#define OPEN_TMPFILE 020000000
#define PROT_EXEC 4
#define VM_EXEC 4
#define PTY_SLAVE_MAJOR 136

/*
 * Pseudo-terminals that the session made: the inode of the slave appears in the
 * course of opening the master.
 */
struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} ptys SEC(".maps");

SEC("lsm/d_instantiate")
int BPF_PROG(reeve_d_instantiate, struct dentry *dentry, struct inode *inode)
{
	__u32 one = 1;

	if (!ours() || !inode || BPF_CORE_READ(inode, i_rdev) >> 20 !=
					 PTY_SLAVE_MAJOR)
		return 0;
	/* If there is no room the terminal is a stranger's: refused. */
	bpf_inode_storage_get(&ptys, inode, &one,
			      BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

static __always_inline void about_file(struct request *q, struct file *file)
{
	q->dentry = (__u64)BPF_CORE_READ(file, f_path.dentry);
	q->mnt = (__u64)BPF_CORE_READ(file, f_path.mnt);
}

static __always_inline void about_path(struct request *q,
				       const struct path *path)
{
	q->dentry = (__u64)BPF_CORE_READ(path, dentry);
	q->mnt = (__u64)BPF_CORE_READ(path, mnt);
}

SEC("lsm/file_open")
int BPF_PROG(reeve_file_open, struct file *file, int ret)
{
	struct request q = { .op = LSM_OPEN };
	__u32 flags, mode;
	int held;

	if (ret || !ours())
		return ret;
	about_file(&q, file);
	flags = BPF_CORE_READ(file, f_flags);
	mode = BPF_CORE_READ(file, f_mode);
	q.arg = flags;
	if (flags & OPEN_EXEC) {
		q.op = LSM_EXEC;
		q.need = NEED_EXEC;
		q.quiet = 1; /* the gate records what was asked for */
		return hold(&q);
	}
	if (mode & FMODE_READ)
		q.need |= NEED_READ;
	if (mode & FMODE_WRITE || flags & OPEN_TRUNC)
		q.need |= NEED_WRITE;
	if (!q.need)
		q.need = NEED_READ;
	q.tmpfile = (flags & OPEN_TMPFILE) == OPEN_TMPFILE;
	if (mode & FMODE_CREATED || q.tmpfile) {
		/*
		 * It was made by this call, so reading gives the session only
		 * what it wrote.
		 */
		q.op = LSM_CREATE;
		q.need = NEED_WRITE;
		q.made = 1;
	} else if (flags & OPEN_TRUNC ||
		   (mode & FMODE_WRITE && !(flags & OPEN_APPEND))) {
		q.loses = (file->f_inode->i_mode & S_IFMT) == S_IFREG &&
			  !is_own(file->f_inode);
	}
	if (!q.made)
		q.mine = is_made(file->f_inode);
	if (q.need & NEED_WRITE)
		q.own = is_own(file->f_path.dentry->d_parent->d_inode);
	if (file->f_inode->i_rdev >> 20 == PTY_SLAVE_MAJOR &&
	    bpf_inode_storage_get(&ptys, file->f_inode, 0, 0))
		q.flags |= REC_OWN;
	held = hold(&q);
	if (!held && (q.made || q.loses))
		make_own(file->f_inode,
			 q.made ? OWN_CONTENT | OWN_MADE : OWN_CONTENT);
	return held;
}

/* A descriptor from another task: as if it were opened. */
SEC("lsm/file_receive")
int BPF_PROG(reeve_file_receive, struct file *file, int ret)
{
	struct request q = { .op = LSM_RECEIVE };
	__u32 mode, tid = bpf_get_current_pid_tgid();

	if (ret || !ours())
		return ret;
	mode = BPF_CORE_READ(file, f_mode);
	if (!bpf_map_delete_elem(&injected, &tid)) {
		__u32 flags = BPF_CORE_READ(file, f_flags);

		/* The gate's, which judged and counted it. */
		if (mode & FMODE_CREATED ||
		    (flags & OPEN_TMPFILE) == OPEN_TMPFILE)
			make_own(file->f_inode, OWN_CONTENT | OWN_MADE);
		else if (mode & FMODE_WRITE && !(flags & OPEN_APPEND))
			make_own(file->f_inode, OWN_CONTENT);
		return 0;
	}
	about_file(&q, file);
	q.mine = is_made(file->f_inode);
	if (mode & FMODE_READ)
		q.need |= NEED_READ;
	if (mode & FMODE_WRITE)
		q.need |= NEED_WRITE;
	if (!q.need)
		q.need = NEED_READ;
	return hold(&q);
}

/*
 * Files that somebody was asked about, to read or to run them, and said yes to: they
 * are mapped as code, by whoever has them open. Nobody can be asked then.
 */
struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} answered SEC(".maps");

static __always_inline int map_code(struct file *file)
{
	struct request q = { .op = LSM_MAP, .need = NEED_EXEC, .quiet = 1 };

	if (!file || !ours())
		return 0;
	about_file(&q, file);
	q.answered = !!bpf_inode_storage_get(&answered, file->f_inode, 0, 0);
	return hold(&q);
}

SEC("lsm/mmap_file")
int BPF_PROG(reeve_mmap_file, struct file *file, unsigned long reqprot,
	     unsigned long prot, unsigned long flags, int ret)
{
	if (ret || !(prot & PROT_EXEC))
		return ret;
	return map_code(file);
}

SEC("lsm/file_mprotect")
int BPF_PROG(reeve_file_mprotect, struct vm_area_struct *vma,
	     unsigned long reqprot, unsigned long prot, int ret)
{
	if (ret || !(prot & PROT_EXEC) || BPF_CORE_READ(vma, vm_flags) & VM_EXEC)
		return ret;
	return map_code(vma->vm_file);
}

/* What is hidden is not seen by stat(2) either. */
SEC("lsm/inode_getattr")
int BPF_PROG(reeve_inode_getattr, const struct path *path, int ret)
{
	struct request q = { .op = LSM_STAT, .need = NEED_READ, .quiet = 1 };

	if (ret || !ours())
		return ret;
	about_path(&q, path);
	return hold(&q);
}

/* No program of the session becomes somebody else. */
SEC("lsm/bprm_creds_from_file")
int BPF_PROG(reeve_creds_from_file, struct linux_binprm *bprm,
	     const struct file *file, int ret)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (ret || !ours() || settings.flags & RECORD_ONLY)
		return ret;
	if (BPF_CORE_READ(bprm, cred, euid.val) ==
		    BPF_CORE_READ(task, cred, euid.val) &&
	    BPF_CORE_READ(bprm, cred, egid.val) ==
		    BPF_CORE_READ(task, cred, egid.val))
		return 0;
	return refuse_surface(LSM_CREDS, WHY_IDENTITY, 0);
}
