package tests

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	// quotation is a block of the guide that says where it is from.
	quotation = regexp.MustCompile("(?m)^\\[([^\\]\n]+)\\]\\(([^)\n]+)\\)\n\n```[a-z]+\n((?:[^`\n].*\n|\n)*)```$")
	goCode    = regexp.MustCompile("(?m)^```go$")
	toc       = regexp.MustCompile(`\]\(#([a-z-]+)\)`)
	title     = regexp.MustCompile(`(?m)^## (.+)$`)
)

const (
	guideFile = "../contract/GUIDE.md"
	leftOut   = "…" // on a line of its own: what stands there in the file is left out
)

func TestTheGuideQuotesWhatIsInTheTree(t *testing.T) {
	content, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	guide := string(content)
	quotes := quotation.FindAllStringSubmatch(guide, -1)
	if len(quotes) < 8 {
		t.Fatalf("only %d quotes were found; the test is not looking at the guide", len(quotes))
	}
	for _, quote := range quotes {
		name, link, text := quote[1], quote[2], quote[3]
		if path.Join("contract", link) != name {
			t.Errorf("%s is linked as %s", name, link)
		}
		if complaint := differs(name, text); complaint != "" {
			t.Error(complaint)
		}
	}
	if all := len(goCode.FindAllString(guide, -1)); all != strings.Count(strings.Join(flat(quotes), "\n"), "```go") {
		t.Errorf("of %d blocks of Go some do not say from where they are", all)
	}
}

func flat(quotes [][]string) (whole []string) {
	for _, quote := range quotes {
		whole = append(whole, quote[0])
	}
	return whole
}

// differs answers which part of a quote is not in a file, in its order, or "".
func differs(name, text string) string {
	content, err := os.ReadFile("../" + name)
	if err != nil {
		return err.Error()
	}
	rest := "\n" + string(content)
	for part := range strings.SplitSeq("\n"+text, "\n"+leftOut+"\n") {
		part = "\n" + strings.Trim(part, "\n") + "\n"
		_, behind, found := strings.Cut(rest, part)
		if !found {
			return "the guide quotes what is not, or not in this order, in " + name + ":" + part
		}
		rest = "\n" + behind
	}
	return ""
}

func TestAQuoteThatIsNotInTheFileIsSeen(t *testing.T) {
	const name = "cmd/handler-herald/main.go"
	for text, wrong := range map[string]bool{
		"package main\n":              false,
		"package main\n…\nimport (\n": false,
		"import (\n…\npackage main\n": true,
		"package mai\n":               true,
		"package main\nimport (\n":    true,
		"import (\n…\nimport (\n":     true,
	} {
		if got := differs(name, text) != ""; got != wrong {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestTheContentsOfTheGuideAreItsTitles(t *testing.T) {
	content, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	var linked, there []string
	for _, match := range toc.FindAllStringSubmatch(string(content), -1) {
		linked = append(linked, match[1])
	}
	for _, match := range title.FindAllStringSubmatch(string(content), -1) {
		there = append(there, strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(match[1], ",", "")), " ", "-"))
	}
	if strings.Join(linked, " ") != strings.Join(there, " ") {
		t.Errorf("the contents link %v, the titles are %v", linked, there)
	}
}
