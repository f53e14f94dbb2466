package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/storage/replay"
	"github.com/reeve-audit/reeve/supervisor/session"
)

// longestWait bounds a pause of a replay at recorded speed that nobody chose: a
// build that waited for a minute is no reason to do it again.
const longestWait = 2 * time.Second

func replayCommand() *cli.Command {
	return &cli.Command{
		Name:      "replay",
		Usage:     "show what a session did, in order or task by task",
		UsageText: "reeve replay [ID|last|FILE] [--speed N] [--tree] [--json] [--all] [--policy FILE]… [--profile NAME] [--redecide]",
		Description: `On a terminal the records appear as fast as they were made (pauses cut to 2 s), elsewhere at
once. Runs of reads of the system's own files are one line, unless --all is given.

   reeve replay last                what happened, in order
   reeve replay last --tree         which task read, wrote, ran and was denied what
   reeve replay last --speed 10     ten times as fast; 0 is at once
   reeve replay session.reeve       from a file that 'reeve sessions export' wrote
` + whatIfHelp,
		Flags: append([]cli.Flag{
			&cli.Float64Flag{Name: "speed", Usage: "`N` times as fast as recorded, 0 at once", DefaultText: "1 on a terminal, else 0"},
			&cli.BoolFlag{Name: "tree", Usage: "the tasks as a tree, with what each did"},
			jsonFlag("print one JSON object with all tasks"),
			&cli.BoolFlag{Name: "all", Usage: "show every record and every object"},
			storeFlag(),
		}, whatIfFlags()...),
		Action: showReplay,
	}
}

