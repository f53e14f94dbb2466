package gocache

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	soon  = began.Add(time.Hour)
)

func action(name string) id { return sha256.Sum256([]byte("action " + name)) }

// caches are a host's and a private one, the latter without directories.
type caches struct{ host, private dir }

func newCaches(t *testing.T) caches {
	t.Helper()
	return caches{dir{t.TempDir()}, dir{filepath.Join(t.TempDir(), "go-build")}}
}

// add puts an entry as the host's go command would, last used at began.
func add(t testing.TB, d dir, name, text string) id {
	t.Helper()
	e := entry{sha256.Sum256([]byte(text)), int64(len(text)), began}
	path, err := d.put(action(name), e, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, d.file(action(name), actionEnd)} {
		if err := os.Chtimes(file, began, began); err != nil {
			t.Fatal(err)
		}
	}
	return e.output
}

// get and put are requests as the go command writes them.
func get(n int64, name string) string {
	a := action(name)
	return line(map[string]any{"ID": n, "Command": "get", "ActionID": a[:]}) + "\n"
}

func put(n int64, name, text string) string {
	a, o := action(name), sha256.Sum256([]byte(text))
	head := line(map[string]any{"ID": n, "Command": "put", "ActionID": a[:], "OutputID": o[:], "BodySize": len(text)}) + "\n"
	if text == "" {
		return head
	}
	return head + `"` + base64.StdEncoding.EncodeToString([]byte(text)) + "\"\n"
}

