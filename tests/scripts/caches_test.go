package scripts_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// The tools find what the host's caches hold, a session changes nothing in them,
// and what it leaves in its own the host does not find.

// tarball packs a package as npm and pip know them: all files below one directory.
func tarball(t *testing.T, dir string, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	squeezed := gzip.NewWriter(&out)
	pack := tar.NewWriter(squeezed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		if err := pack.WriteHeader(&tar.Header{Name: dir + "/" + name, Mode: 0o644, Size: int64(len(text)), ModTime: time.Unix(1e9, 0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := pack.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := pack.Close(); err != nil {
		t.Fatal(err)
	}
	if err := squeezed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// registry serves one npm package, dep 1.0.0, on loopback for as long as the test
// fills a cache from it.
type registry struct {
	*httptest.Server
	tarball []byte
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{tarball: tarball(t, "package", map[string]string{
		"package.json": `{"name": "dep", "version": "1.0.0", "main": "index.js", "bin": {"dep": "index.js"}}`,
		"index.js":     "#!/usr/bin/env node\nmodule.exports = () => 'from dep';\nif (require.main === module) console.log('dep runs');\n",
	})}
	r.Server = httptest.NewServer(http.HandlerFunc(r.answer))
	t.Cleanup(r.Close)
	return r
}

// integrity is how npm names content.
func integrity(content []byte) string {
	sum := sha512.Sum512(content)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (r *registry) resolved() string { return r.URL + "/dep/-/dep-1.0.0.tgz" }

func (r *registry) answer(w http.ResponseWriter, q *http.Request) {
	switch q.URL.Path {
	case "/dep":
		dist := map[string]string{"tarball": r.resolved(), "integrity": integrity(r.tarball)}
		version := map[string]any{"name": "dep", "version": "1.0.0", "bin": map[string]string{"dep": "index.js"}, "dist": dist}
		json.NewEncoder(w).Encode(map[string]any{
			"name": "dep", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": version},
		})
	case "/dep/-/dep-1.0.0.tgz":
		w.Write(r.tarball)
	default:
		http.NotFound(w, q)
	}
}

// project is one that depends on dep by its lockfile.
func project(t *testing.T, dir, resolved string, tarball []byte) {
	t.Helper()
	put(t, dir+"/package.json", `{"name": "app", "version": "1.0.0", "private": true, "dependencies": {"dep": "1.0.0"}}`)
	put(t, dir+"/package-lock.json", fmt.Sprintf(`{"name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
"": {"name": "app", "version": "1.0.0", "dependencies": {"dep": "1.0.0"}},
"node_modules/dep": {"version": "1.0.0", "resolved": %q, "integrity": %q, "bin": {"dep": "index.js"}}}}`, resolved, integrity(tarball)))
}

// TestNpmCache: the host's cache was filled from a registry that is gone, and knows
// nothing of the package that the session adds.
func TestNpmCache(t *testing.T) {
	const quiet = "export npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false npm_config_logs_max=0\n"
	var filled *registry
	script{
		name: "npm ci", needs: []string{"npm", "node"}, want: "from dep", timeout: 4 * time.Minute,
		mask: `in \d+m?s`, ignore: `^own`, host: []string{".npm"},
		prepare: func(t *testing.T, g *trial.Ground, w string) {
			if _, err := os.Stat(g.Home + "/.npm"); err != nil {
				filled = newRegistry(t)
				out := g.Native(trial.Options{}, "/bin/sh", "-c", quiet+"npm cache add dep@1.0.0 --registry "+filled.URL)
				if out.Status != 0 {
					t.Fatalf("fill the host's cache: %s", out.Text())
				}
				filled.Close()
			}
			project(t, w+"/app", filled.resolved(), filled.tarball)
			own := tarball(t, "package", map[string]string{
				"package.json": `{"name": "dep", "version": "1.0.0", "bin": {"dep": "index.js"}}`,
				"index.js":     fmt.Sprintf("module.exports = () => 'planted'; // %d\n", time.Now().UnixNano()),
			})
			put(t, w+"/own.tgz", string(own))
			project(t, w+"/own", filled.resolved(), own)
		},
		text: quiet + `(cd app && npm ci --offline && node -e 'console.log(require("dep")())' && node_modules/.bin/dep && npm ci --prefer-offline && npm ls --depth 0 | tail -n 2) &&
npm cache add ./own.tgz && cd own && npm ci --offline && node -e 'console.log(require("dep")())'`,
		after: func(t *testing.T, g *trial.Ground, w string) {
			out := g.Native(trial.Options{Dir: w + "/own"}, "/bin/sh", "-c", quiet+"npm ci --offline")
			if out.Status == 0 || !strings.Contains(out.Stderr, "ENOTCACHED") {
				t.Errorf("the host finds what the session added to a cache: status %d, %s", out.Status, out.Text())
			}
		},
	}.test(t)
}

// backend builds the wheel of dep by itself, since setuptools may not be there.
const backend = `import os, zipfile
def build_wheel(to, settings=None, metadata=None):
    info, name = "dep-1.0.0.dist-info/", "dep-1.0.0-py3-none-any.whl"
    files = {"dep.py": "def main(): print('from dep')\n", info + "METADATA": "Metadata-Version: 2.1\nName: dep\nVersion: 1.0.0\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: dep\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "entry_points.txt": "[console_scripts]\ndep = dep:main\n"}
    files[info + "RECORD"] = "".join(f"{n},,\n" for n in [*files, info + "RECORD"])
    with zipfile.ZipFile(os.path.join(to, name), "w") as z:
        for n, text in files.items(): z.writestr(n, text)
    return name
`

// TestPythonVenv: an environment holds pip, which builds a wheel and keeps it: the
// host's in the host's cache, the session's in its own.
func TestPythonVenv(t *testing.T) {
	const python = "/usr/bin/python3"
	script{
		name: "venv", needs: []string{python}, want: "- dep-1.0.0-py3-none-any.whl", timeout: 4 * time.Minute, host: []string{".cache/pip"}, userOff: true,
		ignore: `\.pyc$`, // holds a time
		prepare: func(t *testing.T, g *trial.Ground, w string) {
			if out := g.Native(trial.Options{}, python, "-c", "import ensurepip"); out.Status != 0 {
				trial.Skip(t, "python3-venv", "this python3 has no ensurepip: "+out.Stderr)
			}
			put(t, w+"/dep-1.0.0.tar.gz", string(tarball(t, "dep-1.0.0", map[string]string{
				"backend.py": backend, "PKG-INFO": "Metadata-Version: 2.1\nName: dep\nVersion: 1.0.0\n",
				"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n",
			})))
			put(t, w+"/run.py", "import sys, dep\ndep.main()\nprint('inside', sys.prefix != sys.base_prefix)\n")
		},
		text: `export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
/usr/bin/python3 -m venv v && v/bin/pip --version && v/bin/pip install -q --no-index ./dep-1.0.0.tar.gz && v/bin/python run.py && v/bin/dep && v/bin/pip cache list &&
mkdir kept && cp -r v/bin v/lib/python*/site-packages/dep* kept && find v -type f ! -name '*.pyc' | wc -l && rm -rf v && ls`,
	}.test(t)
}

// moduleProxy lays out a module, example.com/dep v1.0.0, as `go` downloads it.
func moduleProxy(t *testing.T, dir string) {
	t.Helper()
	const gomod = "module example.com/dep\n\ngo 1.21\n"
	var out bytes.Buffer
	pack := zip.NewWriter(&out)
	for name, text := range map[string]string{"go.mod": gomod, "dep.go": "package dep\n\nfunc Word() string { return \"from dep\" }\n"} {
		w, err := pack.Create("example.com/dep@v1.0.0/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := pack.Close(); err != nil {
		t.Fatal(err)
	}
	at := dir + "/example.com/dep/@v/v1.0.0"
	put(t, at+".zip", out.String())
	put(t, at+".mod", gomod)
	put(t, at+".info", `{"Version": "v1.0.0"}`)
}

// TestGo: nothing is set for go, so that reeve gives it a build cache; the module
// is in the host's. The host compiles for itself what a session has compiled.
func TestGo(t *testing.T) {
	const gomod = "module github.com/reeve-audit/reeve\n\ngo 1.26.0\n\nrequire example.com/dep v1.0.0\n"
	prepare := func(t *testing.T, g *trial.Ground, w string) {
		sum, proxy := g.Home+"/go.sum", g.Home+"/proxy"
		if _, err := os.Stat(proxy); err != nil {
			moduleProxy(t, proxy)
			put(t, g.Home+"/go.mod", gomod)
			g.Own(g.Home)
			o := trial.Options{Dir: g.Home, Env: []string{"GOPROXY=file://" + proxy, "GONOSUMDB=*", "GOFLAGS=-modcacherw"}}
			if out := g.Native(o, "go", "mod", "download", "all"); out.Status != 0 {
				t.Fatalf("fill the host's module cache: %s", out.Text())
			}
		}
		sums, err := os.ReadFile(sum)
		if err != nil {
			t.Fatal(err)
		}
		put(t, w+"/go.sum", string(sums))
		put(t, w+"/go.mod", gomod)
		if err := os.CopyFS(filepath.Join(w, "supervisor/policy/command"), os.DirFS(filepath.Join(source(t), "supervisor/policy/command"))); err != nil {
			t.Fatal(err)
		}
		// Something that no cache knows.
		put(t, w+"/supervisor/policy/command/salt.go", fmt.Sprintf("package command\n\nconst Salt = %d\n", time.Now().UnixNano()))
		put(t, w+"/main.go", "package main\n\nimport \"example.com/dep\"\n\nfunc main() { println(dep.Word()) }\n")
	}
	script{
		name: "go build and test", needs: []string{"go"}, prepare: prepare, want: "compiled again:", timeout: 5 * time.Minute,
		calm: true, mask: `[0-9.]+s\b`, ignore: `/salt\.go$`, host: []string{".cache/go-build", "go"},
		text:  `go build ./... && go run . && echo compiled again: && go build -v ./... && go test -short ./... && go test -short ./... | grep cached`,
		brief: `go build ./... && echo compiled again: && go build -v ./...`,
		after: func(t *testing.T, g *trial.Ground, w string) {
			for _, want := range []string{"github.com/reeve-audit/reeve/supervisor/policy/command\n", ""} {
				if out := g.Native(trial.Options{Dir: w}, "go", "build", "-v", "./supervisor/..."); out.Status != 0 || out.Stderr != want {
					t.Errorf("the host, after the session, compiles %q, want %q: status %d", out.Stderr, want, out.Status)
				}
			}
		},
	}.test(t)
}
