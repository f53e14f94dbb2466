/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Changes of names and of metadata. System calls for them are made by the
 * supervisor, who knows whose a repository or a socket is; what comes here comes
 * by another way (io_uring, a call of tomorrow) or is the making of a file by
 * open(2). Where these hooks cannot know what the supervisor knows they refuse
 * more than it would. All fail towards refusal.
 */

#define RENAME_EXCHANGE (1U << 1)
#define S_IFSOCK 0140000
#define PF_IO_WORKER 0x10 /* linux/sched.h */

/*
 * Whether the gate tells of it, too. It does of each call that it lets go on
 * where nothing is held; what the kernel does for a ring never came to it.
 */
static __always_inline __u32 told(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return settings.flags & RECORD_ONLY &&
	       !(BPF_CORE_READ(task, flags) & PF_IO_WORKER);
}

static __always_inline void about_name(struct request *q,
				       const struct path *dir,
				       struct dentry *dentry)
{
	q->dentry = (__u64)dentry;
	q->mnt = (__u64)BPF_CORE_READ(dir, mnt);
}

static __always_inline __u32 mode_of(struct dentry *d)
{
	return BPF_CORE_READ(d, d_inode, i_mode);
}

/* Whether what a file holds is lost that was there before the session. */
static __always_inline __u32 loses(struct dentry *d)
{
	return settings.bulk_files && (mode_of(d) & S_IFMT) == S_IFREG &&
	       !is_own(d->d_inode);
}

/* Refuse for a reason that no automaton gives, with the path in the record. */
static __always_inline int refuse_name(struct request *q, enum why why,
				       __u32 error)
{
	q->why = why;
	q->error = error;
	return hold(q);
}

SEC("lsm/path_mknod")
int BPF_PROG(reeve_path_mknod, const struct path *dir, struct dentry *dentry,
	     __u16 mode, unsigned int dev, int ret)
{
	struct request q = { .op = LSM_MKNOD, .need = NEED_WRITE, .made = 1,
			     .quiet = told() };
	int held = !(settings.flags & RECORD_ONLY);

	if (ret || !ours())
		return ret;
	about_name(&q, dir, dentry);
	q.own = is_own(dir->dentry->d_inode);
	q.mode = mode;
	if (!(mode & S_IFMT) || (mode & S_IFMT) == S_IFREG) {
		q.op = LSM_CREATE;
		q.quiet = 1; /* file_open will record it */
	}
	if (held && is_device(mode))
		return refuse_name(&q, WHY_DEVICE, EPERM);
	if (held && mode & (S_ISUID | S_ISGID))
		return refuse_name(&q, WHY_SETID, EPERM);
	return hold(&q);
}

/* A change of one name that is there, or of a directory that is made. */
static __always_inline int change_name(enum op op, const struct path *dir,
				       struct dentry *dentry, __u32 made)
{
	struct request q = { .op = op, .need = NEED_WRITE, .made = made,
			     .quiet = told() };

	if (!ours())
		return 0;
	about_name(&q, dir, dentry);
	if (made)
		q.mode = S_IFDIR;
	if (op == LSM_UNLINK)
		q.loses = loses(dentry);
	/* Whose a socket is, is known to the gate by its inode. */
	if (settings.closed & SURFACE_TREE &&
	    (mode_of(dentry) & S_IFMT) == S_IFSOCK)
		return refuse_name(&q, WHY_GATE, EPERM);
	return hold(&q);
}

SEC("lsm/path_mkdir")
int BPF_PROG(reeve_path_mkdir, const struct path *dir, struct dentry *dentry,
	     __u16 mode, int ret)
{
	return ret ? ret : change_name(LSM_MKDIR, dir, dentry, 1);
}

SEC("lsm/path_rmdir")
int BPF_PROG(reeve_path_rmdir, const struct path *dir, struct dentry *dentry,
	     int ret)
{
	return ret ? ret : change_name(LSM_RMDIR, dir, dentry, 0);
}

SEC("lsm/path_unlink")
int BPF_PROG(reeve_path_unlink, const struct path *dir, struct dentry *dentry,
	     int ret)
{
	return ret ? ret : change_name(LSM_UNLINK, dir, dentry, 0);
}

