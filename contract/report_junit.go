package contract

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// JUnit writes the report as JUnit XML, which CI servers show: one test a case.
// Characters that XML cannot hold are written as \x00.
func (r Report) JUnit(w io.Writer) error {
	type trouble struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
	type testcase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Time    string   `xml:"time,attr"`
		Failure *trouble `xml:"failure"`
		Error   *trouble `xml:"error"`
	}
	type testsuite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Time     string     `xml:"time,attr"`
		Cases    []testcase `xml:"testcase"`
	}
	suite := testsuite{
		Name: visible(r.Name), Tests: len(r.Results),
		Failures: r.count(StatusDifferent), Errors: r.count(StatusError) + r.count(StatusOutdated),
	}
	total := 0.0
	for _, result := range r.Results {
		total += result.Duration.Seconds()
		test := testcase{
			Class: visible(r.Name + "." + result.Case.TaskClass), Name: visible(result.Case.Name),
			Time: fmt.Sprintf("%.3f", result.Duration.Seconds()),
		}
		switch result.Status() {
		case StatusDifferent:
			fields := make([]string, len(result.Differences))
			for i, d := range result.Differences {
				fields[i] = d.Field
			}
			test.Failure = &trouble{visible(strings.Join(fields, ", ")), "difference", result.text(false)}
		case StatusError, StatusOutdated:
			test.Error = &trouble{visible(result.Err.Error()), result.Status(), result.text(false)}
		}
		suite.Cases = append(suite.Cases, test)
	}
	suite.Time = fmt.Sprintf("%.3f", total)
	content, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return fmt.Errorf("write JUnit XML: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, content)
	return err
}
