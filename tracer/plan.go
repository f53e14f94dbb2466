// Package tracer is the kernel's side of reeve: it picks an engine by trying,
// starts a session from a Plan, and joins what the gate decided with what the
// witness saw.
package tracer

import (
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/landlock"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// Plan is a policy lowered to what the kernel side needs. supervisor/policy
// makes it; nothing in it needs the policy to be understood.
type Plan struct {
	// Handling says, class by class, what the gate does.
	Handling gate.Table
	// AllowKernel names the surfaces of class Kernel that the policy allows
	// explicitly (seccomp.Surface names: "mount", "bpf" …).
	AllowKernel []string
	// Floor is the Landlock ruleset.
	Floor landlock.Spec
	// Hooks are what the engine lsm holds in the kernel; nil for the engine
	// unotify.
	Hooks *lsm.Rules
	// NeedWitness are what only the witness can hold, one sentence each: where there
	// is none they are gaps of the machine, and the session does not start.
	NeedWitness []string
	// Gaps are the rows that this plan cannot hold, one sentence each; stamped
	// on the session and printed by `policy check` and `doctor`.
	Gaps []string
}
