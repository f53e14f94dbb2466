// Package bpf is the programs that run in the kernel, in C, beside the Go
// bindings that bpf2go makes of them and a quick way to load tracepoints. The compiled objects are committed;
// clang-19 is needed only to make them anew. They are the same on every
// little-endian machine, since nothing in them reads registers.
package bpf

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -type kind -type loss -type record_header -type fork_record -type exec_record -type exit_record -type mark -type inode_key -type expectation -cflags "-O2 -g -Wall -Wextra -Wno-unused-parameter -Wpadded -Werror -mcpu=v3" Witness witness.bpf.c
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -type plane -type record -type op -type why -type lost -type kind -type scope -type grant -type grant_key -type announcement -type need -type way -type from -type mode -type surface -type note -type own -type losing -cflags "-O2 -g -Wall -Wextra -Wno-unused-parameter -Wpadded -Werror -mcpu=v3" Lsm lsm.bpf.c
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -type question -cflags "-O2 -g -Wall -Wextra -Wno-unused-parameter -Wpadded -Werror -mcpu=v3" Judge judge.bpf.c