/* Which names are special is for the gate to say. */
SEC("lsm/path_symlink")
int BPF_PROG(reeve_path_symlink, const struct path *dir, struct dentry *dentry,
	     const char *old_name, int ret)
{
	struct request q = { .op = LSM_SYMLINK, .need = NEED_WRITE, .made = 1,
			     .quiet = told(), .mode = S_IFLNK,
			     .text = (__u64)old_name };

	if (ret || !ours())
		return ret;
	about_name(&q, dir, dentry);
	if (settings.closed & SURFACE_TREE)
		return refuse_name(&q, WHY_TREE, EPERM);
	return hold(&q);
}

/*
 * Give what stands at the old name the new one. Directories, symbolic links and
 * sockets are for the gate: what is below them, where they lead and whose they
 * are is not seen here.
 */
static __always_inline int rename_to(enum op op, const struct path *old_dir,
				     struct dentry *old,
				     const struct path *new_dir,
				     struct dentry *dentry, __u32 flags)
{
	struct request from = { .op = op, .need = NEED_WRITE, .quiet = told() };
	struct request to = { .op = op, .need = NEED_WRITE };

	about_name(&from, old_dir, old);
	about_name(&to, new_dir, dentry);
	to.made = !BPF_CORE_READ(dentry, d_inode);
	to.mode = mode_of(old);
	if (op == LSM_RENAME && !to.made)
		to.loses = loses(dentry);
	/* The supervisor does not see where it goes, and may take it for own. */
	from.loses = loses(old);
	if (settings.closed & SURFACE_TREE &&
	    (flags & RENAME_EXCHANGE || (to.mode & S_IFMT) != S_IFREG ||
	     (!to.made && (mode_of(dentry) & S_IFMT) != S_IFREG))) {
		from.why = WHY_TREE;
		from.error = EXDEV;
	}
	/* A link needs no leave to write the old name, a move does. */
	from.look = op == LSM_LINK;
	from.whole = to.whole = 1;
	return hold_names(&from, &to);
}

SEC("lsm/path_rename")
int BPF_PROG(reeve_path_rename, const struct path *old_dir,
	     struct dentry *old_dentry, const struct path *new_dir,
	     struct dentry *new_dentry, unsigned int flags, int ret)
{
	if (ret || !ours())
		return ret;
	return rename_to(LSM_RENAME, old_dir, old_dentry, new_dir, new_dentry,
			 flags);
}

SEC("lsm/path_link")
int BPF_PROG(reeve_path_link, struct dentry *old_dentry,
	     const struct path *new_dir, struct dentry *new_dentry, int ret)
{
	if (ret || !ours())
		return ret;
	return rename_to(LSM_LINK, new_dir, old_dentry, new_dir, new_dentry, 0);
}

static __always_inline int change_file(enum op op, const struct path *path)
{
	struct request q = { .op = op, .need = NEED_WRITE, .quiet = told() };

	if (!ours())
		return 0;
	about_path(&q, path);
	return hold(&q);
}

SEC("lsm/path_truncate")
int BPF_PROG(reeve_path_truncate, const struct path *path, int ret)
{
	struct request q = { .op = LSM_TRUNCATE, .need = NEED_WRITE,
			     .quiet = told() };
	int held;

	if (ret || !ours())
		return ret;
	about_path(&q, path);
	q.loses = loses(path->dentry);
	held = hold(&q);
	if (!held && q.loses)
		make_own(path->dentry->d_inode, OWN_CONTENT);
	return held;
}

SEC("lsm/path_chmod")
int BPF_PROG(reeve_path_chmod, const struct path *path, __u16 mode, int ret)
{
	struct request q = { .op = LSM_CHMOD, .need = NEED_WRITE,
			     .quiet = told() };

	if (ret || !ours())
		return ret;
	about_path(&q, path);
	if (mode & (S_ISUID | S_ISGID) && !(settings.flags & RECORD_ONLY) &&
	    (mode_of((struct dentry *)q.dentry) & S_IFMT) != S_IFDIR)
		return refuse_name(&q, WHY_SETID, EPERM);
	return hold(&q);
}

SEC("lsm/path_chown")
int BPF_PROG(reeve_path_chown, const struct path *path, unsigned int uid,
	     unsigned int gid, int ret)
{
	return ret ? ret : change_file(LSM_CHOWN, path);
}
