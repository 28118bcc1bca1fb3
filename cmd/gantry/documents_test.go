package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// command lines of gantry in Markdown: indented code, or between backticks.
var (
	shownLine   = regexp.MustCompile(`(?m)^ {4,}(?:sudo )?gantry ([a-z].*)$`)
	shownInline = regexp.MustCompile("`gantry ([a-z][^`]*)`")
	words       = regexp.MustCompile(`'[^']*'|\S+`)
)

// TestTheDocumentsShowCommandsThatThereAre holds what people copy from the
// documents against the commands and their flags.
func TestTheDocumentsShowCommandsThatThereAre(t *testing.T) {
	for _, name := range []string{
		"README.md", "contract/GUIDE.md", "DEVIATIONS.md", "plugins/scaffold/files/README.md.tmpl", "cmd/gantry/GORGE.md", "php/README.md",
		"bridge/conduit/README.md", "bridge/gateway/README.md", "tasks/queueapi/README.md", "tasks/tracing/README.md",
	} {
		content, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		shown := append(shownLine.FindAllStringSubmatch(string(content), -1), shownInline.FindAllStringSubmatch(string(content), -1)...)
		if len(shown) == 0 && name != "DEVIATIONS.md" {
			t.Errorf("%s shows no command; the test is not looking at it", name)
		}
		for _, match := range shown {
			if err := understood(match[1]); err != nil {
				t.Errorf("%s: gantry %s: %v", name, match[1], err)
			}
		}
	}
}

// understood answers why a command line is not understood, without running it.
func understood(line string) error {
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " | ")
	args := words.FindAllString(line, -1)
	for i := range args {
		args[i] = strings.Trim(args[i], "'")
	}
	cmd, rest, err := newApp().root().Find(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return usagef("there is no command %q", rest[0])
	}
	cmd.InitDefaultHelpFlag()
	return cmd.ParseFlags(rest)
}

func TestACommandThatIsNotThereIsSeen(t *testing.T) {
	for line, wrong := range map[string]bool{
		"run --until-empty":                                false,
		"tasks show --id 4711":                             false,
		"contract record --only 'silent-*'":                false,
		"contract verify cases --nothing":                  true,
		"tasks nothing":                                    true,
		"nothing":                                          true,
		"tasks enqueue --data '{\"a\":\"b c\"}' --class A": false,
	} {
		if got := understood(line) != nil; got != wrong {
			t.Errorf("%s: %v", line, got)
		}
	}
}