func showReplay(c *cli.Context) (err error) {
	name, err := oneArg(c, "last", "a session")
	if err != nil {
		return err
	}
	if asksWhatIf(c) {
		return whatIf(c, name)
	}
	if c.Float64("speed") < 0 {
		return usageErrorf("replay: --speed is negative")
	}
	r, err := openRecording(c, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	out := bufio.NewWriterSize(c.App.Writer, 64<<10)
	switch {
	case c.Bool("json"):
		err = replayJSON(c, out, r)
	case c.Bool("tree"):
		err = replayTree(c, out, r)
	default:
		err = replayTimeline(c, out, r)
	}
	return errors.Join(err, out.Flush())
}

// headline says which session this is.
func (r *recording) headline(w io.Writer, colours ink) {
	fmt.Fprintln(w, colours.paint(bold, "session "+escape(r.ID)))
	when := r.Start.Local().Format("2006-01-02 15:04:05")
	m := r.manifest()
	if m == nil {
		fmt.Fprintf(w, "started %s\n\n", when)
		return
	}
	fmt.Fprintf(w, "%s\n", manifestCommand(m))
	fmt.Fprintf(w, "started %s in %s by %s on %s, profile %s, engine %s\n\n", when, quote(string(m.Cwd)),
		escape(m.User), escape(m.Host), escape(m.Profile), escape(r.Engine))
}

// footline sums the session up.
func (r *recording) footline(w io.Writer, colours ink) {
	s := r.Session
	fmt.Fprintf(w, "\n%d operations, ", s.Requests)
	denied := fmt.Sprintf("%d denied", s.Denied)
	if s.Denied > 0 {
		denied = colours.paint(red, denied)
	}
	lost := fmt.Sprintf("%d lost", s.Lost)
	if s.Lost > 0 {
		lost = colours.paint(red, lost)
	}
	fmt.Fprintf(w, "%s, %s, in %s", denied, lost, shortDuration(s.End.Sub(s.Start)))
	if !s.Ended {
		fmt.Fprintf(w, "; %s", colours.paint(yellow, "the record has no end: the session runs still, or crashed"))
	}
	fmt.Fprintln(w)
}

// pacer waits between records.
type pacer struct {
	ctx    context.Context
	speed  float64 // 0: at once
	cutoff time.Duration
	flush  func() error
	debt   time.Duration // too short to sleep for alone
}

func newPacer(c *cli.Context, out *bufio.Writer) *pacer {
	p := &pacer{ctx: c.Context, flush: out.Flush, speed: c.Float64("speed")}
	if !c.IsSet("speed") && isTerminal(c.App.Writer) {
		p.speed, p.cutoff = 1, longestWait
	}
	return p
}

// wait lets the recorded time pass.
func (p *pacer) wait(d time.Duration) error {
	if p.speed == 0 {
		return nil
	}
	if p.cutoff > 0 {
		d = min(d, p.cutoff)
	}
	p.debt += time.Duration(float64(d) / p.speed)
	if p.debt < time.Millisecond {
		return nil
	}
	if err := p.flush(); err != nil {
		return err
	}
	t := time.NewTimer(p.debt)
	defer t.Stop()
	p.debt = 0
	select {
	case <-t.C:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

// taskView is a task in JSON; tasks are a flat list in the order in which they
// appeared, each naming its parent.
type taskView struct {
	ID          string         `json:"id"`
	Parent      string         `json:"parent,omitempty"`
	PID         int32          `json:"pid"`
	PPID        int32          `json:"ppid,omitempty"`
	Exe         session.Text   `json:"exe,omitempty"`
	Argv        []session.Text `json:"argv,omitempty"`
	Cwd         session.Text   `json:"cwd,omitempty"`
	First       time.Time      `json:"first"`
	Last        time.Time      `json:"last"`
	Exited      bool           `json:"exited"`
	ExitCode    int32          `json:"exit_code"`
	ExitSignal  int32          `json:"exit_signal,omitempty"`
	Requests    uint64         `json:"requests"`
	Denied      uint64         `json:"denied"`
	Programs    []programView  `json:"programs,omitempty"`
	Objects     []objectView   `json:"objects,omitempty"`
	MoreObjects uint64         `json:"more_objects,omitempty"`
}

type programView struct {
	Seq    uint64         `json:"seq"`
	Path   session.Text   `json:"path"`
	Argv   []session.Text `json:"argv,omitempty"`
	Denied bool           `json:"denied,omitempty"`
}

type objectView struct {
	Kind    string       `json:"kind"`
	Name    session.Text `json:"name"`
	Allowed []string     `json:"allowed,omitempty"`
	Refused []string     `json:"refused,omitempty"`
	Count   uint64       `json:"count"`
	Denied  uint64       `json:"denied,omitempty"`
}

func replayJSON(c *cli.Context, w io.Writer, r *recording) error {
	tree := replay.NewTree()
	for _, err := range replay.Timeline(r.events(c), tree) {
		if err != nil {
			return err
		}
	}
	out := struct {
		Session  string            `json:"session"`
		Ended    bool              `json:"ended"`
		Events   uint64            `json:"events"`
		Requests uint64            `json:"requests"`
		Denied   uint64            `json:"denied"`
		Lost     uint64            `json:"lost"`
		Manifest *session.Manifest `json:"manifest,omitempty"`
		Tasks    []taskView        `json:"tasks"`
	}{r.ID, r.Ended, r.Events, r.Requests, r.Denied, r.Lost, r.manifest(), []taskView{}}
	tree.Walk(func(p *replay.Process, _ int) bool {
		out.Tasks = append(out.Tasks, viewTask(p))
		return true
	})
	return newJSON(w).Encode(&out)
}

func viewTask(p *replay.Process) taskView {
	v := taskView{
		ID: p.ID, PID: p.PID, PPID: p.PPID, Exe: session.Text(p.Exe), Argv: session.Texts(p.Argv), Cwd: session.Text(p.Cwd),
		First: p.First, Last: p.Last, Exited: p.Exited, ExitCode: p.ExitCode, ExitSignal: p.ExitSignal,
		Requests: p.Requests, Denied: p.Denied, MoreObjects: p.MoreObjects,
	}
	if p.Parent != nil {
		v.Parent = p.Parent.ID
	}
	for _, g := range p.Programs {
		v.Programs = append(v.Programs, programView{g.Seq, session.Text(g.Path), session.Texts(g.Argv), g.Denied})
	}
	for _, o := range p.Objects {
		v.Objects = append(v.Objects, objectView{o.Kind.String(), session.Text(o.Name), o.Allowed.Words(), o.Refused.Words(), o.Count, o.Denied})
	}
	return v
}
