package main

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/phorge-gantry/gantry/tasks/queueapi"
	"github.com/phorge-gantry/gantry/tasks/token"
	"github.com/spf13/cobra"
)

// rights are those that a token can have.
var rights = []string{string(queueapi.Enqueue), string(queueapi.Work), string(queueapi.Operate), string(queueapi.Read)}

func (a *app) tokensCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "tokens",
		Short: "Make and list the tokens of those who use the queue over HTTP, or a gateway",
		Long: `Make and list the tokens with which programs use the queue that ` + "`gantry serve`" + ` and
` + "`gantry run --api`" + ` serve, and those with which they call Conduit through ` + "`gantry gateway`" + `.
The file holds who they are, and the digests of their tokens, not the tokens:

  tokens:
    - name: build-server
      instance: acme
      rights: [enqueue, read]
      digest: 4f0c...
      rate: 50      # calls a second, without limit where it is left out
      burst: 100    # calls at once beyond that; one second's worth without it
    - name: editor-plugin
      allow: [conduit.ping, "user.*"]   # methods of Conduit that it may call
      deny: [user.edit]                 # but not these
      exempt: [conduit.ping]            # and these are not counted
      digest: 90b7...
      rate: 5

To take a token away, remove its entry. The file is read when a server starts.`,
		Example: `  gantry tokens new build-server --rights enqueue,read --tokens /etc/gantry/tokens.yaml
  gantry tokens list`,
	}, a.tokensNewCommand(), a.tokensListCommand())
	addFlags(cmd.PersistentFlags(), "tokens")
	return cmd
}

// validTokenName is what a caller may be called: the name stands in each line of
// the log.
var validTokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (a *app) tokensNewCommand() *cobra.Command {
	var of, allow []string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Make a token and write its digest into the file",
		Long: `Make a token for a program of that name, show it, and write its digest into the
file of tokens. The token is shown this once and kept nowhere. A new file can be
read by its owner alone; one that exists keeps its owner and its permissions.

The rights are enqueue (queue tasks), work (lease and settle them), operate (cancel
and awaken) and read (look at them and count them). A token is for one instance:
the one that --instance names, or the only one there is. With --allow it is for a
gateway: for the methods of Conduit that are named, or that begin as what ends in *.

To replace a token: make one of another name, give it to the program, and remove
the entry of the old one.`,
		Example: `  gantry tokens new build-server --rights enqueue,read
  gantry tokens new printer --rights work --instance acme --output json | jq -r .token
  gantry tokens new editor-plugin --allow 'conduit.ping,user.*'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !validTokenName.MatchString(args[0]) {
				return usagef("name the program that is to have the token, with at most 64 letters, digits, dots, hyphens and underscores, as in `%s build-server --rights enqueue`", cmd.CommandPath())
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&of, "rights", nil, "what it may be used for: `list` of "+strings.Join(rights, ", "))
	cmd.Flags().Lookup("rights").DefValue = ""
	complete(cmd, "rights", rights...)
	cmd.Flags().StringSliceVar(&allow, "allow", nil, "what it may call through a gateway: `list` of methods, or of beginnings that end in *")
	cmd.Flags().Lookup("allow").DefValue = ""
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch unknown := slices.IndexFunc(of, func(right string) bool { return !slices.Contains(rights, right) }); {
		case len(of)+len(allow) == 0:
			return usagef("say what the token may be used for with --rights: %s; or what it may call through a gateway with --allow", strings.Join(rights, ", "))
		case unknown >= 0:
			return usagef("there is no right %q; they are %s", of[unknown], strings.Join(rights, ", "))
		}
		c, err := a.load(cmd)
		if err != nil {
			return err
		}
		entry := tokenEntry{Name: args[0], Rights: of, Allow: allow}
		if len(of) > 0 {
			if c, err = c.one(); err == nil {
				entry.Instance, err = c.instanceName()
			}
			if err != nil {
				return err
			}
		}
		return a.newToken(c, entry)
	}
	return cmd
}

// tokenReport is what is told about a token. Token is told once.
type tokenReport struct {
	Name     string   `json:"name"`
	Instance string   `json:"instance,omitempty"`
	Rights   []string `json:"rights,omitempty"`
	Allow    []string `json:"allow,omitempty"`
	Token    string   `json:"token,omitempty"`
}

func (a *app) newToken(c *config, entry tokenEntry) error {
	entries, content, err := readTokens(c.Tokens)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if slices.ContainsFunc(entries, func(other tokenEntry) bool { return other.Name == entry.Name }) {
		return usagef("%s has a token of that name, %s: choose another, or remove its entry first", c.Tokens, entry.Name)
	}
	secret, digest := token.New()
	entry.Digest = digest
	if content, err = withEntry(content, entry); err != nil {
		return coded{fmt.Errorf("tokens %s: %w", c.Tokens, err), exitUsage}
	}
	if err := replaceFile(c.Tokens, content); err != nil {
		return fmt.Errorf("write the file of tokens: %w", err)
	}
	if a.print.json {
		return a.print.document(tokenReport{entry.Name, entry.Instance, entry.Rights, entry.Allow, secret})
	}
	a.print.linef("%s", secret)
	a.print.linef("")
	a.print.linef("This is the token of %s. It is shown this once: give it to the program, which sends it as X-Service-Token.", entry.Name)
	if len(entry.Rights) > 0 {
		a.print.linef("It is good for %s on the instance %s, once the server is started again.", strings.Join(entry.Rights, ", "), entry.Instance)
	}
	if len(entry.Allow) > 0 {
		a.print.linef("It may call %s, once the gateway is started again.", plain(strings.Join(entry.Allow, ", ")))
	}
	return nil
}

func (a *app) tokensListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens of the file",
		Long: `List the names of the tokens in the file, their instances and their rights, and which
methods of Conduit they may call.`,
		Example: "  gantry tokens list --tokens /etc/gantry/tokens.yaml",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			entries, _, err := readTokens(c.Tokens)
			if err != nil {
				return err
			}
			return a.printTokens(c.Tokens, entries)
		},
	}
}

func (a *app) printTokens(file string, entries []tokenEntry) error {
	reports, rows := []tokenReport{}, [][]string{}
	for _, e := range entries {
		reports = append(reports, tokenReport{Name: e.Name, Instance: e.Instance, Rights: e.Rights, Allow: e.Allow})
		rows = append(rows, []string{plain(e.Name), plain(orDash(e.Instance)), plain(orDash(strings.Join(e.Rights, ", "))), plain(orDash(strings.Join(e.Allow, ", ")))})
	}
	if a.print.json {
		return a.print.document(struct {
			File   string        `json:"file"`
			Tokens []tokenReport `json:"tokens"`
		}{file, reports})
	}
	a.print.table([]string{"NAME", "INSTANCE", "RIGHTS", "METHODS"}, rows)
	return nil
}
