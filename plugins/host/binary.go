package host

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Checked is what Manifest.Verify found out about one binary.
type Checked struct {
	Name   string `json:"name"`
	Path   string `json:"path"`
	Pinned string `json:"pinned"` // the digest in the manifest; may be empty
	Actual string `json:"actual"` // the digest of the file; empty when unreadable

	// Err says why the binary would not be started, or is nil.
	Err error `json:"-"`
}

// Verify checks every binary of the manifest as a launch would, without
// starting it.
func (m *Manifest) Verify() []Checked {
	all := make([]Checked, len(m.Plugins))
	for i, p := range m.Plugins {
		all[i] = Checked{Name: p.Name, Path: p.Path, Pinned: p.SHA256}
		file, actual, err := openBinary(p.Path)
		if err == nil {
			err = errors.Join(checkPin(p, actual), file.Close())
		}
		all[i].Actual, all[i].Err = actual, err
	}
	return all
}

func checkPin(p Plugin, actual string) error {
	switch p.SHA256 {
	case actual:
		return nil
	case "":
		return fmt.Errorf("%s has no sha256 in the manifest; look at what it is, then run `gantry plugins pin`", p.Path)
	}
	return fmt.Errorf("%s has changed: its sha256 is %s, the manifest pins %s; if the change is yours, run `gantry plugins pin`",
		p.Path, actual, p.SHA256)
}

// openBinary opens an executable, makes sure that it can run here and answers
// its digest. The open file is what must be executed, so that the bytes that
// were hashed are the bytes that run even when the path is replaced meanwhile.
func openBinary(path string) (file *os.File, digest string, err error) {
	file, err = os.Open(path)
	if err != nil {
		return nil, "", fmt.Errorf("open handler binary: %w", err)
	}
	defer func() {
		if err != nil {
			file.Close()
			file = nil
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return file, "", fmt.Errorf("open handler binary: %w", err)
	}
	if !info.Mode().IsRegular() {
		return file, "", fmt.Errorf("%s is not a file", path)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return file, "", fmt.Errorf("read handler binary: %w", err)
	}
	digest = hex.EncodeToString(hash.Sum(nil))
	return file, digest, checkRunnable(file, path)
}

func checkRunnable(file *os.File, path string) error {
	if err := checkMachine(file, path); err != nil {
		return err
	}
	var mount unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &mount); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", path, err)
	}
	if mount.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s lies on a file system mounted noexec; move it to one that allows programs", path)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("%s is not executable for this user (%w); chmod +x it", path, err)
	}
	return nil
}

// machines names what debug/elf calls the architectures Gantry is built for.
var machines = map[string]elf.Machine{
	"386":     elf.EM_386,
	"amd64":   elf.EM_X86_64,
	"arm":     elf.EM_ARM,
	"arm64":   elf.EM_AARCH64,
	"loong64": elf.EM_LOONGARCH,
	"ppc64le": elf.EM_PPC64,
	"riscv64": elf.EM_RISCV,
	"s390x":   elf.EM_S390,
}

func checkMachine(file *os.File, path string) error {
	header, err := elf.NewFile(file)
	if err != nil {
		return fmt.Errorf("%s is not a Linux program (%w); build it with GOOS=linux GOARCH=%s", path, err, runtime.GOARCH)
	}
	if want := machines[runtime.GOARCH]; header.Machine != want {
		return fmt.Errorf("%s is built for another architecture, %v; this machine needs %v: build it with GOARCH=%s",
			path, header.Machine, want, runtime.GOARCH)
	}
	return nil
}
