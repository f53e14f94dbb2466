package pipeline

import (
	"slices"

	"github.com/reeve-audit/reeve/tracer/event"
)

// appendPiece adds a piece to those of a message. Neighbours become one, whichever
// session inside they are of: what is given back is the ring's bytes.
func appendPiece(list []event.Origin, o event.Origin) []event.Origin {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Ring != o.Ring {
			continue
		}
		if list[i].To == o.From {
			list[i].To = o.To
			return list
		}
		break
	}
	return append(list, o)
}

// marks are the pieces that all records so far come from: of each ring and
// session inside from the first record to the last one. What lies between and is
// not here was recorded for another session.
type marks []event.Origin

// MaxMarks is how many a journal is told at most. Beyond that the session inside
// that was heard of first is left out: what is recovered of it could come twice.
const MaxMarks = 20

func (m *marks) note(o event.Origin) {
	for i := range *m {
		if at := &(*m)[i]; at.Ring == o.Ring && at.Inner == o.Inner {
			at.To = max(at.To, o.To)
			return
		}
	}
	if len(*m) == MaxMarks {
		first := max(slices.IndexFunc(*m, func(o event.Origin) bool { return o.Inner != 0 }), 0)
		*m = slices.Delete(*m, first, first+1)
	}
	*m = append(*m, o)
}

// journal tells the journal of m. A journal that cannot be written costs no
// record: at worst one that is recovered comes twice.
func (w *window) journal(m *message) {
	if len(m.pieces) == 0 || w.p.cfg.Journal == nil {
		return
	}
	if err := w.p.cfg.Journal(m.last, w.marks); err != nil {
		w.p.cfg.Log.Warn("where the kernel's records stand cannot be noted; if reeve is killed some may be recorded twice", "err", err)
	}
}
