package host

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// checkZeros refuses limits of 0 that are written out: 0 in a Class stands for
// one that is not, and nobody who writes it means that.
func checkZeros(content []byte) error {
	var written struct {
		Plugins []struct {
			Classes map[string]struct {
				Slots           *int
				Lease, Deadline *time.Duration
			}
		}
	}
	if err := yaml.Unmarshal(content, &written); err != nil {
		return plainYAMLError(err)
	}
	for _, plugin := range written.Plugins {
		for _, name := range slices.Sorted(maps.Keys(plugin.Classes)) {
			class := plugin.Classes[name]
			switch {
			case class.Slots != nil && *class.Slots == 0:
				return fmt.Errorf("class %s: slots 0 must be 1 or more; remove the class to run none of it, or leave slots out for no limit", name)
			case class.Lease != nil && *class.Lease == 0:
				return fmt.Errorf("class %s: lease 0s is less than a second; leave it out for the one of all classes", name)
			case class.Deadline != nil && *class.Deadline == 0:
				return fmt.Errorf("class %s: deadline 0s is less than a second; leave it out for no deadline", name)
			}
		}
	}
	return nil
}

// What the YAML library says in terms of Go types, which mean nothing to an
// administrator.
var (
	unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)
	wrongType    = regexp.MustCompile("cannot unmarshal !!\\S+(?: `.*`)? into (\\S+)")
	written      = regexp.MustCompile("`(.*)`")
)

// kinds is what belongs where a manifest holds something else, by the Go type.
var kinds = map[string]string{
	"host.Manifest":         "`plugins:` with a list of handler binaries belongs here",
	"[]host.Plugin":         "a list of handler binaries belongs here, each with its path and classes",
	"host.Plugin":           "the path and the classes of a handler binary belong here",
	"map[string]host.Class": "names of task classes and their limits belong here, as in `PhabricatorTestWorker: {slots: 16}`",
	"host.Class":            "the limits of a class belong here, as in `{slots: 16}`, or {} for none",
	"[]string":              "a list of names belongs here, as in `[HTTPS_PROXY]`",
	"bool":                  "true or false belongs here",
	"int":                   "a whole number belongs here",
	"time.Duration":         "a duration with its unit belongs here, as 30s",
}

func plainYAMLError(err error) error {
	var typed *yaml.TypeError
	if !errors.As(err, &typed) {
		return err
	}
	lines := make([]string, len(typed.Errors))
	for i, line := range typed.Errors {
		line = unknownField.ReplaceAllString(line, `unknown key "$1"`)
		lines[i] = wrongType.ReplaceAllStringFunc(line, func(match string) string {
			kind := cmp.Or(kinds[wrongType.FindStringSubmatch(match)[1]], "a text belongs here")
			if value := written.FindStringSubmatch(match); value != nil {
				return fmt.Sprintf("%q: %s", value[1], kind)
			}
			return kind
		})
	}
	return errors.New(strings.Join(lines, "; "))
}
