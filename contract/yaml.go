package contract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// document is a file of YAML that was read.
type document struct {
	file string
	root *yaml.Node // nil: it is empty
}

// decode reads a file of one YAML document. Keys that mean nothing are refused.
func decode(file string, content []byte, into any) (document, error) {
	d := document{file: file}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	err := decoder.Decode(into)
	if errors.Is(err, io.EOF) {
		return d, nil
	}
	if err != nil {
		return d, plainError(file, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return d, fmt.Errorf("%s: it holds more than one YAML document; put all into one", file)
	}
	d.root = new(yaml.Node)
	if err := yaml.Unmarshal(content, d.root); err != nil {
		return d, plainError(file, err)
	}
	if empty := emptyItem(d.root); empty != nil {
		return d, fmt.Errorf("%s:%d: this item of a list says nothing; remove it", file, empty.Line)
	}
	return d, nil
}

// emptyItem finds an item of a list that is null, which the library leaves out.
// Only options may hold such.
func emptyItem(node *yaml.Node) *yaml.Node {
	for i, item := range node.Content {
		if node.Kind == yaml.SequenceNode && item.Tag == "!!null" {
			return item
		}
		if node.Kind == yaml.MappingNode && i%2 == 1 && node.Content[i-1].Value == "options" {
			continue
		}
		if empty := emptyItem(item); empty != nil {
			return empty
		}
	}
	return nil
}

// find answers the node at a path, and the last one on the way that is there.
func (d document) find(at path) (node, nearest *yaml.Node) {
	if d.root == nil {
		return nil, nil
	}
	node = d.root.Content[0]
	for len(at) > 0 && node != nil {
		nearest = node
		node, at = child(node, at[0]), at[1:]
	}
	if node == nil {
		return nil, nearest
	}
	return node, node
}

// child answers what a key or an index leads to, through anchors and merges.
func child(node *yaml.Node, step any) *yaml.Node {
	switch {
	case node.Kind == yaml.SequenceNode && isIndex(step) && step.(int) < len(node.Content):
		return resolved(node.Content[step.(int)])
	case node.Kind == yaml.MappingNode:
		var merged *yaml.Node
		for i := 0; i+1 < len(node.Content); i += 2 {
			switch key, value := node.Content[i], resolved(node.Content[i+1]); {
			case key.Value == fmt.Sprint(step):
				return value
			case key.Tag == "!!merge" && merged == nil:
				merged = child(value, step)
			}
		}
		return merged
	}
	return nil
}

func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// place is file:line of a path.
func (d document) place(at path) string {
	if _, nearest := d.find(at); nearest != nil {
		return fmt.Sprintf("%s:%d", d.file, nearest.Line)
	}
	return d.file
}

// What the YAML library says in terms of Go types, which mean nothing to whoever
// writes cases.
var (
	atLine       = regexp.MustCompile(`^line (\d+): `)
	unknownField = regexp.MustCompile(`field (\S+) not found in type (\S+)`)
	wrongType    = regexp.MustCompile("cannot unmarshal !!(\\S+)(?: `(?s:(.*))`)? into (\\S+)")
)

// shapes are the types of a folder's files, by the names the library gives them.
var shapes = func() map[string]reflect.Type {
	named := map[string]reflect.Type{}
	for _, value := range []any{
		casesFile{}, Case{}, TaskColumns{}, World{}, Receiver{}, Answer{}, Volatile{}, Deviation{},
		golden{}, Observation{}, Outcome{}, FollowUp{}, Request{}, Change{}, Values{},
	} {
		named[reflect.TypeOf(value).String()] = reflect.TypeOf(value)
	}
	return named
}()

// belongs says what is to stand where something else does, by the Go type.
func belongs(kind string) string {
	switch {
	case shapes[kind] != nil:
		return "a map belongs here, with the keys " + strings.Join(keys(shapes[kind]), ", ")
	case kind == reflect.TypeFor[time.Duration]().String():
		return "a duration with its unit belongs here, as 300ms or 2s"
	case kind == "string":
		return "a text belongs here; quote it"
	case kind == "bool":
		return "true or false belongs here"
	case strings.HasPrefix(kind, "int"):
		return "a whole number belongs here"
	case strings.HasPrefix(kind, "[]"):
		return "a list belongs here"
	}
	return "a map belongs here"
}

func keys(shape reflect.Type) []string {
	var names []string
	for field := range shape.Fields() {
		name, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if option == "inline" {
			names = append(names, keys(field.Type)...)
			continue
		}
		names = append(names, name)
	}
	return names
}

func plainError(file string, err error) error {
	complaints := []string{err.Error()}
	if typed := (*yaml.TypeError)(nil); errors.As(err, &typed) {
		complaints = typed.Errors
	}
	problems := make([]error, len(complaints))
	for i, complaint := range complaints {
		complaint = unknownField.ReplaceAllStringFunc(complaint, func(match string) string {
			m := unknownField.FindStringSubmatch(match)
			if shape := shapes[m[2]]; shape != nil {
				return fmt.Sprintf("unknown key %q; the keys here are %s", m[1], strings.Join(keys(shape), ", "))
			}
			return fmt.Sprintf("unknown key %q", m[1])
		})
		complaint = wrongType.ReplaceAllStringFunc(complaint, func(match string) string {
			m := wrongType.FindStringSubmatch(match)
			if m[2] != "" {
				return fmt.Sprintf("%q: %s", m[2], belongs(m[3]))
			}
			return belongs(m[3])
		})
		place := file
		complaint = strings.TrimPrefix(complaint, "yaml: ")
		if m := atLine.FindStringSubmatch(complaint); m != nil {
			place += ":" + m[1]
			complaint = strings.TrimPrefix(complaint, m[0])
		}
		problems[i] = fmt.Errorf("%s: %s", place, complaint)
	}
	return errors.Join(problems...)
}

// casesFile is a file of cases.
type casesFile struct {
	Cases []Case `yaml:"cases"`
}

// sorted answers the keys of a map in their order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
