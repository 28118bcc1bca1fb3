package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// liveKeys is how many keys worker.execute accepts at once: the new one, and
// the one before it until everybody signs with the new one.
const liveKeys = 2

// signingKey is one key that signs the calls of worker.execute.
type signingKey struct {
	ID     string
	secret string
}

// keyReport is what is told about a file of keys. No secret is.
type keyReport struct {
	File   string   `json:"file"`
	KeyIDs []string `json:"keyIDs"` // the last one signs
}

func (a *app) keysCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "keys",
		Short: "Make and list the keys that sign calls of worker.execute",
		Long: `Make and list the keys with which ` + "`gantry run --conduit`" + ` signs its calls and
by which the Phorge knows them. Both read the same file: a JSON object with one
key, or with two while one is being replaced. The last one in it signs.`,
		Example: `  gantry keys new --conduit-key-file /etc/gantry/keys.json
  gantry keys list`,
	}, a.keysNewCommand(), a.keysListCommand())
	addFlags(cmd.PersistentFlags(), "conduit_key_file")
	return cmd
}

func (a *app) keysNewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "new",
		Short: "Write a new key into the file, beside the one before it",
		Long: `Write a new key into the file of keys, and remove all but the one before it. The
secret is random and is shown nowhere. A new file can be read by its owner alone;
one that exists keeps its owner and its permissions.

To replace a key: run this, copy the file to wherever the other side reads it,
restart ` + "`gantry run`" + `, and run it once more to be rid of the old one.`,
		Example: "  gantry keys new --conduit-key-file /etc/gantry/keys.json --phorge /opt/phorge",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			keys, err := c.keys()
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			key := newKey(time.Now())
			keys = append(keys[max(0, len(keys)-liveKeys+1):], key)
			if err := writeKeys(c.ConduitKeyFile, keys); err != nil {
				return fmt.Errorf("write the file of keys: %w", err)
			}
			return a.printNewKey(c, key, keys)
		},
	}
}

func (a *app) printNewKey(c *config, key signingKey, keys []signingKey) error {
	file, err := filepath.Abs(c.ConduitKeyFile)
	if err != nil {
		return err
	}
	command := filepath.Join(c.Phorge, "bin", "config") + " set gantry.key-file " + file
	if a.print.json {
		return a.print.document(struct {
			keyReport
			New     string `json:"new"`
			Command string `json:"command"`
		}{reportKeys(file, keys), key.ID, command})
	}
	a.print.linef("Key %s was written to %s.", key.ID, file)
	a.print.linef("")
	if len(keys) > 1 {
		a.print.linef("Copy the file to the host of the Phorge, to where gantry.key-file names it, or set gantry.keys from it again.")
		a.print.linef("Then restart Gantry. Key %s is accepted beside the new one, until there is a next.", plain(keys[0].ID))
		return nil
	}
	a.print.linef("The Phorge learns of the file by")
	a.print.linef("    %s", command)
	a.print.linef("The user of its web server and that of Gantry must be able to read the file, and nobody else.")
	a.print.linef("Where that cannot be, the keys can stand in its configuration, which more people can read:")
	a.print.linef("    %s set --stdin gantry.keys < %s", filepath.Join(c.Phorge, "bin", "config"), file)
	return nil
}

func (a *app) keysListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the keys of the file by their ids",
		Long:    `List the ids of the keys in the file, oldest first. The last one signs.`,
		Example: "  gantry keys list --conduit-key-file /etc/gantry/keys.json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			keys, err := c.keys()
			if err != nil {
				return err
			}
			if a.print.json {
				return a.print.document(reportKeys(c.ConduitKeyFile, keys))
			}
			for i, key := range keys {
				use := "is accepted"
				if i == len(keys)-1 {
					use = "is accepted, and signs"
				}
				a.print.linef("%s %s", key.ID, use)
			}
			return nil
		},
	}
}

func reportKeys(file string, keys []signingKey) keyReport {
	report := keyReport{File: file}
	for _, key := range keys {
		report.KeyIDs = append(report.KeyIDs, key.ID)
	}
	return report
}

// newKey answers a key with 256 random bits. Its id begins with its day, so
// that people see which is how old.
func newKey(now time.Time) signingKey {
	secret := make([]byte, 32)
	rand.Read(secret)
	return signingKey{now.UTC().Format(time.DateOnly) + "-" + strings.ToLower(rand.Text()[:6]), fmt.Sprintf("%x", secret)}
}

// keys reads the file of keys, in its order. Errors never quote it.
func (c *config) keys() ([]signingKey, error) {
	if c.ConduitKeyFile == "" {
		return nil, usagef("name the file of keys with --conduit-key-file, GANTRY_CONDUIT_KEY_FILE or conduit_key_file in the configuration file")
	}
	content, err := os.ReadFile(c.ConduitKeyFile)
	if err != nil {
		return nil, coded{fmt.Errorf("read the file of keys: %w", err), exitUsage}
	}
	keys, ok := parseKeys(content)
	if !ok {
		return nil, usagef("the file of keys %s must hold one or two keys as {\"id\": \"secret of 32 characters or more\"}; move it away, then make a new one with `gantry keys new`", c.ConduitKeyFile)
	}
	return keys, nil
}

func parseKeys(content []byte) (keys []signingKey, ok bool) {
	d := json.NewDecoder(bytes.NewReader(content))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		id, err1 := d.Token()
		secret, err2 := d.Token()
		key := signingKey{}
		var isText bool
		key.ID, _ = id.(string)
		key.secret, isText = secret.(string)
		if err1 != nil || err2 != nil || !isText || key.ID == "" || len(key.secret) < 32 {
			return nil, false
		}
		keys = append(keys, key)
	}
	_, err := d.Token()
	return keys, err == nil && !d.More() && len(keys) >= 1 && len(keys) <= liveKeys
}

// writeKeys replaces the file of keys.
func writeKeys(path string, keys []signingKey) error {
	var content bytes.Buffer
	for i, key := range keys { // an object in this order, which a map has not
		id, err1 := json.Marshal(key.ID)
		secret, err2 := json.Marshal(key.secret)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		fmt.Fprintf(&content, "%s\n  %s: %s", []string{"{", ","}[min(i, 1)], id, secret)
	}
	content.WriteString("\n}\n")
	return replaceFile(path, content.Bytes())
}
