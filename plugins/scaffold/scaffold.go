// Package scaffold writes a new module for a handler binary: one that builds,
// whose tests pass, and that leaves every task to PHP until its work is written.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

// goVersion is what the generated go.mod asks for: what Gantry's own does.
const goVersion = "1.26.0"

//go:embed files
var files embed.FS

// Module is a module that is to be written.
type Module struct {
	// Dir is the folder it is written into. It must be empty, or not exist.
	Dir string

	// Path is the module path. The last element names the binary.
	Path string

	// Classes are the task classes that it handles, as PHP spells them. At
	// least one.
	Classes []string

	// Version of Gantry that it requires, as go.mod takes it.
	Version string

	// Checkout is the directory of a checkout of Gantry that is used instead of
	// a released one; "" for none. One that is beside the module is named by a
	// relative path, so that the two can lie beside each other elsewhere.
	Checkout string
}

// class is a task class as the templates need it.
type class struct {
	Class   string // AcmeGreetingWorker
	Go      string // AcmeGreeting
	Private string // acmeGreeting
	File    string // acmegreeting
	Slug    string // acme-greeting
	First   bool   // its file carries the comment of the package
}

// content is what the templates are filled with.
type content struct {
	Name, Module, Go, Version, Checkout string
	Classes                             []class
}

// Write writes the files and answers their paths, relative to Dir. What it
// cannot write it refuses before it writes anything.
func (m Module) Write() ([]string, error) {
	c, err := m.content()
	if err != nil {
		return nil, err
	}
	if err := mustBeEmpty(m.Dir); err != nil {
		return nil, err
	}
	rendered, err := c.render()
	if err != nil {
		return nil, err
	}
	var written []string
	for _, f := range rendered {
		path := filepath.Join(m.Dir, f.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return written, fmt.Errorf("write the module: %w", err)
		}
		if err := os.WriteFile(path, f.text, f.mode); err != nil {
			return written, fmt.Errorf("write the module: %w", err)
		}
		written = append(written, f.path)
	}
	return written, nil
}

// Module paths and class names become file names, Go and YAML, so only what is
// plain in all of them is taken.
var (
	modulePath = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._~-]*(/[A-Za-z0-9][A-Za-z0-9._~-]*)*$`)
	className  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

func (m Module) content() (content, error) {
	if !modulePath.MatchString(m.Path) {
		return content{}, fmt.Errorf("%q is no module path; it is something like example.com/handler-acme", m.Path)
	}
	if len(m.Classes) == 0 {
		return content{}, errors.New("name the task class that the binary is for")
	}
	c := content{Name: filepath.Base(m.Path), Module: m.Path, Go: goVersion, Version: m.Version}
	var err error
	if c.Checkout, err = m.replacement(); err != nil {
		return content{}, err
	}
	files := map[string]string{}
	for _, name := range m.Classes {
		of, err := newClass(name)
		if err != nil {
			return content{}, err
		}
		if other, ok := files[of.File]; ok {
			return content{}, fmt.Errorf("the classes %s and %s come to the same Go name; give each a binary of its own", other, name)
		}
		files[of.File] = name
		of.First = len(c.Classes) == 0
		c.Classes = append(c.Classes, of)
	}
	return c, nil
}

// replacement answers the path of the checkout as go.mod names it.
func (m Module) replacement() (string, error) {
	if m.Checkout == "" {
		return "", nil
	}
	dir, err := filepath.Abs(m.Dir)
	if err != nil {
		return "", err
	}
	checkout, err := filepath.Abs(m.Checkout)
	if err != nil {
		return "", err
	}
	if filepath.Dir(checkout) == filepath.Dir(dir) {
		return "../" + filepath.Base(checkout), nil
	}
	return checkout, nil
}

func newClass(name string) (class, error) {
	if !className.MatchString(name) {
		return class{}, fmt.Errorf("%q is no name of a PHP class; it is something like AcmeGreetingWorker, of at most 64 letters, digits and _", name)
	}
	words := Words(name)
	if len(words) == 0 || strings.Trim(words[0][:1], "0123456789") == "" {
		return class{}, fmt.Errorf("%q has no letter at its begin to make a Go name of", name)
	}
	c := class{Class: name, Slug: strings.ToLower(strings.Join(words, "-"))}
	for _, word := range words {
		c.Go += strings.ToUpper(word[:1]) + word[1:]
	}
	c.Private = strings.ToLower(c.Go[:1]) + c.Go[1:]
	c.File = strings.ToLower(c.Go)
	if c.Slug == "world" { // what stands in world.yaml is no case
		c.Slug = "world-task"
	}
	return c, nil
}

// Words answers the words of a class's name, without the Worker at its end:
// Feed, Publisher and HTTP for FeedPublisherHTTPWorker.
func Words(class string) []string {
	if name := strings.TrimSuffix(class, "Worker"); name != "" {
		class = name
	}
	var words []string
	begin := 0
	for i := 1; i <= len(class); i++ {
		if i < len(class) && !begins(class, i) {
			continue
		}
		if word := strings.Trim(class[begin:i], "_"); word != "" {
			words = append(words, word)
		}
		begin = i
	}
	return words
}

// begins reports whether a word begins at a byte of a name.
func begins(name string, i int) bool {
	upper := func(c byte) bool { return 'A' <= c && c <= 'Z' }
	before, here := name[i-1], name[i]
	switch {
	case before == '_' || here == '_':
		return true
	case !upper(here):
		return false
	}
	return !upper(before) || i+1 < len(name) && 'a' <= name[i+1] && name[i+1] <= 'z'
}

// mustBeEmpty refuses a folder that holds anything: what is there is
// somebody's.
func mustBeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look into the folder of the new module: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("the folder %s is not empty (it holds %s); name a new one", dir, entries[0].Name())
	}
	return nil
}

// file is one that is written.
type file struct {
	path string
	text []byte
	mode fs.FileMode
}

func (c content) render() ([]file, error) {
	all, err := template.ParseFS(files, "files/*.tmpl", "files/*/*.tmpl")
	if err != nil {
		return nil, err
	}
	var rendered []file
	add := func(name, path string, with any) error {
		var text bytes.Buffer
		if err := all.ExecuteTemplate(&text, name+".tmpl", with); err != nil {
			return err
		}
		f := file{path, text.Bytes(), 0o644}
		if strings.HasSuffix(path, ".sh") {
			f.mode = 0o755
		}
		if strings.HasSuffix(path, ".go") {
			if f.text, err = format.Source(f.text); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		rendered = append(rendered, f)
		return nil
	}
	for _, f := range []struct{ name, path string }{
		{"go.mod", "go.mod"}, {"main.go", "main.go"},
		{"property_test.go", "property_test.go"}, {"world.yaml", "cases/world.yaml"},
		{"plugins.yaml", "plugins.yaml"}, {"ci.sh", "ci.sh"}, {"README.md", "README.md"}, {"gitignore", ".gitignore"},
	} {
		if err := add(f.name, f.path, c); err != nil {
			return nil, err
		}
	}
	for _, of := range c.Classes {
		for _, f := range []struct{ name, path string }{
			{"worker.go", "workers/" + of.File + ".go"}, {"worker_test.go", "workers/" + of.File + "_test.go"},
			{"case.yaml", "cases/" + of.Slug + ".yaml"},
		} {
			if err := add(f.name, f.path, of); err != nil {
				return nil, err
			}
		}
	}
	return rendered, nil
}
