package main

import "regexp"

// A skip is expected where a test's reason matches.
type skip struct {
	reason *regexp.Regexp
	why    string
}

// expected is the whole list of what `make test` may leave out on a Debian machine.
// Programs are not in it: tests/scripts/deps installs them.
func expected(root bool) []skip {
	list := []skip{
		{regexp.MustCompile(`needs BPF LSM|needs the LSM programs|needs the kernel of engine lsm|skip \[lsm\]`),
			"engine lsm, which not every kernel has: make test-vm tries it under one that has"},
		{regexp.MustCompile(`REEVE_LONG=1`), "long: REEVE_LONG=1 runs them"},
		{regexp.MustCompile(`REEVE_PROBE_WANT is not set`), "what this kernel has, if REEVE_PROBE_WANT says what that is"},
		{regexp.MustCompile(`skip \[pidns\]: pid_max is not per namespace here`), "process numbers that come round soon: Linux before 6.14"},
		{regexp.MustCompile(`needs Landlock ABI \d+`), "rights that an older kernel's Landlock does not know"},
		{regexp.MustCompile(`no IPv6 here`), "a kernel without IPv6"},
		{regexp.MustCompile(`needs the kernel's types`), "a kernel that does not state its types"},
		{regexp.MustCompile(`mount (overlay|btrfs|fuse|xfs|ext4)[^:]*:`), "a kernel without this file system"},
		{regexp.MustCompile(`skip \[fuse\]`), "a machine where root may not mount or has no /dev/fuse, as in most containers"},
		{regexp.MustCompile(`skip \[bpffs\]`), "a machine where no file system for BPF can be mounted"},
		{regexp.MustCompile(`skip \[repository\]`), "a source that is no clone of a repository"},
		{regexp.MustCompile(`skip \[amd64\]`), "machine code of x86-64, on another processor"},
	}
	if root {
		return append(list, skip{regexp.MustCompile(`^.*root can list every directory`), "what root alone cannot be refused"})
	}
	return append(list, skip{regexp.MustCompile(`needs? root|skip \[root\]|mount a small tmpfs: operation not permitted`), "the root tier: sudo make test runs it"})
}
