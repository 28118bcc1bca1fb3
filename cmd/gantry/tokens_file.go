package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/phorge-gantry/gantry/tasks/queueapi"
	"github.com/phorge-gantry/gantry/tasks/token"
	"go.yaml.in/yaml/v3"
)

// tokenEntry is who may use a queue over HTTP, or call a gateway, as the file of
// tokens says it.
type tokenEntry struct {
	Name     string   `yaml:"name"`
	Instance string   `yaml:"instance,omitempty"`
	Rights   []string `yaml:"rights,flow,omitempty"`
	Allow    []string `yaml:"allow,flow,omitempty"` // methods of Conduit; so are the next two
	Deny     []string `yaml:"deny,flow,omitempty"`
	Exempt   []string `yaml:"exempt,flow,omitempty"`
	Digest   string   `yaml:"digest"`
	Rate     float64  `yaml:"rate,omitempty"`
	Burst    int      `yaml:"burst,omitempty"`
}

// readTokens reads the file of tokens, and answers its content as well. Its
// errors quote no value: one may be a token in the wrong place.
func readTokens(path string) ([]tokenEntry, []byte, error) {
	if path == "" {
		return nil, nil, usagef("name the file of tokens with --tokens, GANTRY_TOKENS or tokens in the configuration file")
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, coded{fmt.Errorf("read the file of tokens: %w; `gantry tokens new` makes it", err), exitUsage}
	}
	if err != nil {
		return nil, nil, coded{fmt.Errorf("read the file of tokens: %w", err), exitUsage}
	}
	entries, err := parseTokens(content)
	if err != nil {
		return nil, nil, coded{fmt.Errorf("tokens %s: %w", path, err), exitUsage}
	}
	return entries, content, nil
}

func parseTokens(content []byte) ([]tokenEntry, error) {
	var file struct {
		Tokens []tokenEntry `yaml:"tokens"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	switch err := decoder.Decode(&file); {
	case errors.Is(err, io.EOF):
	case err != nil && strings.Contains(err.Error(), "cannot unmarshal"):
		return nil, errors.New("it must hold `tokens:` with a list of entries, as `gantry tokens new` writes them")
	case err != nil:
		return nil, err
	}
	return file.Tokens, nil
}

// withEntry answers the file with one entry more. Comments stay.
func withEntry(content []byte, entry tokenEntry) ([]byte, error) {
	var document, added yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	if err := added.Encode(entry); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 { // comments, or nothing
		text, err := yaml.Marshal(map[string][]tokenEntry{"tokens": {entry}})
		return append(content, text...), err
	}
	top := document.Content[0]
	if len(top.Content) == 0 {
		top.Kind, top.Tag, top.Value = yaml.MappingNode, "", "" // it was null, or {}
		top.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Value: "tokens"}, {Kind: yaml.SequenceNode}}
	}
	list := top.Content[1] // tokens is the only key
	if list.Kind != yaml.SequenceNode {
		*list = yaml.Node{Kind: yaml.SequenceNode}
	}
	list.Style = 0
	list.Content = append(list.Content, &added)
	var edited bytes.Buffer
	encoder := yaml.NewEncoder(&edited)
	encoder.SetIndent(2)
	err := errors.Join(encoder.Encode(&document), encoder.Close())
	return edited.Bytes(), err
}

// token answers an entry as the API takes it.
func (e tokenEntry) token() queueapi.Token {
	t := queueapi.Token{Name: e.Name, Digest: e.Digest, Instance: e.Instance, Rate: e.Rate, Burst: e.Burst}
	for _, right := range e.Rights {
		t.Rights = append(t.Rights, queueapi.Right(right))
	}
	return t
}

// callers answers who may use the queues over HTTP. Without a file it is whoever
// has the token of Gorge, and without that, nobody by name.
func (c *config) callers(instances []string) ([]queueapi.Token, error) {
	if c.Tokens == "" {
		return c.gorgeCaller(instances)
	}
	entries, _, err := readTokens(c.Tokens)
	if err != nil {
		return nil, err
	}
	var tokens []queueapi.Token
	for _, e := range entries {
		if e.forQueue() {
			tokens = append(tokens, e.token())
		}
	}
	if len(tokens) == 0 {
		return nil, usagef("the file of tokens %s has none for a queue: make one with `gantry tokens new NAME --rights RIGHTS`", c.Tokens)
	}
	return tokens, nil
}

// forQueue reports whether an entry is for queues, and not for a gateway alone.
func (e tokenEntry) forQueue() bool { return len(e.Rights) > 0 || len(e.Allow) == 0 }

func (c *config) gorgeCaller(instances []string) ([]queueapi.Token, error) {
	if c.gorge.token == "" {
		return nil, nil
	}
	if len(instances) != 1 {
		return nil, usagef("%s is a token for one instance, and there are several: make tokens with `gantry tokens new`", c.gorge.tokenIn)
	}
	all := tokenEntry{Name: c.gorge.tokenIn, Digest: token.Digest(c.gorge.token), Instance: instances[0], Rights: rights}
	return []queueapi.Token{all.token()}, nil
}
