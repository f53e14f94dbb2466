# SPDX-License-Identifier: Apache-2.0
# A program without any library: opens its argument and copies it to stdout.
	.globl _start
	.text
_start:
	mov	16(%rsp), %rdi		# argv[1]
	xor	%esi, %esi		# O_RDONLY
	mov	$2, %eax		# open
	syscall
	test	%rax, %rax
	js	fail
	mov	%rax, %rdi
	lea	buf(%rip), %rsi
	mov	$512, %edx
	xor	%eax, %eax		# read
	syscall
	mov	%rax, %rdx
	mov	$1, %edi
	lea	buf(%rip), %rsi
	mov	$1, %eax		# write
	syscall
	xor	%edi, %edi
	jmp	out
fail:
	neg	%rax			# exits with the errno
	mov	%rax, %rdi
out:
	mov	$60, %eax		# exit
	syscall
	.bss
buf:	.skip	512
	.section .note.GNU-stack, "", @progbits
