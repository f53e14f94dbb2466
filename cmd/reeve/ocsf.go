package main

import (
	"encoding/json"
	"path"
	"strconv"

	"github.com/reeve-audit/reeve/tracer/event"
)

// ocsfVersion is the schema version (schema.ocsf.io) that these records follow.
const ocsfVersion = "1.3.0"

// The classes that reeve's operations fall into.
const (
	ocsfBase        = 0
	ocsfFile        = 1001
	ocsfModule      = 1002
	ocsfKernel      = 1003
	ocsfProcess     = 1007
	ocsfNetwork     = 4001
	ocsfApplication = 6002
)

// ocsfOther is the activity, type or disposition that the schema has no number for.
const ocsfOther = 99

type ocsfClass struct{ class, activity int }

// ocsfClasses maps an operation to class_uid and activity_id. Every operation
// that is not here is something asked of the kernel: class 1003, "Invoke".
var ocsfClasses = map[event.Op]ocsfClass{
	event.OpOpen: {ocsfFile, 14}, event.OpCreate: {ocsfFile, 1}, event.OpMkdir: {ocsfFile, 1},
	event.OpMknod: {ocsfFile, 1}, event.OpLink: {ocsfFile, 1}, event.OpSymlink: {ocsfFile, 1},
	event.OpTruncate: {ocsfFile, 3}, event.OpDelete: {ocsfFile, 4}, event.OpRmdir: {ocsfFile, 4},
	event.OpRename: {ocsfFile, 5}, event.OpUtime: {ocsfFile, 6}, event.OpSetxattr: {ocsfFile, 6},
	event.OpChmod: {ocsfFile, 7}, event.OpChown: {ocsfFile, 7}, event.OpMount: {ocsfFile, 12},
	event.OpExec: {ocsfProcess, 1}, event.OpFork: {ocsfProcess, 1}, event.OpExit: {ocsfProcess, 2},
	event.OpSignal: {ocsfProcess, ocsfOther}, event.OpPidfd: {ocsfProcess, 3},
	event.OpPtrace: {ocsfProcess, 4}, event.OpCreds: {ocsfProcess, 5},
	event.OpConnect: {ocsfNetwork, 1}, event.OpSend: {ocsfNetwork, 6}, event.OpBind: {ocsfNetwork, 7},
	event.OpListen: {ocsfNetwork, 7}, event.OpSocket: {ocsfNetwork, ocsfOther},
	event.OpModule: {ocsfModule, 1}, event.OpStart: {ocsfApplication, 3}, event.OpEnd: {ocsfApplication, 4},
	event.OpLoss: {ocsfBase, ocsfOther}, event.OpDegraded: {ocsfBase, ocsfOther}, event.OpResize: {ocsfBase, ocsfOther},
}

var ocsfFileTypes = map[event.ObjectKind]int{
	event.ObjectFile: 1, event.ObjectDir: 2, event.ObjectSocket: 5, event.ObjectFIFO: 6, event.ObjectSymlink: 7,
}

type ocsfRecord struct {
	ClassUID      int           `json:"class_uid"`
	CategoryUID   int           `json:"category_uid"`
	ActivityID    int           `json:"activity_id"`
	TypeUID       int           `json:"type_uid"`
	Time          int64         `json:"time"`
	SeverityID    int           `json:"severity_id"`
	ActionID      int           `json:"action_id,omitempty"`
	DispositionID int           `json:"disposition_id,omitempty"`
	StatusID      int           `json:"status_id,omitempty"`
	StatusCode    string        `json:"status_code,omitempty"`
	StatusDetail  string        `json:"status_detail,omitempty"`
	Message       string        `json:"message,omitempty"`
	Count         uint64        `json:"count,omitempty"`
	Metadata      ocsfMetadata  `json:"metadata"`
	Actor         *ocsfActor    `json:"actor,omitempty"`
	Process       *ocsfProc     `json:"process,omitempty"`
	ExitCode      *int32        `json:"exit_code,omitempty"`
	File          *ocsfPath     `json:"file,omitempty"`
	FileResult    *ocsfPath     `json:"file_result,omitempty"`
	DstEndpoint   *ocsfEndpoint `json:"dst_endpoint,omitempty"`
	Kernel        *ocsfNamed    `json:"kernel,omitempty"`
	Policy        *ocsfNamed    `json:"policy,omitempty"`
	// Unmapped is reeve's own record: what the schema has no place for.
	Unmapped json.RawMessage `json:"unmapped"`
}

type ocsfMetadata struct {
	Version  string      `json:"version"`
	Product  ocsfProduct `json:"product"`
	UID      string      `json:"uid"`
	Sequence uint64      `json:"sequence"`
	Profiles []string    `json:"profiles"`
}

type ocsfProduct struct {
	Name   string `json:"name"`
	Vendor string `json:"vendor_name"`
}

type ocsfActor struct {
	Process *ocsfProc `json:"process"`
}

type ocsfProc struct {
	PID     int32     `json:"pid"`
	UID     string    `json:"uid,omitempty"`
	Name    string    `json:"name,omitempty"`
	CmdLine string    `json:"cmd_line,omitempty"`
	File    *ocsfPath `json:"file,omitempty"`
	Parent  *ocsfProc `json:"parent_process,omitempty"`
}

