package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/storage/replay"
	"github.com/reeve-audit/reeve/tracer/event"
)

const (
	// objectsShown is how many objects of a kind a task shows without --all.
	objectsShown = 8
	// deepest is where the tree stops being indented further.
	deepest = 24
)

// replayTree shows the tasks as a tree, with what each did.
func replayTree(c *cli.Context, w *bufio.Writer, r *recording) error {
	tree := replay.NewTree()
	for _, err := range replay.Timeline(r.events(c), tree) {
		if err != nil {
			return err
		}
	}
	colours := inkFor(c.App.Writer)
	r.headline(w, colours)
	t := &treePrinter{w: w, colours: colours, limit: objectsShown}
	if c.Bool("all") {
		t.limit = int(^uint(0) >> 1)
	}
	t.print(tree.Roots)
	r.footline(w, colours)
	return nil
}

type treePrinter struct {
	w       io.Writer
	colours ink
	limit   int
}

// branch is a task with what stands before its lines.
type branch struct {
	p     *replay.Process
	stem  string // before its own line's elbow
	last  bool   // of its parent's children
	root  bool
	depth int
}

// print does not recurse: a tree may be as deep as the session made it.
func (t *treePrinter) print(roots []*replay.Process) {
	var stack []branch
	push := func(list []*replay.Process, stem string, depth int) {
		for i := len(list) - 1; i >= 0; i-- {
			stack = append(stack, branch{list[i], stem, i == len(list)-1, depth == 0, depth})
		}
	}
	push(roots, "", 0)
	for len(stack) > 0 {
		b := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		elbow, stem := "├─ ", b.stem+"│  "
		switch {
		case b.root:
			elbow, stem = "", ""
		case b.depth > deepest:
			stem = b.stem
		case b.last:
			elbow, stem = "└─ ", b.stem+"   "
		}
		fmt.Fprintf(t.w, "%s%s%s\n", b.stem, elbow, t.title(b.p))
		bar := stem + "   "
		if len(b.p.Children) > 0 {
			bar = stem + "│  "
		}
		t.deeds(b.p, bar)
		push(b.p.Children, stem, b.depth+1)
	}
}

// title names a task and how it ended.
func (t *treePrinter) title(p *replay.Process) string {
	text := t.colours.paint(cyan, taskText(&event.Task{PID: p.PID, Exe: p.Exe, Argv: p.Argv}))
	if len(p.Programs) > 0 {
		text += "  " + commandLine(p.Argv)
	}
	switch {
	case !p.Exited:
	case p.ExitSignal != 0:
		text += "  " + t.colours.paint(red, "killed by "+signalName(p.ExitSignal))
	case p.ExitCode != 0:
		text += "  " + t.colours.paint(yellow, fmt.Sprintf("status %d", p.ExitCode))
	}
	return text
}

// deed is one way to touch objects, in the order in which they are shown.
type deed struct {
	word, colour string
	is           func(o *replay.Touch) bool
	// quiet leaves out the system's own files.
	quiet bool
}

var deeds = []deed{
	{"read", "", func(o *replay.Touch) bool {
		return o.Allowed&event.AccessRead != 0 && o.Allowed&event.AccessChange == 0
	}, true},
	{"wrote", green, func(o *replay.Touch) bool { return o.Allowed&(event.AccessWrite|event.AccessCreate) != 0 }, false},
	{"changed", green, func(o *replay.Touch) bool {
		return o.Allowed&event.AccessMeta != 0 && o.Allowed&(event.AccessWrite|event.AccessCreate|event.AccessDelete) == 0
	}, false},
	{"deleted", green, func(o *replay.Touch) bool {
		return o.Allowed&(event.AccessDelete|event.AccessCreate) == event.AccessDelete
	}, false},
	{"connected", blue, func(o *replay.Touch) bool { return o.Allowed&event.AccessConnect != 0 }, false},
	{"bound", blue, func(o *replay.Touch) bool { return o.Allowed&event.AccessBind != 0 }, false},
	{failedDeed, yellow, func(o *replay.Touch) bool { return o.Failed > 0 }, true},
	{deniedDeed, red, func(o *replay.Touch) bool { return o.Refused != 0 || o.Denied > 0 }, false},
}

// The deeds that came to nothing: their accesses are said.
const failedDeed, deniedDeed = "failed", "denied"

func (t *treePrinter) deeds(p *replay.Process, stem string) {
	t.programs(p, stem)
	for _, d := range deeds {
		shown, more, system := 0, 0, 0
		for _, o := range p.Objects {
			switch {
			case !d.is(o):
			case d.quiet && t.limit == objectsShown && isSystem(o.Name):
				system++
			case shown == t.limit:
				more++
			default:
				shown++
				fmt.Fprintf(t.w, "%s%s %s\n", stem, t.colours.paint(d.colour, pad(d.word, 9)), touchText(o, d.word))
			}
		}
		if more > 0 {
			fmt.Fprintf(t.w, "%s%s and %d more (--all)\n", stem, pad(d.word, 9), more)
		}
		if system > 0 {
			fmt.Fprintf(t.w, "%s%s %s\n", stem, pad(d.word, 9), plural(system, "system file"))
		}
	}
	if p.MoreObjects > 0 {
		fmt.Fprintf(t.w, "%s%s %d touches of further objects, see reeve events\n", stem, pad("", 9), p.MoreObjects)
	}
}

// programs shows what a task ran before the program that its title names.
func (t *treePrinter) programs(p *replay.Process, stem string) {
	for i, g := range p.Programs {
		switch {
		case g.Path == "": // it was not there
		case g.Denied:
			fmt.Fprintf(t.w, "%s%s exec %s\n", stem, t.colours.paint(red, pad("denied", 9)), quote(g.Path))
		case i < len(p.Programs)-1:
			fmt.Fprintf(t.w, "%s%s %s\n", stem, pad("ran", 9), commandLine(g.Argv))
		}
	}
}

func touchText(o *replay.Touch, deed string) string {
	text := quote(o.Name)
	if o.Kind == event.ObjectAddr {
		text = escape(o.Name)
	}
	count, came := o.Count-o.Denied-o.Failed, event.Access(0)
	switch deed {
	case deniedDeed:
		count, came = o.Denied, o.Refused
	case failedDeed:
		count, came = o.Failed, o.Tried
	}
	if words := strings.Join(came.Words(), "+"); words != "" {
		text = words + " " + text
	}
	if count > 1 {
		text += fmt.Sprintf(" (%d times)", count)
	}
	return text
}
