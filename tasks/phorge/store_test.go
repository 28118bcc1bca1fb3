package phorge

import "strings"

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
