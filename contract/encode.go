package contract

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// EncodeCases writes a file of cases, as LoadFolder reads them. The worlds of
// the cases are written whole.
func EncodeCases(cases []Case) ([]byte, error) { return encode(casesFile{Cases: cases}) }

// encode writes YAML that a person can read in a diff: texts of several lines
// stand as lines wherever YAML allows that exactly, other special ones quoted,
// and bytes that are not UTF-8 as base64. What comes back is the same.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(nodeOf(reflect.ValueOf(value))); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	err := encoder.Close()
	return b.Bytes(), err
}

// nodeOf makes the YAML of a value of this package. The library would write a
// text like "\n\t" so that it does not read it again.
func nodeOf(v reflect.Value) *yaml.Node {
	scalar := func(tag, text string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
	}
	switch v.Kind() {
	case reflect.Invalid:
		return scalar("!!null", "null")
	case reflect.Pointer, reflect.Interface:
		return nodeOf(v.Elem())
	case reflect.String:
		return textNode(v.String())
	case reflect.Struct:
		return structNode(v)
	case reflect.Map:
		node := &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range sortedKeys(v) {
			node.Content = append(node.Content, nodeOf(key), nodeOf(v.MapIndex(key)))
		}
		return node
	case reflect.Slice:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			node.Content = append(node.Content, nodeOf(v.Index(i)))
		}
		return node
	case reflect.Bool:
		return scalar("!!bool", strconv.FormatBool(v.Bool()))
	case reflect.Float64:
		return scalar("!!float", strconv.FormatFloat(v.Float(), 'g', -1, 64))
	}
	if duration, ok := v.Interface().(time.Duration); ok {
		return textNode(duration.String())
	}
	return scalar("!!int", fmt.Sprint(v.Interface()))
}

// structNode writes the fields that are set, by the names of their yaml tags.
func structNode(v reflect.Value) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for field, value := range v.Fields() {
		name, option, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		empty := value.IsZero() || hasLen(value) && value.Len() == 0
		switch {
		case option == "omitempty" && empty:
			continue
		case option == "inline":
			node.Content = append(node.Content, structNode(value).Content...)
			continue
		}
		node.Content = append(node.Content, textNode(name), nodeOf(value))
	}
	return node
}

func hasLen(v reflect.Value) bool { return v.Kind() == reflect.Map || v.Kind() == reflect.Slice }

func sortedKeys(v reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int {
		return natural(a.String(), b.String())
	})
}

func textNode(text string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	switch {
	case !utf8.ValidString(text):
		node.Tag, node.Value = "!!binary", base64.StdEncoding.EncodeToString([]byte(text))
	case readsAsLines(text):
		node.Style = yaml.LiteralStyle
	case strings.ContainsFunc(text, isSpecial) || text != strings.TrimSpace(text):
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

// readsAsLines reports whether a text has several lines, and is what comes back
// when they are written as such. Editors strip spaces at the end of a line, and
// some change tabs.
func readsAsLines(text string) bool {
	if !strings.Contains(strings.TrimSuffix(text, "\n"), "\n") || text[0] == ' ' || text[0] == '\n' {
		return false
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimRight(line, " ") != line || strings.ContainsFunc(line, isSpecial) {
			return false
		}
	}
	return true
}

// isSpecial reports what nobody sees, or could tell from something else.
func isSpecial(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
