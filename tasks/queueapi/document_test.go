package queueapi_test

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/phorge-gantry/gantry/tasks/queueapi"
)

//go:embed openapi.yaml
var openAPI []byte

// openapi is the document as it stands, and a compiler of its schemas.
var openapi = sync.OnceValue(func() (d struct {
	root     map[string]any
	compiler *jsonschema.Compiler
}) {
	if err := yaml.Unmarshal(openAPI, &d.root); err != nil {
		panic(err)
	}
	d.compiler = jsonschema.NewCompiler()
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := d.compiler.AddResource("openapi.json", plain(d.root)); err != nil {
		panic(err)
	}
	return d
})

// plain is what was read from YAML as if it had been JSON.
func plain(v any) any {
	decoded, err := jsonschema.UnmarshalJSON(strings.NewReader(text(v)))
	if err != nil {
		panic(err)
	}
	return decoded
}

// at follows keys of maps, and references.
func at(v any, keys ...string) (any, string) {
	root := any(openapi().root)
	pointer := "#"
	for _, key := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, ""
		}
		if ref, ok := m["$ref"].(string); ok {
			return atPointer(root, ref, keys[slices.Index(keys, key):])
		}
		v = m[key]
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	}
	return v, pointer
}

func atPointer(root any, ref string, rest []string) (any, string) {
	keys := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	return at(root, append(keys, rest...)...)
}

// validate holds a value against the schema at a place of the document.
func validate(pointer string, value any) error {
	d := openapi()
	schemas.Lock()
	defer schemas.Unlock()
	schema := schemas.compiled[pointer]
	if schema == nil {
		var err error
		if schema, err = d.compiler.Compile("openapi.json" + pointer); err != nil {
			return err
		}
		schemas.compiled[pointer] = schema
	}
	return schema.Validate(value)
}

var schemas = struct {
	sync.Mutex
	compiled map[string]*jsonschema.Schema
}{compiled: map[string]*jsonschema.Schema{}}

// documented answers why an answer is not one that the document describes.
func documented(method, path string, status int, body []byte) error {
	if rest, ok := strings.CutPrefix(path, "/api/queue/tasks/"); ok && rest != "" {
		path = "/api/queue/tasks/{id}"
	}
	root := any(openapi().root)
	responses, _ := at(root, "paths", path, strings.ToLower(method), "responses")
	if responses == nil { // what is refused before it has a path
		return validateText("#/components/responses/Error/content/application~1json/schema", body)
	}
	key := strconv.Itoa(status)
	if m := responses.(map[string]any); m[key] == nil {
		if key = "default"; status < 400 || m[key] == nil {
			return fmt.Errorf("there is no answer %d", status)
		}
	}
	schema, pointer := at(root, "paths", path, strings.ToLower(method), "responses", key, "content", "application/json", "schema")
	if schema == nil {
		return nil // no JSON
	}
	return validateText(pointer, body)
}

func validateText(pointer string, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return validate(pointer, value)
}

func TestDocumentAndRoutesNameTheSamePathsAndMethods(t *testing.T) {
	described := map[string]bool{}
	for path, methods := range openapi().root["paths"].(map[string]any) {
		for method := range methods.(map[string]any) {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	served := map[string]bool{}
	for _, route := range queueapi.Routes() {
		served[route] = true
	}
	for _, route := range slices.Sorted(maps.Keys(described)) {
		if !served[route] {
			t.Errorf("%s is described and not served", route)
		}
	}
	for _, route := range slices.Sorted(maps.Keys(served)) {
		if !described[route] {
			t.Errorf("%s is served and not described", route)
		}
	}
	if len(served) < 15 {
		t.Fatalf("only %d routes were looked at", len(served))
	}
}

// examplesIn finds media types with examples, wherever they are.
func examplesIn(v any, pointer string, found func(pointer, name string, value any)) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	if examples, ok := m["examples"].(map[string]any); ok && m["schema"] != nil {
		for name, example := range examples {
			found(pointer+"/schema", name, example.(map[string]any)["value"])
		}
	}
	for key, value := range m {
		examplesIn(value, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), found)
	}
}

func TestExamplesOfTheDocumentAreValid(t *testing.T) {
	seen := 0
	examplesIn(openapi().root, "#", func(pointer, name string, value any) {
		seen++
		if err := validate(pointer, plain(value)); err != nil {
			t.Errorf("%s, example %s: %v", pointer, name, err)
		}
	})
	if seen < 20 {
		t.Fatalf("only %d examples were looked at", seen)
	}
}

func TestExamplesOfRequestsAreUnderstood(t *testing.T) {
	s := serve(t, openMemory(t))
	sent := 0
	for path, methods := range openapi().root["paths"].(map[string]any) {
		examples, _ := at(methods, "post", "requestBody", "content", "application/json", "examples")
		m, _ := examples.(map[string]any)
		for name, example := range m {
			sent++
			r := s.send(http.MethodPost, path, text(example.(map[string]any)["value"]), owner("w"))
			if r.status == http.StatusBadRequest || r.status >= 500 {
				t.Errorf("%s, example %s: answered %d %s", path, name, r.status, r.body)
			}
		}
	}
	if sent < 12 {
		t.Fatalf("only %d examples were sent", sent)
	}
}

func TestDocumentIsServed(t *testing.T) {
	s := serve(t, openMemory(t))
	r := s.get("openapi.yaml")
	if r.status != http.StatusOK || r.body != string(openAPI) || r.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("answered %d %s with %d bytes", r.status, r.header.Get("Content-Type"), len(r.body))
	}
}
