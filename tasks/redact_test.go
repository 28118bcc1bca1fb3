package tasks

import (
	"cmp"
	"testing"
)

func TestReasonsAreRedacted(t *testing.T) {
	for _, c := range []struct{ name, reason, want string }{
		{"plain text stays", "it failed: no\n\tuse, ask a@b.example", ""},
		{"a port looks like a password when an @ follows", "GET http://h:80/x@y failed", "GET http://***@y failed"},
		{"a URL without credentials stays", "GET http://h/x@y?page=1#t failed", ""},
		{"user and password", "clone ssh://git:s3cret@h/x", "clone ssh://***@h/x"},
		{"a password with an @", "https://u:p@ss@h/", "https://***@h/"},
		{"a password with a slash", "https://u:p/a?ss@h/", "https://***@h/"},
		{"a token as the user", "https://ghp_abc@h/", "https://***@h/"},
		{"two of them", "a://x:y@h b://x:y@i", "a://***@h b://***@i"},
		{"parameters that let somebody in", "http://h/?a=1&api.token=cli-x&b=2&Password=p", "http://h/?a=1&api.token=***&b=2&Password=***"},
		{"control characters", "a\x00b\x1b]0;x\x07c\r\nd\x7fe\u009bf\u202eg", "a b ]0;x c \nd e f g"},
		{"no UTF-8", "a\xffb", "a�b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := redact(c.reason, 100), cmp.Or(c.want, c.reason); got != want {
				t.Errorf("%q becomes %q, want %q", c.reason, got, want)
			}
		})
	}
	if got := redact("ééé", 5); got != "éé" {
		t.Errorf("cut to 5 bytes: %q", got)
	}
}