func line(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

const bye = `{"ID":99,"Command":"close"}` + "\n\n"

// serve answers requests, and returns the answers by their ID.
func (c caches) serve(t *testing.T, at time.Time, requests ...string) (map[int64]response, error) {
	t.Helper()
	var out bytes.Buffer
	s := &server{private: c.private, host: c.host, now: func() time.Time { return at }}
	err := s.serve(strings.NewReader(strings.Join(requests, "")), &out)
	answers := map[int64]response{}
	for d := json.NewDecoder(&out); d.More(); {
		var a response
		if err := d.Decode(&a); err != nil {
			t.Fatal(err)
		}
		if _, twice := answers[a.ID]; twice {
			t.Errorf("request %d was answered twice", a.ID)
		}
		answers[a.ID] = a
	}
	return answers, err
}

// snapshot states all there is of a directory.
func snapshot(t testing.TB, root string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var text []byte
		if info.Mode().IsRegular() {
			if text, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		out = append(out, fmt.Sprintf("%s %v %d %v %x", path, info.Mode(), info.Size(), info.ModTime().UnixNano(), sha256.Sum256(text)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestServe(t *testing.T) {
	c := newCaches(t)
	add(t, c.host, "std", "archive")
	add(t, c.host, "both", "the host's")
	add(t, c.host, "tested", testLog+"getenv HOME\n")
	add(t, c.host, "empty", "")
	before := snapshot(t, c.host.path)
	large := strings.Repeat("0123456789abcde\n", 1<<16)
	answers, err := c.serve(t, soon,
		put(1, "both", "ours"), put(2, "large", large), put(3, "nothing", ""), bye)
	if err != nil || answers[99].Err != "" {
		t.Fatalf("put: %v, %v", err, answers)
	}
	if !slices.Equal(answers[0].KnownCommands, []string{"get", "put", "close"}) {
		t.Errorf("first answer: %+v", answers[0])
	}
	answers, err = c.serve(t, soon,
		get(1, "std"), get(2, "both"), get(3, "large"), get(4, "nothing"), get(5, "empty"), get(6, "tested"), get(7, "unknown"), bye)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int64]struct {
		text string
		from dir
	}{1: {"archive", c.host}, 2: {"ours", c.private}, 3: {large, c.private}, 4: {"", c.private}, 5: {"", c.host}} {
		a := answers[n]
		sum := sha256.Sum256([]byte(want.text))
		if a.Miss || a.Err != "" || !bytes.Equal(a.OutputID, sum[:]) || a.Size != int64(len(want.text)) || a.Time == nil {
			t.Errorf("get %d: %+v", n, a)
		} else if !strings.HasPrefix(a.DiskPath, want.from.path+"/") || content(t, a.DiskPath) != want.text {
			t.Errorf("get %d: %s has another content", n, a.DiskPath)
		}
	}
	if !answers[1].Time.Equal(began) || !answers[3].Time.Equal(soon) {
		t.Errorf("times %v and %v", answers[1].Time, answers[3].Time)
	}
	for _, n := range []int64{6, 7} {
		if a := answers[n]; !a.Miss || a.DiskPath != "" {
			t.Errorf("get %d is no miss: %+v", n, a)
		}
	}
	if after := snapshot(t, c.host.path); !slices.Equal(before, after) {
		t.Errorf("the host's cache changed:\n%s\n%s", before, after)
	}
	if left := leftovers(t, c.private); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// leftovers are the files of a cache that are no entries.
func leftovers(t *testing.T, d dir) []string {
	t.Helper()
	files, err := filepath.Glob(d.path + "/*/*.tmp")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestStale: what the host's go command may throw out at any moment is copied.
func TestStale(t *testing.T) {
	for _, tc := range []struct {
		age    time.Duration
		copied bool
	}{{0, false}, {trimAge - time.Minute, false}, {trimAge, true}, {300 * 24 * time.Hour, true}, {-time.Hour, false}} {
		c := newCaches(t)
		add(t, c.host, "x", "output")
		answers, err := c.serve(t, began.Add(tc.age), get(1, "x"), bye)
		a := answers[1]
		if err != nil || a.Miss || content(t, a.DiskPath) != "output" || !a.Time.Equal(began) {
			t.Fatalf("%v: %v, %+v", tc.age, err, a)
		}
		if copied := strings.HasPrefix(a.DiskPath, c.private.path); copied != tc.copied {
			t.Errorf("%v: the answer is %s", tc.age, a.DiskPath)
		}
		if tc.copied {
			if f, ok := c.private.find(action("x"), 0); !ok || f.path != a.DiskPath {
				t.Errorf("%v: the copy is no entry", tc.age)
			}
		}
	}
}

// TestDamaged: what does not hold together is a miss.
func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, d dir, a, o string){
		"no output":         func(t *testing.T, _ dir, _, o string) { must(t, os.Remove(o)) },
		"output cut":        func(t *testing.T, _ dir, _, o string) { must(t, os.Truncate(o, 3)) },
		"output grown":      func(t *testing.T, _ dir, _, o string) { must(t, os.Truncate(o, 300)) },
		"output directory":  func(t *testing.T, _ dir, _, o string) { must(t, os.Remove(o)); must(t, os.Mkdir(o, 0o777)) },
		"output link":       func(t *testing.T, _ dir, _, o string) { must(t, os.Rename(o, o+"x")); must(t, os.Symlink(o+"x", o)) },
		"action cut":        func(t *testing.T, _ dir, a, _ string) { must(t, os.Truncate(a, 100)) },
		"action empty":      func(t *testing.T, _ dir, a, _ string) { must(t, os.Truncate(a, 0)) },
		"action grown":      func(t *testing.T, _ dir, a, _ string) { must(t, os.Truncate(a, int64(entrySize)+1)) },
		"action link":       func(t *testing.T, _ dir, a, _ string) { must(t, os.Rename(a, a+"x")); must(t, os.Symlink(a+"x", a)) },
		"action in circles": func(t *testing.T, _ dir, a, _ string) { must(t, os.Remove(a)); must(t, os.Symlink(a, a)) },
		"action of another": func(t *testing.T, d dir, a, _ string) {
			add(t, d, "other", "text")
			must(t, os.WriteFile(a, []byte(content(t, d.file(action("other"), actionEnd))), 0o666))
		},
		"output unreadable": func(t *testing.T, _ dir, _, o string) {
			if os.Geteuid() == 0 {
				must(t, os.Remove(o)) // root reads all
			}
			_ = os.Chmod(o, 0)
		},
		"fan file": func(t *testing.T, _ dir, a, _ string) {
			must(t, os.RemoveAll(filepath.Dir(a)))
			must(t, os.WriteFile(filepath.Dir(a), nil, 0o666))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			output := add(t, c.host, "x", "output")
			damage(t, c.host, c.host.file(action("x"), actionEnd), c.host.file(output, outputEnd))
			answers, err := c.serve(t, soon, get(1, "x"), bye)
			if err != nil || !answers[1].Miss || answers[1].DiskPath != "" {
				t.Errorf("%v, %+v", err, answers[1])
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoHost: a host's cache that is not there costs only misses.
func TestNoHost(t *testing.T) {
	c := newCaches(t)
	c.host.path += "/none"
	if answers, err := c.serve(t, soon, get(1, "x"), bye); err != nil || !answers[1].Miss {
		t.Errorf("%v, %+v", err, answers)
	}
	// Requests are served side by side: only one command can be sure of another's answer.
	if answers, err := c.serve(t, soon, put(2, "x", "text"), bye); err != nil || answers[2].DiskPath == "" {
		t.Errorf("%v, %+v", err, answers)
	}
}

// TestRefused: a request that cannot be served is answered so, and the next one is
// served.
func TestRefused(t *testing.T) {
	short := line(map[string]any{"ID": 1, "Command": "get", "ActionID": []byte("short")})
	for name, requests := range map[string][]string{
		"short action":    {short},
		"no action":       {`{"ID":1,"Command":"get"}` + "\n"},
		"short output":    {strings.Replace(put(1, "y", "text"), `"OutputID":"`, `"OutputID":"AAAA`, 1)},
		"unknown command": {`{"ID":1,"Command":"fly"}` + "\n"},
		"other content":   {strings.Replace(put(1, "y", "text"), base64.StdEncoding.EncodeToString([]byte("text")), base64.StdEncoding.EncodeToString([]byte("txet")), 1)},
		"too little":      {strings.Replace(put(1, "y", "text"), `"BodySize":4`, `"BodySize":5`, 1)},
		"too much":        {strings.Replace(put(1, "y", "text"), `"BodySize":4`, `"BodySize":3`, 1)},
		"far too much":    {strings.Replace(put(1, "y", strings.Repeat("text", 1<<16)), `"BodySize":262144`, `"BodySize":3`, 1)},
		"no base64":       {strings.Replace(put(1, "y", "text"), base64.StdEncoding.EncodeToString([]byte("text")), "?!?!?!?!", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			answers, err := c.serve(t, soon, append(requests, put(2, "z", "zzz"), get(3, "y"), bye)...)
			if err != nil || answers[1].Err == "" || answers[2].DiskPath == "" || !answers[3].Miss {
				t.Errorf("%v, %+v", err, answers)
			}
			if left := leftovers(t, c.private); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestFull: an output that cannot be kept is refused.
func TestFull(t *testing.T) {
	c := newCaches(t)
	must(t, os.WriteFile(c.private.path, nil, 0o666))
	answers, err := c.serve(t, soon, put(1, "x", "text"), put(2, "x", strings.Repeat("text", 1<<16)), get(3, "x"), bye)
	if err != nil || answers[1].Err == "" || answers[2].Err == "" || !answers[3].Miss {
		t.Errorf("%v, %+v", err, answers)
	}
}

// TestEnd: a go command that is gone ends the program without complaint, wherever it
// was; one that says what cannot be understood is told.
func TestEnd(t *testing.T) {
	whole := get(1, "x") + put(2, "y", "text") + get(3, "y")
	for n := range len(whole) {
		c := newCaches(t)
		answers, err := c.serve(t, soon, whole[:n])
		if err != nil || answers[0].KnownCommands == nil {
			t.Fatalf("%q: %v", whole[:n], err)
		}
		if left := leftovers(t, c.private); len(left) > 0 {
			t.Fatalf("%q: left behind: %v", whole[:n], left)
		}
		if _, ok := c.private.find(action("y"), 0); ok && !strings.Contains(whole[:n], `dGV4dA=="`) {
			t.Fatalf("%q: half an output was kept", whole[:n])
		}
	}
	for _, odd := range []string{"x\n", "{\n", "[]\n", `{"ID":"1"}` + "\n", strings.Repeat(" ", maxLine+1), `{"ID":1,"Command":"put","BodySize":-1}` + "\n", `{"ID":1,"Command":"put","BodySize":4}` + "\nx"} {
		if _, err := newCaches(t).serve(t, soon, odd, bye); err == nil {
			t.Errorf("%.40q was understood", odd)
		}
	}
}

// TestDeafPeer: a go command that reads no more ends the program.
func TestDeafPeer(t *testing.T) {
	r, w := io.Pipe()
	must(t, r.Close())
	s := &server{private: dir{t.TempDir()}, host: dir{t.TempDir()}, now: time.Now}
	if err := s.serve(strings.NewReader(strings.Repeat(get(1, "x"), 1000)), w); err == nil {
		t.Error("answers went nowhere, and nobody noticed")
	}
}

// TestTogether: programs that share a private cache see whole outputs only.
func TestTogether(t *testing.T) {
	c := newCaches(t)
	text := strings.Repeat("output ", 1<<14)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var requests strings.Builder
			for n := int64(1); n < 60; n += 2 {
				name := fmt.Sprint(n % 7)
				requests.WriteString(put(n, name, text+name) + get(n+1, name))
			}
			answers, err := c.serve(t, soon, requests.String(), bye)
			if err != nil {
				t.Error(err)
			}
			for n, a := range answers {
				if n == 0 || n == 99 {
					continue
				}
				if a.Err != "" || a.Miss {
					t.Errorf("%d: %+v", n, a)
				} else if got, err := os.ReadFile(a.DiskPath); err != nil || !strings.HasPrefix(string(got), text) || len(got) != len(text)+1 {
					t.Errorf("%d: %s: %d bytes, %v", n, a.DiskPath, len(got), err)
				}
			}
		})
	}
	all.Wait()
	if left := leftovers(t, c.private); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestMainStatus(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		args    []string
		private string
		status  int
	}{{[]string{dir}, dir, 0}, {nil, dir, 1}, {[]string{dir, dir}, dir, 1}, {[]string{"x"}, dir, 1}, {[]string{dir}, "", 1}, {[]string{dir}, "off", 1}} {
		var complaints bytes.Buffer
		if status := Main(tc.args, tc.private, strings.NewReader(""), io.Discard, &complaints); status != tc.status || (status != 0) != (complaints.Len() > 0) {
			t.Errorf("%q: status %d, %s", tc.args, status, &complaints)
		}
	}
}

func FuzzEntry(f *testing.F) {
	e := entry{action("output"), 12, began}
	f.Add(e.format(action("x")))
	f.Add(strings.Replace(e.format(action("x")), "12 ", "+2 ", 1))
	f.Add(strings.Repeat(" ", entrySize-1) + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseEntry(text, action("x"))
		if err != nil {
			return
		}
		if again, err := parseEntry(e.format(action("x")), action("x")); err != nil || again != e || e.size < 0 {
			t.Errorf("%q is %+v, which is %+v, %v", text, e, again, err)
		}
	})
}

func TestEntry(t *testing.T) {
	good := entry{action("output"), 12, began}.format(action("x"))
	if e, err := parseEntry(good, action("x")); err != nil || e.size != 12 || !e.time.Equal(began) || e.output != action("output") || len(good) != entrySize {
		t.Fatalf("%q: %+v, %v", good, e, err)
	}
	size := fmt.Sprintf("%20d", 12)
	for name, text := range map[string]string{
		"version": "v2" + good[2:], "upper version": "V1" + good[2:], "no end": good[:entrySize-1] + " ", "cut": good[1:], "longer": good + "\n",
		"separator": strings.Replace(good, " ", "_", 1), "digits": good[:3] + "x" + good[4:], "output's digits": good[:70] + "x" + good[71:],
		"negative": strings.Replace(good, size, fmt.Sprintf("%20d", -12), 1), "signed": strings.Replace(good, size, strings.Repeat(" ", 17)+"+12", 1),
		"no size": strings.Replace(good, size, strings.Repeat(" ", 20), 1), "huge": strings.Replace(good, size, strings.Repeat("9", 20), 1),
		"no time": good[:entrySize-21] + strings.Repeat(" ", 20) + "\n", "empty": "",
	} {
		if e, err := parseEntry(text, action("x")); err == nil {
			t.Errorf("%s: %q is %+v", name, text, e)
		}
	}
	if _, err := parseEntry(good, action("y")); err == nil {
		t.Error("an entry of another action was taken")
	}
}

// FuzzServe: whatever comes, every answer is one line of JSON, and the host's cache
// stays as it is.
func FuzzServe(f *testing.F) {
	f.Add([]byte(get(1, "x") + put(2, "y", "text") + bye))
	f.Add([]byte(put(1, "x", "") + put(2, "y", "a") + get(1, "y")))
	f.Add([]byte("{\"ID\":1,\"Command\":\"put\",\"BodySize\":9}\n\"AAAA\"\"\n"))
	host := dir{f.TempDir()}
	add(f, host, "x", "output")
	before := snapshot(f, host.path)
	f.Fuzz(func(t *testing.T, in []byte) {
		c := caches{host, dir{t.TempDir()}}
		var out bytes.Buffer
		s := &server{private: c.private, host: host, now: func() time.Time { return soon }}
		_ = s.serve(bytes.NewReader(in), &out)
		for lines := bufio.NewScanner(&out); lines.Scan(); {
			if !json.Valid(lines.Bytes()) {
				t.Errorf("answer %q", lines.Text())
			}
		}
		if after := snapshot(t, host.path); !slices.Equal(before, after) {
			t.Error("the host's cache changed")
		}
		if left := leftovers(t, c.private); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}
