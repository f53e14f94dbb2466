package probe

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Args[0] == ChildName {
		os.Exit(Child(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestAll(t *testing.T) {
	start := time.Now()
	results := All(context.Background(), Config{})
	t.Logf("all probes in %v", time.Since(start))
	if len(results) != len(order) {
		t.Fatalf("%d results, want %d", len(results), len(order))
	}
	for i, r := range results {
		t.Logf("%-30s %-8s %s%s", r.Name, r.State, r.Reason, hintSuffix(r))
		if r.Name != order[i].name {
			t.Errorf("%s in the place of %s", r.Name, order[i].name)
		}
		if r.State == Unknown {
			t.Errorf("%s could not be tried: %s", r.Name, r.Reason)
		}
		if r.Reason == "" || r.State == Yes && r.Hint != "" {
			t.Errorf("%s: reason %q, hint %q", r.Name, r.Reason, r.Hint)
		}
	}
	for _, e := range Engines(results) {
		t.Logf("%-16s holds=%v missing=%q weaker=%q", e.Name, e.Holds, e.Missing, e.Weaker)
		if e.Holds != (len(e.Missing) == 0) {
			t.Errorf("%s contradicts itself", e.Name)
		}
	}
}

func hintSuffix(r Result) string {
	if r.Hint == "" {
		return ""
	}
	return " (" + r.Hint + ")"
}

// TestWhatThisKernelHas is for CI, which knows its machine: REEVE_PROBE_WANT
// lists the names of probes, separated by commas, that must say yes.
func TestWhatThisKernelHas(t *testing.T) {
	want := os.Getenv("REEVE_PROBE_WANT")
	if want == "" {
		t.Skip("REEVE_PROBE_WANT is not set")
	}
	results := All(context.Background(), Config{})
	for name := range strings.SplitSeq(want, ",") {
		i := slices.IndexFunc(results, func(r Result) bool { return r.Name == name })
		if i < 0 || results[i].State != Yes {
			t.Errorf("%s: %+v", name, results)
		}
	}
}

func TestChildThatFails(t *testing.T) {
	results := All(context.Background(), Config{Executable: "/bin/false"})
	for _, r := range results {
		switch r.Name {
		case SeccompNotify, SeccompAddFD, Landlock, Subreaper, PidfdGetfd:
			if r.State != Unknown || r.Reason == "" {
				t.Errorf("%s: %s, %q; want unknown with a reason", r.Name, r.State, r.Reason)
			}
		}
	}
	for _, e := range Engines(results) {
		if e.Name != PtraceEngine && e.Holds {
			t.Errorf("%s holds on no evidence", e.Name)
		}
	}
}

// TestNested probes from below a filter that has a listener already.
func TestNested(t *testing.T) {
	done := make(chan []Result)
	go func() {
		runtime.LockOSThread() // the filter dies with the thread
		if _, err := install(); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		done <- inChild("seccomp")(ctx, Config{Executable: "/proc/self/exe"})
	}()
	results := <-done
	i := slices.IndexFunc(results, func(r Result) bool { return r.Name == SeccompNotify })
	if i < 0 || results[i].State != No || results[i].Hint != hintNested {
		t.Errorf("results %+v", results)
	}
}

func TestTimeout(t *testing.T) {
	start := time.Now()
	stuck := func(ctx context.Context, _ Config) []Result { select {} }
	if got := bounded(context.Background(), Config{Timeout: 20 * time.Millisecond}, stuck); got != nil {
		t.Errorf("got %v", got)
	}
	if time.Since(start) > 5*time.Second {
		t.Error("waited for a stuck probe")
	}
	if r := inOrder(nil); len(r) != len(order) || r[0].State != Unknown || r[0].Reason == "" {
		t.Errorf("missing results: %+v", r)
	}
}

func TestEngines(t *testing.T) {
	all := func(but ...string) (out []Result) {
		for _, r := range inOrder(nil) {
			r.State, r.Reason = Yes, "seen"
			if slices.Contains(but, r.Name) {
				r.State, r.Reason = No, "refused"
			}
			out = append(out, r)
		}
		return out
	}
	tests := []struct {
		name    string
		results []Result
		want    []string
	}{
		{"everything", all(), []string{LSM, UnotifyRoot, Unotify, PtraceEngine}},
		{"nothing asked", nil, nil},
		{"no LSM", all(BPFLSM), []string{UnotifyRoot, Unotify, PtraceEngine}},
		{"not root", all(BPFLSM, Witness, TracepointBTF, TaskStorage), []string{Unotify, PtraceEngine}},
		{"no Landlock", all(Landlock), []string{LSM, PtraceEngine}},
		{"nested", all(SeccompNotify), []string{PtraceEngine}},
		{"old but good", all(SeccompSyncWake, PidfdThread, CgroupKill), []string{LSM, UnotifyRoot, Unotify, PtraceEngine}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, e := range Engines(tt.results) {
				if e.Holds {
					got = append(got, e.Name)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLSMHint(t *testing.T) {
	tests := []struct{ name, release, active, want string }{
		{"debian", "ID=debian\n", "capability,landlock,lockdown,yama,apparmor,tomoyo,ima,evm\n", "lsm=landlock,lockdown,yama,apparmor,tomoyo,ima,evm,bpf to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub"},
		{"mint", "NAME=x\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "", "update-grub"},
		{"rocky", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "selinux,bpf", "grubby --update-kernel=ALL --args=lsm=selinux,bpf`"},
		{"tumbleweed", "ID=opensuse-tumbleweed\nID_LIKE=\"opensuse suse\"\n", "", "grub2-mkconfig"},
		{"arch", "ID=arch\n", "", "boot loader"},
		{"nothing known", "", "", "lsm=landlock,lockdown,yama,integrity,bpf to the kernel command line"},
	}
	for _, tt := range tests {
		if got := lsmHint(tt.release, tt.active); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q does not contain %q", tt.name, got, tt.want)
		}
	}
}

func TestStateText(t *testing.T) {
	for _, s := range []State{Unknown, No, Yes} {
		b, err := json.Marshal(Result{State: s})
		if err != nil {
			t.Fatal(err)
		}
		var back Result
		if err := json.Unmarshal(b, &back); err != nil || back.State != s {
			t.Errorf("%s came back as %s, %v", s, back.State, err)
		}
	}
	var s State
	if err := s.UnmarshalText([]byte("maybe")); err == nil {
		t.Error("read a state that is none")
	}
}

// TestNoLeaks: probing leaves no descriptors behind.
func TestNoLeaks(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	All(context.Background(), Config{}) // opens the runtime's own
	before := count()
	All(context.Background(), Config{})
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func BenchmarkAll(b *testing.B) {
	for b.Loop() {
		All(context.Background(), Config{})
	}
}

// TestGaps: each engine of this version says what it does not hold, and the better
// one holds what the other does not.
func TestGaps(t *testing.T) {
	held := func(engine, row string) bool {
		return !slices.ContainsFunc(Gaps(engine), func(g Gap) bool { return slices.Contains(g.Rows, row) })
	}
	for _, engine := range everyEngine {
		if !held(engine, "X17") { // what may not run may not be read either
			t.Errorf("%s does not hold X17", engine)
		}
		if held(engine, "F09") || held(engine, "K17") {
			t.Errorf("%s claims to hold what nobody does: %v", engine, Gaps(engine))
		}
	}
	for _, c := range []struct{ row, by, not string }{
		{"A03", LSM, UnotifyRoot}, {"P36", LSM, UnotifyRoot}, {"X01", UnotifyRoot, Unotify}, {"X02", UnotifyRoot, Unotify},
	} {
		if !held(c.by, c.row) || held(c.not, c.row) {
			t.Errorf("%s: %s does not hold it, or %s does", c.row, c.by, c.not)
		}
	}
	if len(Gaps("")) > 0 {
		t.Error("no engine has gaps")
	}
}
