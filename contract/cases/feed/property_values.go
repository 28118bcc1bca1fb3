package feed

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/draw"
)

// kinds are types of transactions of a task with values that they have in
// practice: before and after.
var kinds = []struct {
	kind   string
	values [][2]string
}{
	{"core:create", [][2]string{{`null`, `true`}}},
	{"core:comment", [][2]string{{`null`, `null`}}},
	{"title", [][2]string{{`null`, `"new"`}, {`"old"`, `"n \"e\" w"`}, {`""`, `"new"`}}},
	{"description", [][2]string{{`""`, `"text"`}, {`"a"`, `"b"`}}},
	{"status", [][2]string{{`null`, `"open"`}, {`"open"`, `"resolved"`}, {`"wontfix"`, `"open"`}, {`"open"`, `"duplicate"`}, {`"invalid"`, `"spite"`}, {`"open"`, `"odd"`}}},
	{"priority", [][2]string{{`"90"`, `"50"`}, {`"50"`, `"100"`}, {`"80"`, `25`}, {`"0"`, `"25"`}, {`"7"`, `"50"`}, {`null`, `"90"`}}},
	{"reassign", [][2]string{{`null`, quoted(alice)}, {`null`, quoted(nobody)}, {quoted(nobody), `null`}, {quoted(alice), quoted(nobody)}}},
	{"subpriority", [][2]string{{`1`, `2`}}},
	{"parent", [][2]string{{`null`, quoted(other)}}},
	{"mergedinto", [][2]string{{`null`, quoted(other)}}},
	{"mergedfrom", [][2]string{{`null`, `["` + other + `"]`}}},
	{"cover-image", [][2]string{{`null`, `"PHID-FILE-none0000000000000000"`}, {`"PHID-FILE-none0000000000000000"`, `null`}}},
	{"unblock", [][2]string{{`{"` + other + `":"open"}`, `{"` + other + `":"resolved"}`}}},
	{"points", [][2]string{{`null`, `3`}}},
	{"attach", [][2]string{{`[]`, `[]`}}},
	{"core:subscribers", [][2]string{{`[]`, `["` + alice + `"]`}, {`["` + nobody + `"]`, `[]`}, {`["` + alice + `"]`, `["` + alice + `","` + nobody + `"]`}, {`[]`, `[]`}}},
	{"core:view-policy", [][2]string{{`"users"`, `"admin"`}, {`null`, `"public"`}}},
	{"core:edit-policy", [][2]string{{`"users"`, `"PHID-PLCY-none0000000000000000"`}}},
	{"core:interact-policy", [][2]string{{`"users"`, `"no-one"`}}},
	{"core:space", [][2]string{{`null`, `"PHID-SPCE-none0000000000000000"`}}},
	{"core:edge", [][2]string{{`[]`, `["PHID-PROJ-none0000000000000000"]`}, {`{"` + other + `":{"dst":"` + other + `"}}`, `[]`}}},
	{"core:file", [][2]string{{`[]`, `{"PHID-FILE-none0000000000000000":"attach"}`}}},
	{"core:columns", [][2]string{
		{`null`, `[{"columnPHID":"PHID-PCOL-b","boardPHID":"PHID-PROJ-a","fromColumnPHIDs":["PHID-PCOL-a"]}]`},
		{`null`, `[{"columnPHID":"PHID-PCOL-a","boardPHID":"PHID-PROJ-a","fromColumnPHIDs":{"PHID-PCOL-a":"PHID-PCOL-a"}}]`},
	}},
	{"core:subtype", [][2]string{{`"default"`, `"other"`}}},
	{"core:mfa", [][2]string{{`null`, `true`}}},
	{"token:give", [][2]string{{`null`, `"PHID-TOKN-like-1"`}}},
	{"core:customfield", [][2]string{{`null`, `"x"`}}},
	{"ccs", [][2]string{{`[]`, `[]`}}},
}

