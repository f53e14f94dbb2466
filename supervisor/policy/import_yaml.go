package policy

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"

	"github.com/pelletier/go-toml/v2/unstable"
	"go.yaml.in/yaml/v3"
)

// maxNodes bounds what a YAML file may hold once its aliases are followed.
const maxNodes = 50000

// readYAML reads a YAML mapping as a table: one document, each key once, with the
// place of every value. A key without a value is left out, as if it were not
// there.
func readYAML(src Source, faults *faultList) *table {
	root := newTable(Pos{src.Name, 1, 1})
	if !readable(src, "YAML", faults) {
		return root
	}
	dec := yaml.NewDecoder(bytes.NewReader(src.Text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		faults.add(yamlPos(src.Name, err), "", "%s", err)
		return root
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		faults.add(Pos{src.Name, max(1, more.Line), 1}, "split the file", "the file has more than one document, or text after it")
		return root
	}
	r := &yamlReader{file: src.Name, faults: faults}
	v := r.value(&doc, 0)
	if v == nil || v.table == nil {
		faults.add(root.pos, "expected keys with values, key: value", "the file is not a YAML mapping")
		return root
	}
	return v.table
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// yamlPos is the place that an error of the parser names in its text.
func yamlPos(file string, err error) Pos {
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n > 0 {
			return Pos{file, n, 1}
		}
	}
	return Pos{File: file}
}

type yamlReader struct {
	file   string
	nodes  int
	faults *faultList
}

func (r *yamlReader) fail(n *yaml.Node, want, format string, args ...any) *value {
	r.faults.add(Pos{r.file, max(1, n.Line), max(1, n.Column)}, want, format, args...)
	return nil
}

// value reads one node; nil is nothing, or what was said to be a fault.
func (r *yamlReader) value(n *yaml.Node, depth int) *value {
	if r.nodes++; r.nodes > maxNodes || depth > maxDepth {
		if r.nodes <= maxNodes+1 || depth > maxDepth {
			r.nodes = maxNodes + 1
			return r.fail(n, "", "the file holds more than %d values, or nests them deeper than %d", maxNodes, maxDepth)
		}
		return nil
	}
	v := &value{pos: Pos{r.file, max(1, n.Line), max(1, n.Column)}, str: n.Value}
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(n.Content[0], depth)
	case yaml.AliasNode:
		return r.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		v.kind = unstable.Array
		for _, one := range n.Content {
			if item := r.value(one, depth+1); item != nil {
				v.list = append(v.list, item)
			}
		}
	case yaml.MappingNode:
		v.kind, v.table = unstable.InlineTable, newTable(v.pos)
		r.mapping(n, v.table, depth)
	case yaml.ScalarNode:
		return r.scalar(n, v)
	default:
		return r.fail(n, "", "a value of an unknown kind")
	}
	return v
}

func (r *yamlReader) mapping(n *yaml.Node, t *table, depth int) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			r.fail(key, "write the keys out", "a key that is not a plain word")
			continue
		}
		if was := t.index[key.Value]; was != nil {
			r.fail(key, "remove one of the two", "key %q is written twice, first at %s", key.Value, was.pos)
			continue
		}
		if v := r.value(n.Content[i+1], depth+1); v != nil {
			t.put(key.Value, Pos{r.file, max(1, key.Line), max(1, key.Column)}, v)
		}
	}
}

func (r *yamlReader) scalar(n *yaml.Node, v *value) *value {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		v.kind = unstable.String
	case "!!bool":
		v.kind = unstable.Bool
		if err := n.Decode(&v.yes); err != nil {
			return r.fail(n, "", "%s", err)
		}
	case "!!int":
		v.kind = unstable.Integer
	case "!!float":
		v.kind = unstable.Float
	case "!!null":
		return nil
	default:
		return r.fail(n, "write it as plain text", "a value with the tag %s", n.Tag)
	}
	return v
}