type ocsfPath struct {
	Path   string `json:"path"`
	Name   string `json:"name"`
	TypeID int    `json:"type_id"`
	Size   uint64 `json:"size,omitempty"`
	// Hashes are stated of a program without a name.
	Hashes []ocsfHash `json:"hashes,omitempty"`
}

type ocsfHash struct {
	AlgorithmID int    `json:"algorithm_id"`
	Value       string `json:"value"`
}

// ocsfSHA256 is the algorithm's number.
const ocsfSHA256 = 3

type ocsfEndpoint struct {
	IP   string `json:"ip,omitempty"`
	Port uint16 `json:"port,omitempty"`
}

type ocsfNamed struct {
	Name string `json:"name"`
}

// appendOCSF appends the record as an OCSF event. Paths that are not UTF-8 come
// out with replacement characters; "unmapped" keeps their bytes.
func appendOCSF(b []byte, e *event.Event) ([]byte, error) {
	c, ok := ocsfClasses[e.Op]
	if !ok {
		c = ocsfClass{ocsfKernel, 4}
	}
	r := ocsfRecord{
		ClassUID: c.class, CategoryUID: c.class / 1000, ActivityID: c.activity, TypeUID: c.class*100 + c.activity,
		Time: e.Time.UnixMilli(), SeverityID: 1, StatusDetail: e.Reason, StatusCode: event.ErrnoName(e.Errno),
		Message: e.Op.String() + " " + objectText(e), Count: e.Count,
		Metadata: ocsfMetadata{
			Version: ocsfVersion, Product: ocsfProduct{"reeve", "reeve"}, Sequence: e.Seq,
			UID: e.Session + ":" + strconv.FormatUint(e.Seq, 10), Profiles: []string{"security_control"},
		},
		Unmapped: e.AppendJSON(nil),
	}
	if e.Rule != "" {
		r.Policy = &ocsfNamed{e.Rule}
	}
	r.decide(e)
	r.place(e)
	data, err := json.Marshal(&r)
	return append(b, showJSON(data)...), err
}

// decide fills in what was decided and how severe that is.
func (r *ocsfRecord) decide(e *event.Event) {
	r.StatusID = 1
	if e.Errno != 0 {
		r.StatusID = 2
	}
	switch e.Action {
	case event.ActionAllow:
		r.ActionID, r.DispositionID = 1, 1
	case event.ActionDeny:
		r.ActionID, r.DispositionID, r.SeverityID, r.StatusID = 2, 2, 3, 2
	case event.ActionAsk:
		r.ActionID, r.DispositionID, r.SeverityID = 0, 14, 2
	default:
		r.ActionID, r.DispositionID = 3, 17
	}
	if e.Kind == event.KindLost {
		r.SeverityID = 4
	}
}

// place fills in who acted on what.
func (r *ocsfRecord) place(e *event.Event) {
	task := ocsfTask(&e.Task)
	switch r.ClassUID {
	case ocsfProcess:
		r.Process = task
		if e.Op == event.OpExec {
			r.Process = &ocsfProc{PID: e.Task.PID, UID: e.Task.ID, CmdLine: commandLine(e.Task.Argv), File: ocsfProgram(e)}
		}
		if e.Op == event.OpExit {
			r.ExitCode = &e.ExitCode
		}
	case ocsfFile:
		r.File = ocsfFileOf(&e.Object)
		r.FileResult = ocsfFileOf(&e.Target)
	case ocsfNetwork:
		r.DstEndpoint = &ocsfEndpoint{e.Object.Addr, e.Object.Port}
	case ocsfKernel, ocsfModule:
		r.Kernel = &ocsfNamed{e.Object.Path}
	}
	if task != nil {
		r.Actor = &ocsfActor{task}
	}
}

func ocsfTask(t *event.Task) *ocsfProc {
	if t.PID == 0 {
		return nil
	}
	p := &ocsfProc{PID: t.PID, UID: t.ID, CmdLine: commandLine(t.Argv)}
	if t.Exe != "" {
		p.Name = path.Base(t.Exe)
		p.File = &ocsfPath{Path: t.Exe, Name: p.Name, TypeID: 1}
	}
	if t.PPID != 0 {
		p.Parent = &ocsfProc{PID: t.PPID}
	}
	return p
}

// ocsfProgram is the program of an exec.
func ocsfProgram(e *event.Event) *ocsfPath {
	f, c := ocsfFileOf(&e.Object), e.ReadDetail().Content
	if f != nil && c != nil {
		f.Size = c.Size
		if c.SHA256 != "" && c.Hashed == 0 {
			f.Hashes = []ocsfHash{{ocsfSHA256, c.SHA256}}
		}
	}
	return f
}

func ocsfFileOf(o *event.Object) *ocsfPath {
	if o.Path == "" {
		return nil
	}
	return &ocsfPath{Path: o.Path, Name: path.Base(o.Path), TypeID: ocsfFileTypes[o.Kind]}
}
