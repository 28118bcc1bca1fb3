package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// replaceFile replaces a file at once, so that nobody reads half of it, with the
// owner and the permissions that it has. One that is made can be read by its
// owner alone.
func replaceFile(path string, content []byte) error {
	mode, owner, group := os.FileMode(0o600), -1, -1
	if info, err := os.Stat(path); err == nil {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
		of := info.Sys().(*syscall.Stat_t)
		mode, owner, group = info.Mode().Perm(), int(of.Uid), int(of.Gid)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Chown(owner, group), temp.Chmod(mode), temp.Sync(), temp.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