// transactions adds some to the world and answers their PHIDs, in the order in
// which the story names them.
func transactions(t *rapid.T, world map[string][]contract.Row) (phids []string) {
	count := rapid.IntRange(1, 3).Draw(t, "transactions")
	if draw.Chance(t, "none", 5) {
		count = 0
	}
	for i := range count {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		values := rapid.SampledFrom(kind.values).Draw(t, "values")
		if draw.Chance(t, "odd values", 3) {
			values = [2]string{anyJSON(t, 2), anyJSON(t, 2)}
		}
		row := contract.Row{
			"phid": fmt.Sprintf("PHID-XACT-TASK-number00000000%d", i), "objectPHID": task,
			"authorPHID": draw.Pick(t, "author", alice, alice, nobody, herald), "viewPolicy": "no-one", "editPolicy": "no-one",
			"transactionType": kind.kind, "oldValue": values[0], "newValue": values[1], "contentSource": "{}", "metadata": metadata(t),
		}
		if kind.kind == "core:comment" || draw.Chance(t, "commented", 3) {
			comment := fmt.Sprintf("PHID-XCMT-number00000000000%d", i)
			row["commentPHID"] = comment
			if !draw.Chance(t, "comment is gone", 4) {
				world["maniphest.maniphest_transaction_comment"] = append(world["maniphest.maniphest_transaction_comment"], contract.Row{
					"phid": comment, "transactionPHID": row["phid"], "authorPHID": alice, "viewPolicy": "no-one", "editPolicy": "no-one",
					"commentVersion": 1, "contentSource": "{}", "content": draw.Pick(t, "content", "", " \n\t", "Hello", "**b** @alice T1 {F1} #x [[ y | z ]]\n\n- a\n- b"),
				})
			}
		}
		world["maniphest.maniphest_transaction"] = append(world["maniphest.maniphest_transaction"], row)
		phids = append(phids, row["phid"].(string))
	}
	if phids == nil {
		return []string{}
	}
	return rapid.Permutation(phids).Draw(t, "order")
}

// metadata answers that of a transaction, with whatever may hide it.
func metadata(t *rapid.T) string {
	if draw.Chance(t, "bare", 1) {
		if draw.Chance(t, "odd metadata", 4) {
			return draw.Pick(t, "metadata", "{}", "null", "")
		}
		return "[]"
	}
	var members []string
	for _, flag := range []string{"core.create", "core.default", "attach.implicit", "blocker.new", "commitPHID"} {
		if draw.Chance(t, flag, 3) {
			members = append(members, quoted(flag)+":"+draw.Pick(t, "flag", "true", "1", `"x"`, "false", "0", `"0"`, "null"))
		}
	}
	members = append(members, `"edge:type":`+draw.Pick(t, "edge:type", "41", "41", `"51"`, "52", "5", "1", "62", "67", "3"))
	return "{" + strings.Join(members, ",") + "}"
}

func text(t *rapid.T, label string) string {
	return rapid.StringOf(rapid.RuneFrom([]rune("ab1 05~&=+%<>\"'[]/\\:.é€😀\x00\n"))).Filter(func(s string) bool {
		return len(s) <= 60
	}).Draw(t, label)
}

func quoted(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// anyJSON answers whatever PHP can read, and some that it can not keep.
func anyJSON(t *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 6).Draw(t, "json")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return draw.Pick(t, "word", "null", "true", "false", `""`, `"0"`, "[]", "{}", "-0", "-0.0", "1e999", "12345678901234567890")
	case 1:
		return strconv.FormatInt(rapid.Int64().Draw(t, "int"), 10)
	case 2:
		if f := rapid.Float64().Draw(t, "float"); !math.IsInf(f, 0) && !math.IsNaN(f) {
			return strconv.FormatFloat(f, 'e', -1, 64)
		}
		return "1.0"
	case 3:
		return quoted(text(t, "text"))
	case 4, 5:
		var members []string
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			members = append(members, quoted(text(t, "member"))+":"+anyJSON(t, depth-1))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	var elements []string
	for range rapid.IntRange(0, 3).Draw(t, "elements") {
		elements = append(elements, anyJSON(t, depth-1))
	}
	return "[" + strings.Join(elements, ",") + "]"
}
