package harness

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Key signs calls of worker.execute.
type Key struct{ ID, Secret string }

// LetExecute makes the Phorge run tasks of the given classes, and no others, for
// calls that are signed with the answered keys.
func (p *Phorge) LetExecute(classes ...string) ([2]Key, error) {
	keys := [2]Key{{"first", rand.Text() + rand.Text()}, {"second", rand.Text() + rand.Text()}}
	text, err := json.Marshal(map[string]string{keys[0].ID: keys[0].Secret, keys[1].ID: keys[1].Secret})
	if err != nil {
		return keys, err
	}
	file := filepath.Join(p.Dir(), "keys.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return keys, fmt.Errorf("write the keys of worker.execute: %w", err)
	}
	return keys, p.Configure(map[string]any{"gantry.key-file": file, "gantry.task-classes": classes})
}
