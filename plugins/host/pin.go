package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Pinned is what Pin did for one binary.
type Pinned struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	SHA256  string `json:"sha256"`
	Changed bool   `json:"changed"` // the manifest held another digest, or none
}

// Pin writes the digests of the binaries, as they are now, into a manifest.
// It changes nothing else in it: comments, order and layout stay. When one of
// the binaries could not be started here it answers why, and changes nothing.
func Pin(path string) ([]Pinned, error) {
	m, err := LoadManifest(path)
	if err != nil {
		return nil, err
	}
	if len(m.Plugins) == 0 {
		return nil, fmt.Errorf("pin %s: the manifest names no plugin", path)
	}
	pinned := make([]Pinned, len(m.Plugins))
	for i, p := range m.Plugins {
		file, digest, err := openBinary(p.Path)
		if err != nil {
			return nil, fmt.Errorf("pin %s: %w", p.Name, err)
		}
		file.Close()
		pinned[i] = Pinned{Name: p.Name, Path: p.Path, SHA256: digest, Changed: digest != p.SHA256}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("pin: %w", err)
	}
	edited, err := writeDigests(content, pinned)
	if err != nil {
		return nil, fmt.Errorf("pin %s: %w", path, err)
	}
	if bytes.Equal(edited, content) {
		return pinned, nil
	}
	if err := replaceFile(path, edited); err != nil {
		return nil, fmt.Errorf("pin: %w", err)
	}
	return pinned, nil
}

// writeDigests sets the sha256 of the plugins in the text of a manifest. The
// parsed document only tells where: to encode it again would lose the blank
// lines and the layout.
func writeDigests(content []byte, pinned []Pinned) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(content), "\n")
	_, plugins := find(document.Content[0], "plugins")
	for i, p := range pinned {
		if err := writeDigest(lines, plugins.Content[i], p.SHA256); err != nil {
			return nil, fmt.Errorf("plugin %s: %w", p.Name, err)
		}
	}
	return []byte(strings.Join(lines, "")), nil
}

func writeDigest(lines []string, plugin *yaml.Node, digest string) error {
	if plugin.Style&yaml.FlowStyle != 0 {
		return errors.New("it is written in braces; give each key a line of its own")
	}
	key, value := find(plugin, "sha256")
	if key == nil {
		key, _ = find(plugin, "path")
		line := &lines[key.Line-1]
		if !strings.HasSuffix(*line, "\n") {
			*line += "\n"
		}
		*line += strings.Repeat(" ", key.Column-1) + "sha256: " + digest + "\n"
		return nil
	}
	if value.Value == "" { // nothing after the colon, which follows the key
		line := &lines[key.Line-1]
		end := key.Column - 1 + len("sha256:")
		*line = (*line)[:end] + " " + digest + (*line)[end:]
		return nil
	}
	line := &lines[value.Line-1]
	start := value.Column - 1
	rest := strings.TrimLeft((*line)[start:], `"'`)
	*line = (*line)[:start] + digest + strings.TrimLeft(rest[len(value.Value):], `"'`)
	return nil
}

// find answers the nodes of a key and its value in a mapping, or nil.
func find(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// replaceFile replaces a file at once, so that nobody reads half a manifest,
// and keeps its permissions.
func replaceFile(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Chmod(info.Mode().Perm()), temp.Sync(), temp.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
