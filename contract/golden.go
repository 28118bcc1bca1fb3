package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// golden is a file of golden/.
type golden struct {
	// Case is the digest of the case that was recorded.
	Case string `yaml:"case"`

	Observation `yaml:",inline"`
}

// ErrChanged is what an error of Folder.Current wraps: the case is not the one that
// was recorded, so nobody knows what PHP does with it.
var ErrChanged = errors.New("the case was changed after it was recorded")

// Current answers an error that wraps ErrChanged when a case of the folder, or the
// world that it starts in, was changed after it was recorded.
func (f *Folder) Current(c Case) error {
	digest, err := c.digest()
	if err != nil {
		return err
	}
	for _, path := range f.recorded(c) {
		g, err := readGolden(path)
		if err != nil {
			return err
		}
		if g.Case != digest {
			return fmt.Errorf("%w; `gantry contract record` records it again", ErrChanged)
		}
	}
	return nil
}

// digest is of all that decides what a case comes to: not of its name, of what it
// says to people, and of what Go is to do.
func (c Case) digest() (string, error) {
	c.Name, c.About, c.Declines, c.Deviation = "", "", false, nil
	c.Volatile = slices.Clone(c.Volatile)
	for i := range c.Volatile {
		c.Volatile[i].Reason = ""
	}
	content, err := encode(c)
	if err != nil {
		return "", fmt.Errorf("case %s: %w", c.Name, err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

func readGolden(path string) (golden, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return golden{}, fmt.Errorf("%w; `gantry contract record` writes it", err)
	}
	if err != nil {
		return golden{}, err
	}
	var g golden
	if _, err := decode(path, content, &g); err != nil {
		return golden{}, err
	}
	if g.Outcome.Kind == "" {
		return golden{}, fmt.Errorf("%s has no outcome; `gantry contract record` writes it anew", path)
	}
	return g, nil
}

func writeGolden(path string, c Case, o Observation) error {
	digest, err := c.digest()
	if err != nil {
		return err
	}
	content, err := encode(golden{digest, o})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeFile(path, content)
}
