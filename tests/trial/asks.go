package trial

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Question is what `reeve asks --json` says of one.
type Question struct {
	ID        string `json:"id"`
	Waiting   int    `json:"waiting"`
	Risk      string `json:"risk"`
	Operation Event  `json:"operation"`
	// Also are the further steps that the answer is for.
	Also     []Event `json:"also"`
	Ancestry []struct {
		Task struct {
			PID  int      `json:"pid"`
			Exe  string   `json:"exe"`
			Argv []string `json:"argv"`
		} `json:"task"`
	} `json:"ancestry"`
}

// Approver answers the questions of a ground's sessions on another terminal, as
// the user that they run as, until Stop.
type Approver struct {
	g      *Ground
	answer func(Question) []string
	stop   chan struct{}
	done   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	asked []Question
	said  map[string]string // by ID, what the answering command printed
}

// Approve starts an approver. For each question answer says with which words
// after `reeve asks` it is answered, to which the ID is added after the first; nil
// leaves it alone.
func (g *Ground) Approve(answer func(Question) []string) *Approver {
	a := &Approver{g: g, answer: answer, stop: make(chan struct{}), said: map[string]string{}}
	a.done.Go(a.run)
	g.t.Cleanup(a.Stop)
	return a
}

// Stop ends the approver and is safe to call again.
func (a *Approver) Stop() {
	a.mu.Lock()
	select {
	case <-a.stop:
	default:
		close(a.stop)
	}
	a.mu.Unlock()
	a.done.Wait()
}

// Asked are the questions that were seen, in order, and what answering printed.
func (a *Approver) Asked() ([]Question, map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked), a.said
}

func (a *Approver) run() {
	for {
		select {
		case <-a.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		out, _ := a.reeve("asks", "--json")
		for line := range strings.SplitSeq(out, "\n") {
			var q Question
			if json.Unmarshal([]byte(line), &q) == nil && q.ID != "" {
				a.one(q)
			}
		}
	}
}

func (a *Approver) one(q Question) {
	a.mu.Lock()
	known := slices.ContainsFunc(a.asked, func(o Question) bool { return o.ID == q.ID })
	if !known {
		a.asked = append(a.asked, q)
	}
	a.mu.Unlock()
	if known {
		return
	}
	words := a.answer(q)
	if words == nil {
		return
	}
	line := append([]string{"asks", words[0], q.ID}, words[1:]...)
	out, err := a.reeve(line...)
	if err != nil {
		out += err.Error()
	}
	a.mu.Lock()
	a.said[q.ID] = out
	a.mu.Unlock()
}

func (a *Approver) reeve(words ...string) (string, error) {
	cmd := exec.Command(a.g.Reeve, append([]string{"--state", a.g.State}, words...)...)
	cmd.Env = a.g.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.g.Cred}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
