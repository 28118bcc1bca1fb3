package phpenc

import "testing"

// What is wanted here is what PHP 8.2 makes of these values.
func TestTextAndTruthAreThoseOfPHP(t *testing.T) {
	for in, want := range map[string]struct {
		text  string
		truth bool
	}{
		`null`: {"", false}, `false`: {"", false}, `true`: {"1", true}, `0`: {"0", false}, `-7`: {"-7", true},
		`1.5`: {"1.5", true}, `1e25`: {"1.0E+25", true}, `0.30000000000000004`: {"0.3", true}, `0.0`: {"0", false},
		`""`: {"", false}, `"0"`: {"0", false}, `"00"`: {"00", true}, `"false"`: {"false", true},
	} {
		value := DecodeJSON([]byte(in))
		if text, ok := Text(value); !ok || text != want.text {
			t.Errorf("%s is the text %q, %v; PHP says %q", in, text, ok, want.text)
		}
		if truth := Truth(value); truth != want.truth {
			t.Errorf("%s is %v", in, truth)
		}
	}
	for in, want := range map[string]bool{`[]`: false, `[0]`: true} {
		value := DecodeJSON([]byte(in))
		if _, ok := Text(value); ok || Truth(value) != want {
			t.Errorf("%s is a text: %v, and %v", in, ok, Truth(value))
		}
	}
}

func TestWithSetsAKeyInItsPlace(t *testing.T) {
	before := DecodeJSON([]byte(`{"a":1,"b":2}`)).(Array)
	got, err := EncodeJSON(before.With("a", "x").With("c", List([]string{"y"})))
	if want := `{"a":"x","b":2,"c":["y"]}`; got != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	if before[0].Value != int64(1) {
		t.Error("the array itself was changed")
	}
}
